"""
Runs Django's own tests of its Tasks framework with our backends in the place of Django's.

    python -m tests.contract.djangos_own FOLDER VARIANT REPORT

FOLDER is the folder `tests` of Django's source release. Nothing in it is changed: where its files say
`DummyBackend` or `ImmediateBackend` they get ours, because the names are bound anew before the files are
imported. On Django 5.2 they get the backport under Django's names too. REPORT becomes a JSON object from the
name of each test to "passed", or to what went wrong.

Variants: "test backends" puts in `django_jobs.testing`'s backends of the same names, without a database.
"tables" puts in `JobsBackend` itself on real tables, with `results` and `clear()` as Django's files want
them, and for `ImmediateBackend` one that runs each job at once by the statements of a worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import unittest
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.db import connections

from example_project import database, embedded

DJANGOS = {"DummyBackend": ".backends.dummy", "ImmediateBackend": ".backends.immediate"}
"""Where Django has the backends that its tests name."""

MODULES = ["test_tasks", "test_dummy_backend", "test_immediate_backend", "test_custom_backend"]


def main(folder: str, variant: str, report: str) -> None:
    """Run the tests and write the report."""
    sys.path.insert(0, folder)
    settings.configure(
        INSTALLED_APPS=["django_jobs"],
        DATABASES={"default": server()},
        DJANGO_JOBS={"max_attempts": 1},  # to Django's framework a task that raised has failed
        USE_TZ=True,
    )
    if django.VERSION < (6, 0):
        be_django_6()
    django.setup()
    put_in_place(*(stored() if variant == "tables" else in_memory()))
    if variant == "tables":
        test = vars(import_module("django.test"))
        test["SimpleTestCase"] = test["TransactionTestCase"]
    from django.test.runner import DiscoverRunner

    runner = DiscoverRunner(verbosity=0, interactive=False)
    runner.setup_test_environment()
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"tasks.{name}" for name in MODULES])
    databases = runner.setup_databases(aliases=["default"]) if variant == "tables" else []
    try:
        found = Report()
        suite.run(found)
    finally:
        runner.teardown_databases(databases)
    Path(report).write_text(json.dumps(found.told))


class Report(unittest.TestResult):
    """Notes what became of each test; subtests that fail make their test fail."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802  (unittest's names)
        super().startTest(test)
        self.told[name_of(test)] = "passed"

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self.told[name_of(test)] = self.errors[-1][1]

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self.told[name_of(test)] = self.failures[-1][1]

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.told[name_of(test)] = f"{err[0].__name__}: {err[1]}"


def name_of(test: unittest.TestCase) -> str:
    return test.id().removeprefix("tasks.")


def server() -> dict[str, Any]:
    """Return the tests' server, with a test database of this process' own."""
    if url := os.environ.get("DATABASE_URL"):
        found = database.from_url(url)
    else:
        found = database.from_server(embedded.for_tests(os.environ["DJANGO_JOBS_TEST_RUN"]))
    return {**found, "TEST": {"NAME": f"djangos_own_{os.getpid()}"}}


def put_in_place(dummy: type, immediate: type) -> None:
    """Bind the names of Django's backends to ours."""
    for name, backend in (("DummyBackend", dummy), ("ImmediateBackend", immediate)):
        vars(import_module(f"django.tasks{DJANGOS[name]}"))[name] = backend


def in_memory() -> Sequence[type]:
    from django_jobs.testing import DummyBackend, ImmediateBackend

    return DummyBackend, ImmediateBackend


def stored() -> Sequence[type]:
    from django_jobs.backend import JobsBackend
    from django_jobs.models import Job
    from django_jobs.testing import immediate

    class Stored(JobsBackend):
        """Our backend, with what Django's tests ask of `DummyBackend`."""

        @property
        def results(self) -> list[Any]:
            found: list[Any] = off_the_loop(
                lambda: [super(Stored, self).get_result(str(job.pk)) for job in Job.objects.order_by("pk")]
            )
            return found

        def get_result(self, result_id: str) -> Any:
            return off_the_loop(super().get_result, result_id)

        def clear(self) -> None:
            Job.objects.all().delete()

    class RunAtOnce(JobsBackend):
        """Our backend, its jobs claimed, run and finished as they are enqueued."""

        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            with immediate():
                return super().enqueue(task, args, kwargs)

    return Stored, RunAtOnce


def off_the_loop(function: Callable[..., Any], *args: Any) -> Any:
    """
    Call `function`, from async code in a thread of its own.

    Some of Django's async tests call sync methods, which is all the same to a backend that keeps its results
    in memory; but Django's database layer refuses it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function(*args)

    def call() -> Any:
        try:
            return function(*args)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def be_django_6() -> None:
    """Give the backport the names of `django.tasks`, which are what Django's own tests import."""
    from django_tasks import base, task, task_backends

    exceptions: Any = import_module("django_tasks.exceptions")
    exceptions.InvalidTask = exceptions.InvalidTaskError
    exceptions.InvalidTaskBackend = exceptions.InvalidTaskBackendError
    for name in ("", ".base", ".exceptions", ".signals", ".backends", ".backends.base", *DJANGOS.values()):
        sys.modules[f"django.tasks{name}"] = import_module(f"django_tasks{name}")
    package: Any = sys.modules["django.tasks"]
    package.Task, package.task, package.task_backends = base.Task, task, task_backends
    vars(django)["tasks"] = package
    logging.root.manager.loggerDict["django.tasks"] = logging.getLogger("django_tasks")


if __name__ == "__main__":
    main(*sys.argv[1:])
