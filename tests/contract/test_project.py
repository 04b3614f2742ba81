"""Our backend in a whole project: its own tests, its databases and routers, its commands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.contract import processes
from tests.scenarios import marks

LIBRARY = "tests.contract.project.library"


class Project:
    """The project in one layout, with databases of its own."""

    def __init__(self, server: dict[str, Any], layout: str, packages: Path | None = None) -> None:
        self.server = server
        self.name = f"project_{layout}_{os.getpid()}"
        self.variables = {
            "DJANGO_SETTINGS_MODULE": "tests.contract.project.settings",
            "PROJECT_NAME": self.name,
            "PROJECT_LAYOUT": layout,
        }
        self.warnings = ["-W", "error"]
        if packages is not None:  # others' code, and others' warnings
            self.variables["PYTHONPATH"] = f"{packages}{os.pathsep}{processes.CHECKOUT}"
            self.warnings = []

    def manage(self, *words: str, **variables: str) -> str:
        """Run a command and return what it printed; warnings are errors."""
        return processes.run(
            *self.warnings, "-m", "django", *words, variables={**self.variables, **variables}
        )

    def shell(self, code: str) -> str:
        """Run `code` with the project set up and return what it printed."""
        head = "import django; django.setup(); from django.conf import settings\n"
        return processes.run(*self.warnings, "-c", head + code, variables=self.variables).strip()

    def test(self, *options: str) -> str:
        """Run the project's own tests."""
        done = processes.call(
            *["-W", "error", "-m", "django", "test", f"{LIBRARY}.tests", "--noinput", *options],
            variables=self.variables,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def create(self, *suffixes: str) -> None:
        """Create and migrate databases: the name of each is the project's with a suffix."""
        with self.connect() as session:
            for suffix in suffixes:
                session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.name + suffix)))

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**{**self.server, "dbname": "postgres"}, autocommit=True)

    def databases(self) -> list[str]:
        """Return the suffixes of the databases that there are."""
        with self.connect() as session:
            found = session.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s) ORDER BY 1", [self.name]
            ).fetchall()
        return [name.removeprefix(self.name) for [name] in found]

    def drop(self) -> None:
        suffixes = self.databases()
        with self.connect() as session:
            for suffix in suffixes:
                session.execute(
                    sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.name + suffix))
                )


@pytest.fixture(scope="module")
def start_project(django_db_blocker) -> Iterator[Callable[..., Project]]:
    """Makes projects in a layout; their databases go with the module."""
    with django_db_blocker.unblock():
        server = marks.address()
    started: list[Project] = []

    def start(layout: str, *suffixes: str, packages: Path | None = None) -> Project:
        project = Project(server, layout, packages)
        started.append(project)
        project.create(*suffixes)
        for suffix in suffixes:
            project.manage("migrate", "--verbosity=0", f"--database={suffix.strip('_') or 'default'}")
        return project

    yield start
    for project in started:
        project.drop()


@pytest.fixture(scope="module")
def one_database(start_project: Callable[..., Project]) -> Project:
    return start_project("one", "")


@pytest.fixture(scope="module")
def two_databases(start_project: Callable[..., Project]) -> Project:
    return start_project("two", "", "_second")


@pytest.fixture(scope="module")
def with_replica(start_project: Callable[..., Project]) -> Project:
    return start_project("replica", "")


@pytest.mark.slow
def test_the_projects_own_tests_run_with_keepdb_and_in_parallel_and_their_databases_can_be_dropped(
    start_project,
):
    project = start_project("tests")

    assert "Ran 7 tests" in project.test("--keepdb")
    assert project.databases() == ["_test"]
    assert "Ran 7 tests" in project.test("--parallel", "2", "--keepdb")
    assert project.databases() == ["_test", "_test_1", "_test_2"]

    assert "Ran 7 tests" in project.test("--parallel", "2")
    assert project.databases() == []


@pytest.mark.slow
class TestTwoDatabases:
    """A second alias of the backend, with a real second database."""

    def test_each_alias_keeps_reads_and_runs_its_own_jobs(self, two_databases):
        enqueued = two_databases.shell(
            f"""
from {LIBRARY}.tasks import add_book, look_at_itself
here = look_at_itself.enqueue()
there = look_at_itself.using(backend="second", queue_name="reports").enqueue()
assert there.task.get_backend().get_result(there.id) == there
print(here.id, there.id)
"""
        ).split()

        two_databases.manage("runjobs", "--drain", "--database=second")
        assert state(two_databases, "default", enqueued[0]) == "READY"
        two_databases.manage("runjobs", "--drain")

        assert state(two_databases, "default", enqueued[0]) == "SUCCESSFUL ['RUNNING', 'default']"
        assert state(two_databases, "second", enqueued[1]) == "SUCCESSFUL ['RUNNING', 'second']"

    def test_a_transaction_on_one_does_not_hold_the_other(self, two_databases):
        assert (
            two_databases.shell(
                f"""
from django.db import transaction
from django_jobs.models import Job
from {LIBRARY}.tasks import look_at_itself
counts = lambda: [Job.objects.using(alias).filter(state="READY").count() for alias in ("default", "second")]
before = counts()
with transaction.atomic(using="second"):
    look_at_itself.enqueue()
    look_at_itself.using(backend="second", queue_name="reports").enqueue()
    transaction.set_rollback(True, using="second")
print([now - then for now, then in zip(counts(), before)])
"""
            )
            == "[1, 0]"
        )

    def test_the_checks_say_what_is_not_one_transaction(self, two_databases):
        done = processes.call("-m", "django", "check", "--database=second", variables=two_databases.variables)

        assert done.returncode == 0, done.stderr
        assert "django_jobs.W001" in done.stderr
        assert "django_jobs.W002" not in done.stderr


