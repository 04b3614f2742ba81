"""Discovery: modules with tasks are imported, and none ends the process that wants to know of tasks."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import modify_settings

from django_jobs.discovery import discover, discover_once
from django_jobs.exceptions import UnloadableTasks
from django_jobs.framework import TaskResultStatus
from django_jobs.testing import run_due, running
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker
from tests import jobs
from tests.rows import row

SAID = r"'tests\.scenarios\.apps\.exiting\.tasks' called sys\.exit\(0\)"


@pytest.fixture
def exiting():
    """An app is installed whose module with tasks calls `sys.exit`."""
    for once in (discover_once, running.discover_tasks):
        once.cache_clear()
    with modify_settings(INSTALLED_APPS={"append": "tests.scenarios.apps.exiting"}):
        yield
    for once in (discover_once, running.discover_tasks):
        once.cache_clear()


class TestAModuleThatEndsTheProcess:
    def test_is_named_to_whoever_needs_the_tasks(self, exiting):
        for need in (discover, run_due, lambda: Worker(WorkerOptions())):
            with pytest.raises(UnloadableTasks, match=SAID):
                need()

    def test_is_named_by_the_operators_command(self, db, exiting):
        with pytest.raises(CommandError, match=SAID) as refused:
            call_command("jobs", "status", stdout=StringIO())

        assert refused.value.returncode == 1

    def test_is_logged_where_a_result_is_read(self, db, exiting, caplog):
        job = row(task_path="nobody.knows.it")

        assert jobs.ok.get_backend().get_result(str(job.pk)).status == TaskResultStatus.READY
        assert "the tasks of some apps could not be imported" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
def test_who_wants_the_process_to_end_is_heard(monkeypatch, error):
    def interrupted(name):
        raise error

    monkeypatch.setattr("django_jobs.discovery.autodiscover_modules", interrupted)
    discover_once.cache_clear()

    with pytest.raises(type(error)):
        discover_once()
