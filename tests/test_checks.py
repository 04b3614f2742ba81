"""System checks: what is wrong with a project, found before anything runs."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.core.checks import run_checks
from django.db import connection, connections

from django_jobs import checks
from django_jobs.framework import task_backends

BACKEND = "django_jobs.backend.JobsBackend"


def found(*, databases=None):
    """Return the ids and messages of what our checks say."""
    return {
        message.id: message.msg
        for message in run_checks(databases=databases)
        if str(message.id).startswith("django_jobs.")
    }


def found_in_settings():
    return {message.id: message.msg for message in checks.check_settings()}


@pytest.fixture
def other_databases(monkeypatch):
    """More aliases, as far as checks need them."""
    for alias, engine in [("jobs", "postgresql"), ("lite", "sqlite3")]:
        settings = connections["default"].settings_dict | {"ENGINE": f"django.db.backends.{engine}"}
        monkeypatch.setitem(connections.settings, alias, settings)
    yield
    for alias in ("jobs", "lite"):
        with suppress(AttributeError):  # not every test came to use it
            del connections[alias]


def test_a_project_that_is_right_hears_nothing():
    assert found() == {}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"thread": 1}, "Did you mean 'threads'?"),
        ({"threads": 0}, "must be a whole number above 0, not 0"),
        ([], "must be a dict"),
    ],
)
def test_wrong_settings(settings, given, told):
    settings.DJANGO_JOBS = given

    assert told in found()["django_jobs.E001"]


def test_every_wrong_setting_is_told(settings):
    settings.DJANGO_JOBS = {"thread": 1, "poll_seconds": -1}

    assert len(checks.check_settings()) == 2


@pytest.mark.parametrize("key", ["database", "listen_database"])
def test_unknown_aliases(settings, key):
    settings.DJANGO_JOBS = {key: "defualt"}

    assert f"DJANGO_JOBS['{key}']" in found()["django_jobs.E002"]
    assert "Did you mean 'default'?" in found()["django_jobs.E002"]


@pytest.mark.parametrize("key", ["database", "listen_database"])
def test_databases_that_are_not_postgresql(settings, other_databases, key):
    settings.DJANGO_JOBS = {key: "lite"}

    assert "'lite' is sqlite" in found_in_settings()["django_jobs.E003"]


def test_heartbeats_that_are_too_slow(settings):
    settings.DJANGO_JOBS = {"heartbeat_seconds": 20.0, "dead_after_seconds": 30.0}

    assert "less than two heartbeats" in found()["django_jobs.E004"]


def test_jobs_beside_the_data(settings, other_databases):
    settings.DJANGO_JOBS = {"database": "jobs"}

    assert "not of one on 'default'" in found_in_settings()["django_jobs.W001"]


class TestBackends:
    @pytest.fixture(autouse=True)
    def checked(self, settings):
        """Have Django check the backends that a test configures."""

        def check(**options):
            settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}
            return {message.id: message.msg for message in task_backends["default"].check()}

        self.check = check

    def test_that_are_right_hear_nothing(self):
        assert self.check(max_attempts=3) == {}

    def test_with_wrong_options(self):
        assert "Did you mean 'max_attempts'?" in self.check(max_atempts=3)["django_jobs.E006"]
        assert "TASKS['default']['OPTIONS']" in self.check(threads=3)["django_jobs.E006"]

    def test_on_unknown_databases(self):
        assert "Did you mean 'default'?" in self.check(database="defualt")["django_jobs.E002"]

    def test_on_other_databases(self, other_databases):
        assert set(self.check(database="jobs")) == {"django_jobs.W001"}
        assert set(self.check(database="lite")) == {"django_jobs.E003"}

    def test_without_the_app(self, settings):
        settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_jobs"]

        assert set(self.check()) == {"django_jobs.E005"}


class TestTables:
    def test_are_not_looked_for_by_wrong_settings(self, settings):
        settings.DJANGO_JOBS = {"threads": 0}

        assert checks.check_tables(databases=["default"]) == []

    def test_that_are_all_there_hear_nothing(self, db):
        assert found(databases=["default"]) == {}

    def test_are_only_looked_at_when_asked_to(self, db, django_assert_num_queries):
        with django_assert_num_queries(0):
            checks.check_tables()

    @pytest.mark.parametrize(
        ("statement", "told"),
        [
            ("DROP TABLE django_jobs_queue", "The table django_jobs_queue is missing"),
            (
                "ALTER TABLE django_jobs_job DROP COLUMN reason",
                "The column django_jobs_job.reason is missing",
            ),
            (
                "ALTER TABLE django_jobs_attempt DROP CONSTRAINT django_jobs_attempt_number",
                "The constraint django_jobs_attempt_number on django_jobs_attempt is missing",
            ),
            ("DROP INDEX django_jobs_ready", "The index django_jobs_ready on django_jobs_job is missing"),
        ],
    )
    def test_that_miss_something_are_named(self, db, statement, told):
        with connection.cursor() as cursor:
            cursor.execute(statement)

        assert told in found(databases=["default"])["django_jobs.E007"]

    def test_of_a_backend_in_another_database_are_looked_at_too(
        self, db, settings, other_databases, monkeypatch
    ):
        settings.TASKS = {
            "default": {"BACKEND": BACKEND},
            "events": {"BACKEND": BACKEND, "OPTIONS": {"database": "jobs"}},
        }
        monkeypatch.setattr(checks, "missing_tables", lambda alias: [f"no table in {alias}"])

        messages = checks.check_tables(databases=["jobs", "lite"])

        assert [(message.msg, message.hint) for message in messages] == [
            ("no table in jobs", "Run: manage.py migrate --database jobs")
        ]