def counted(printed: str) -> str:
    return re.sub(r"\W+", " ", printed)


def state(site: Project, alias: str, pk: str) -> str:
    """Return a job's status, and its return value where it has one."""
    return site.shell(
        f"""
from django_jobs.framework import task_backends
result = task_backends[{alias!r}].get_result({pk!r})
print(result.status, result.return_value if result.status == "SUCCESSFUL" else "")
"""
    )


@pytest.mark.slow
class TestReplica:
    """Models are read from a replica, which refuses to write and may lag behind."""

    def test_jobs_are_enqueued_read_and_run_on_the_primary(self, with_replica):
        assert (
            with_replica.shell(
                f"""
from django.db import transaction
from {LIBRARY}.tasks import add_book
with transaction.atomic():
    result = add_book.enqueue("Momo")
    assert add_book.get_result(result.id) == result  # the replica couldn't see it yet
    result.refresh()
assert add_book.enqueue_many([("Krabat",)]) == 1
from django_jobs.models import Job
assert Job.objects.all().db == "replica"
print(result.status)
"""
            )
            == "READY"
        )

        assert "2 completed" in counted(with_replica.manage("runjobs", "--drain"))
        assert "2" in with_replica.manage("jobs", "status")

    def test_the_admin_looks_and_acts_on_the_primary(self, with_replica):
        assert (
            with_replica.shell(
                f"""
from django.contrib.auth.models import User
from django.test import Client
from django_jobs.models import Job
from {LIBRARY}.tasks import fail
settings.ALLOWED_HOSTS = ["testserver"]
pk = fail.using(run_after=__import__("datetime").timedelta(hours=1)).enqueue().id
client = Client()
client.force_login(User.objects.create_superuser("ada"))
page = client.get("/admin/django_jobs/job/")
assert page.status_code == 200, page
assert "library.tasks.fail" in page.content.decode()
assert client.get(f"/admin/django_jobs/job/{{pk}}/change/").status_code == 200
assert Job.objects.get(pk=pk).cancel()
other = fail.using(run_after=__import__("datetime").timedelta(hours=1)).enqueue().id
values = {{"queue_name": "mail", "priority": 5, "run_after": "2031-01-01T00:00:00"}}
assert client.post(f"/admin/django_jobs/job/edit/{{other}}/", values).status_code == 302
assert Job.objects.get(pk=other).queue_name == "mail"
assert client.post(f"/admin/django_jobs/job/cancel/{{other}}/").status_code == 302
assert Job.objects.get(pk=other).state == "CANCELLED"
print(Job.objects.using("default").get(pk=pk).state)
"""
            )
            == "CANCELLED"
        )


@pytest.mark.slow
class TestOneProject:
    def test_djangos_own_log_lines_come_once_and_in_order_from_a_worker_process(self, one_database):
        good, bad = one_database.shell(
            f"""
from {LIBRARY}.tasks import add_book, fail
print(add_book.enqueue("Momo").id, fail.using(max_attempts=1).enqueue().id)
"""
        ).split()

        done = processes.call(
            "-W", "error", "-m", "django", "runjobs", "--drain", variables=one_database.variables
        )

        lines = re.findall(r"^Task id=(\d+) path=\S+ state=(\w+)$", done.stderr, re.MULTILINE)
        assert [state for pk, state in lines if pk == good] == ["RUNNING", "SUCCESSFUL"]
        assert [state for pk, state in lines if pk == bad] == ["RUNNING", "FAILED"]
        assert done.stderr.count("SystemExit: 9") >= 1
        assert "NoneType: None" not in done.stderr

    def test_a_process_that_has_not_imported_the_tasks_finds_them_for_their_results(self, one_database):
        assert (
            one_database.shell(
                f"""
from django_jobs.models import Job
from django_jobs.framework import task_backends
pk = Job.objects.create(task_path="{LIBRARY}.tasks.fail", queue_name="default").pk
import sys
assert "{LIBRARY}.tasks" not in sys.modules
found = task_backends["default"].get_result(str(pk)).task
from {LIBRARY}.tasks import fail
print(found.func is fail.func)
"""
            )
            == "True"
        )

    @pytest.mark.parametrize("field", ["django.db.models.AutoField", "django.db.models.SmallAutoField"])
    def test_no_migration_is_missing_whatever_the_default_key(self, one_database, field):
        assert "No changes detected" in one_database.manage(
            "makemigrations", "django_jobs", "--check", "--dry-run", PROJECT_AUTO_FIELD=field
        )

    def test_migrations_can_be_taken_back_and_made_again(self, one_database):
        one_database.manage("migrate", "django_jobs", "zero", "--verbosity=0")
        assert (
            one_database.shell(
                "from django.db import connection\n"
                "print([n for n in connection.introspection.table_names() if n.startswith('django_jobs_')])"
            )
            == "[]"
        )
        one_database.manage("migrate", "django_jobs", "--verbosity=0")

        assert "no issues" in one_database.manage("check", "--database=default")
