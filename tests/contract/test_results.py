"""get_result and aget_result. What ids are none, statuses and attempts: tests/test_results.py."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from django_jobs.core.states import State
from django_jobs.framework import TaskResultDoesNotExist, TaskResultMismatch, TaskResultStatus, task_backends
from django_jobs.models import Job
from django_jobs.testing import run_due
from tests import rich_tasks
from tests.contract import tasks
from tests.rows import row

REFRESHED = {
    "errors",
    "_return_value",
    "finished_at",
    "started_at",
    "last_attempted_at",
    "status",
    "enqueued_at",
    "worker_ids",
}


class TestFinding:
    def test_what_is_found_equals_what_enqueue_returned(self, db):
        for task in (
            tasks.noop,
            tasks.noop.using(priority=-3, queue_name="mail", meta={"a": 1}),
            tasks.double,
        ):
            result = task.enqueue(1)

            assert task.get_result(result.id) == result
            assert async_to_sync(task.aget_result)(result.id) == result
            assert task.get_backend().get_result(result.id) == result
            assert async_to_sync(task.get_backend().aget_result)(result.id) == result

    def test_it_is_the_same_when_asked_twice_also_for_a_removed_task(self, db):
        backend = task_backends["default"]
        for path in (tasks.noop.module_path, "shop.tasks.gone"):
            pk = str(row(task_path=path).pk)

            assert backend.get_result(pk) == backend.get_result(pk)

    def test_of_another_function_is_a_mismatch(self, db):
        result = tasks.noop.enqueue()

        with pytest.raises(TaskResultMismatch, match=r"tasks\.noop"):
            tasks.other.get_result(result.id)
        with pytest.raises(TaskResultMismatch):
            async_to_sync(tasks.other.aget_result)(result.id)

    def test_of_a_deleted_job_is_none(self, db):
        result = tasks.noop.enqueue()
        Job.objects.all().delete()

        for ask in (lambda: tasks.noop.get_result(result.id), result.refresh, async_to_sync(result.arefresh)):
            with pytest.raises(TaskResultDoesNotExist):
                ask()


@pytest.mark.parametrize(
    "refresh", [lambda r: r.refresh, lambda r: async_to_sync(r.arefresh)], ids=["sync", "async"]
)
def test_refresh_copies_everything(db, refresh):
    result = tasks.fail.enqueue("SystemExit")
    run_due()
    stored = tasks.fail.get_result(result.id)
    assert {name for name in REFRESHED if getattr(stored, name) != getattr(result, name)} == REFRESHED - {
        "_return_value",
        "enqueued_at",
    }

    refresh(result)()

    assert result == stored


class TestChangedTasks:
    """Tasks that were renamed, removed or re-shaped, as docs/how-to/django-tasks.md tells."""

    def test_a_removed_one_is_a_stand_in_and_its_job_says_all_the_rest(self, db):
        job = row(State.SUCCESSFUL, task_path="shop.tasks.gone", args=[1], return_value=2)

        result = task_backends["default"].get_result(str(job.pk))

        assert (result.task.name, result.task.module_path) == ("gone", "shop.tasks.gone")
        assert (result.status, result.args, result.return_value) == (TaskResultStatus.SUCCESSFUL, [1], 2)
        with pytest.raises(TaskResultMismatch, match=r"shop\.tasks\.gone"):
            tasks.noop.get_result(str(job.pk))

    def test_one_that_takes_other_arguments_fails_its_old_jobs_and_shows_them(self, db):
        old = row(task_path=tasks.note.module_path, args=["a", "b"], kwargs={"colour": 1}, max_attempts=1)

        run_due()

        result = tasks.note.get_result(str(old.pk))
        assert (result.status, result.args, result.kwargs) == (
            TaskResultStatus.FAILED,
            ["a", "b"],
            {"colour": 1},
        )
        assert result.errors[0].exception_class is TypeError

    def test_one_that_became_rich_or_ceased_to_be_shows_what_is_stored(self, db):
        plain = row(State.SUCCESSFUL, task_path=rich_tasks.echo.module_path, return_value={"a": [1]})
        rich = row(
            State.SUCCESSFUL,
            task_path=tasks.noop.module_path,
            return_value={"$type": "date", "value": "2024-01-01"},
        )

        assert rich_tasks.echo.get_result(str(plain.pk)).return_value == {"a": [1]}
        assert tasks.noop.get_result(str(rich.pk)).return_value == {"$type": "date", "value": "2024-01-01"}

    def test_a_name_that_is_no_task_any_more_has_a_stand_in_too(self, db):
        for path in ("tests.contract.tasks.nested", "os.system", "tests.contract.tasks"):
            result = task_backends["default"].get_result(str(row(task_path=path).pk))

            assert result.task.module_path == path
            with pytest.raises(LookupError, match="is known to this code"):
                result.task.call()

    def test_an_exception_class_that_is_gone_is_still_told_by_its_path(self, db):
        job = row(State.FAILED, task_path=tasks.noop.module_path)
        job.attempts.create(number=1, kind="ERROR", exception_class="gone.Away", traceback="T", worker=1)

        [error] = tasks.noop.get_result(str(job.pk)).errors

        assert (error.exception_class_path, error.traceback) == ("gone.Away", "T")
        with pytest.raises(ImportError):
            _ = error.exception_class


class Replica:
    """A router as of a project that reads from a replica."""

    def db_for_read(self, model, **hints):
        return "replica"

    def db_for_write(self, model, **hints):
        return "default"


def test_all_of_a_result_is_read_where_it_is_written(db, project, monkeypatch):
    """A replica may not have it yet; this one can't even be reached."""
    nowhere = connections["default"].settings_dict | {"NAME": "nowhere"}
    monkeypatch.setitem(connections.settings, "replica", nowhere)
    result = tasks.fail.enqueue("SystemExit")
    run_due()
    project.DATABASE_ROUTERS = [Replica()]

    result.refresh()

    assert (result.status, len(result.errors)) == (TaskResultStatus.FAILED, 1)
