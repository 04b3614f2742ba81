"""Results: what the tables say of a job, as Django's own framework tells it."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_jobs.core.states import Kind, State
from django_jobs.framework import TaskResultDoesNotExist, TaskResultMismatch, TaskResultStatus
from django_jobs.models import Job
from tests import jobs
from tests.rows import LONG_AGO, WORKER, row


def result_of(job, task=jobs.ok):
    return task.get_result(str(job.pk))


class TestIds:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "0",
            "-1",
            "+1",
            "007",
            " 7",
            "7 ",
            "1_000",
            "1.0",
            "1e3",
            "٣",
            "²",
            "a\0b",
            "\ud800",
            "x" * 1000,
            "9" * 1000,
            str(2**63),
            str(2**64),
            "999999999999",
            "None",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        ],
        ids=lambda text: ascii(text[:20]),
    )
    def test_that_are_none_harm_no_open_transaction(self, db, text):
        with transaction.atomic():
            with pytest.raises(TaskResultDoesNotExist):
                jobs.ok.get_result(text)
            assert Job.objects.count() == 0

    @pytest.mark.parametrize("thing", [None, 7, b"7", ["7"], 7.0])
    def test_are_text(self, db, thing):
        with pytest.raises(TaskResultDoesNotExist):
            jobs.ok.get_result(thing)

    def test_of_jobs_beyond_32_bits_are_fine(self, db):
        assert result_of(row(id=2**62)).id == str(2**62)

    def test_of_another_task_are_told_apart(self, db):
        with pytest.raises(TaskResultMismatch):
            result_of(row(), task=jobs.give)

    def test_can_be_asked_for_from_async_code(self, db):
        job = row()

        assert async_to_sync(jobs.ok.aget_result)(str(job.pk)).id == str(job.pk)


class TestStatus:
    @pytest.mark.parametrize(
        ("state", "status"),
        [
            (State.READY, TaskResultStatus.READY),
            (State.BLOCKED, TaskResultStatus.READY),
            (State.RUNNING, TaskResultStatus.RUNNING),
            (State.SUCCESSFUL, TaskResultStatus.SUCCESSFUL),
            (State.FAILED, TaskResultStatus.FAILED),
            (State.CANCELLED, TaskResultStatus.FAILED),
        ],
    )
    def test_is_djangos(self, db, state, status):
        assert result_of(row(state)).status == status

    def test_of_a_finished_job_comes_with_its_value(self, db):
        result = result_of(row(State.SUCCESSFUL, return_value={"b": -0.0, "a": 1}))

        assert list(result.return_value) == ["b", "a"]
        assert result.is_finished

    def test_of_one_that_waits_has_none(self, db):
        with pytest.raises(ValueError, match="not finished"):
            assert result_of(row()).return_value

    def test_can_be_refreshed(self, db):
        job = row()
        result = result_of(job)
        Job.objects.filter(pk=job.pk).update(state=State.SUCCESSFUL, finished_at=LONG_AGO)

        result.refresh()

        assert (result.status, result.finished_at) == (TaskResultStatus.SUCCESSFUL, LONG_AGO)


class TestAttempts:
    @pytest.fixture
    def job(self, db):
        job = row(State.SUCCESSFUL, attempt=5, uncounted=2, worker=WORKER)
        for number, kind in enumerate([Kind.ERROR, Kind.SNOOZED, Kind.RELEASED, Kind.LOST], start=1):
            job.attempts.create(
                number=number,
                kind=kind,
                worker=number,
                exception_class="builtins.KeyError",
                traceback=f"T{number}",
            )
        return job

    def test_that_failed_are_errors(self, job):
        assert [error.traceback for error in result_of(job).errors] == ["T1", "T4"]
        assert result_of(job).errors[0].exception_class is KeyError

    def test_that_count_are_counted(self, job):
        assert result_of(job).worker_ids == ["1", "4", str(WORKER)]
        assert result_of(job).attempts == 3 == job.counted_attempt

    def test_are_read_with_the_job(self, job, django_assert_num_queries):
        with django_assert_num_queries(2):
            result_of(job)


class TestRemovedTasks:
    def test_have_results_all_the_same(self, db):
        job = row(State.SUCCESSFUL, task_path="shop.tasks.removed", args=[1], return_value=2)

        result = jobs.ok.get_backend().get_result(str(job.pk))

        assert (result.args, result.return_value) == ([1], 2)
        assert (result.task.module_path, result.task.name) == ("shop.tasks.removed", "removed")
        assert repr(result)

    def test_can_be_neither_enqueued_nor_run(self, db):
        job = row(task_path="shop.tasks.removed")
        task = jobs.ok.get_backend().get_result(str(job.pk)).task

        with pytest.raises(Exception, match=r"shop\.tasks\.removed"):
            task.enqueue()
        with pytest.raises(LookupError, match=r"shop\.tasks\.removed"):
            task.call()
        assert Job.objects.count() == 1

    @pytest.mark.parametrize("path", ["", "nodots", "..", "a..b", "os.system", "tests.jobs.Unwell", "é.ü"])
    def test_with_odd_names_answer_too(self, db, path):
        job = row(task_path=path)

        assert jobs.ok.get_backend().get_result(str(job.pk)).status == TaskResultStatus.READY


def test_options_that_todays_code_would_refuse_are_shown(db):
    job = row(queue_name="gone" * 30, priority=32767, max_attempts=0)

    result = result_of(job)

    assert (result.task.queue_name, result.task.priority) == ("gone" * 30, 32767)
