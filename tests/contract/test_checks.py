"""check(): messages, never a traceback. Settings, databases and tables: tests/test_checks.py."""

from __future__ import annotations

import pytest

from django_jobs import checks
from django_jobs.framework import IN_CORE, task_backends
from tests.contract import processes
from tests.contract.tasks import TASKS

BACKEND = "django_jobs.backend.JobsBackend"


def told(*found):
    return {message.id: message.msg for message in found}


class Routers:
    """Database routers of a project."""

    def __init__(self, write=None, migrate=None):
        self.write, self.migrate = write, migrate

    def db_for_write(self, model, **hints):
        return self.write

    def allow_migrate(self, db, app_label, **hints):
        return self.migrate


def test_a_project_that_is_right_hears_nothing():
    assert list(task_backends["default"].check()) == []
    assert checks.check_settings() == []


def test_without_the_app_manage_check_says_so_without_a_traceback():
    code = """
import sys
from django.conf import settings
settings.configure(
    TASKS={"default": {"BACKEND": "django_jobs.backend.JobsBackend"}},
    INSTALLED_APPS=[*APPS],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
from django.utils.module_loading import import_string
import_string("PLACE")  # as the project's tasks do
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "check"])
"""
    module = "django.tasks" if IN_CORE else "django_tasks"
    apps = [] if IN_CORE else [module]
    done = processes.call("-c", code.replace("[*APPS]", repr(apps)).replace("PLACE", f"{module}.task"))

    assert done.returncode == 1
    assert "django_jobs.E005" in done.stderr
    assert "Add 'django_jobs' to INSTALLED_APPS" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"databse": "default"}, "Did you mean 'database'?"),
        ({"MAX_ATTEMPTS": 3}, "has no setting 'MAX_ATTEMPTS'. Did you mean 'max_attempts'?"),
        ({"max_attempts": "3"}, "must be a whole number from 1"),
        (["database"], "must be a dict"),
        (None, "must be a dict"),
    ],
    ids=str,
)
def test_options_that_are_unknown_or_wrong(project, options, says):
    project.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": options}}

    [message] = task_backends["default"].check()

    assert (message.id, says in message.msg) == ("django_jobs.E006", True)
    assert "TASKS['default']['OPTIONS']" in message.msg


@pytest.mark.parametrize(
    ("queues", "says"),
    [
        ("mail", "must be a list of names, not 'mail'"),
        (["mail", ""], "not ''"),
        (["x" * 129], "longer than 128"),
        ([7], "not 7"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_queues_that_no_job_can_be_in(project, queues, says):
    project.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": queues}}

    [message] = task_backends["default"].check()

    assert (message.id, says in message.msg) == ("django_jobs.E008", True)


class TestRouters:
    def test_that_look_elsewhere(self, project):
        project.DATABASE_ROUTERS = [Routers(write="archive")]
        project.DJANGO_JOBS = {"database": "default"}
        project.TASKS = {"default": TASKS["default"]}

        found = told(*checks.check_routers())

        assert "Job.objects.all() to 'archive'" in found["django_jobs.W002"]

    def test_a_backend_that_keeps_jobs_where_no_worker_looks(self, project):
        project.DJANGO_JOBS = {"database": "default"}
        project.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": {"database": "archive"}}}

        found = told(*checks.check_routers())
        assert "'archive', but runjobs and the admin look for them in 'default'" in found["django_jobs.W002"]

    def test_that_do_not_let_the_tables_be_made(self, project):
        project.DATABASE_ROUTERS = [Routers(migrate=False)]

        assert "don't let migrate make the tables" in told(*checks.check_routers())["django_jobs.W003"]

    def test_that_are_right_hear_nothing(self, project):
        project.DATABASE_ROUTERS = [Routers(write="default", migrate=True)]

        assert checks.check_routers() == []

    def test_a_wrong_backend_beside_ours_is_no_crash(self, project):
        project.TASKS = {**TASKS, "wrong": {"BACKEND": "no.such.Backend"}}

        assert checks.check_routers() == []
