"""Running, success and failure: what Django's contract says of them, shown by a real worker."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager

import pytest

from django_jobs.backend import JobsBackend
from django_jobs.core.records import Ended, Failed
from django_jobs.core.states import Kind
from django_jobs.framework import IN_CORE, TaskResultStatus, task_finished, task_started
from django_jobs.models import Job
from django_jobs.tasks import JobTask
from django_jobs.worker.announcer import announce
from tests.contract import tasks
from tests.contract.tasks import CONVERTED, RAISED, REFUSED, VALUES
from tests.eventually import eventually
from tests.rows import TRACE, claimed_job
from tests.worker.workers import job_of, running, settled, state_of

LOGGER = "django.tasks" if IN_CORE else "django_tasks"


def finished(result):
    """Wait for the end of a job and return its result as it is stored."""
    job_of(result)
    result.refresh()
    return result


@contextmanager
def receiving(signal, receive):
    signal.connect(receive)
    try:
        yield
    finally:
        signal.disconnect(receive)


class TestBeforeTheBody:
    def test_it_is_stored_that_the_job_runs_by_whom_and_since_when(self, transactional_db):
        with running() as worker:
            result = tasks.look.enqueue()
            context, stored = tasks.seen.get(timeout=20)

        name = str(worker.dispatcher.worker)
        for seen in (stored, context.task_result):
            assert seen.status == TaskResultStatus.RUNNING
            assert (seen.worker_ids, seen.attempts) == ([name], 1)
            assert seen.started_at == seen.last_attempted_at > seen.enqueued_at
            assert (seen.finished_at, seen.errors) == (None, [])
        assert context.attempt == 1
        assert (context.task_result.id, context.task_result.enqueued_at) == (result.id, result.enqueued_at)
        assert context.task_result == stored

    def test_a_body_can_refresh_its_own_result(self, transactional_db):
        with running():
            tasks.look.enqueue()
            context, _ = tasks.seen.get(timeout=20)

        eventually(settled)
        context.task_result.refresh()
        assert context.task_result.status == TaskResultStatus.SUCCESSFUL


class TestSignals:
    def test_come_once_in_order_from_the_class(self, transactional_db, told):
        succeeded, failed = tasks.noop.enqueue(), tasks.fail.enqueue("SystemExit")
        with running():
            eventually(lambda: len(told) == 6)
            succeeded, failed = finished(succeeded), finished(failed)

        assert {sender for _, sender, _ in told} == {JobsBackend}
        for result in (succeeded, failed):
            own = [(name, seen) for name, _, seen in told if seen.id == result.id]
            assert [name for name, _ in own] == ["enqueued", "started", "finished"]
            assert own[1][1].status == TaskResultStatus.RUNNING
            assert own[2][1].status == result.status
            assert own[2][1].errors == result.errors
            assert own[2][1].worker_ids == result.worker_ids

    def test_the_last_comes_when_the_outcome_is_stored(self, transactional_db):
        stored = []

        def receive(task_result, **kwargs):
            stored.append(tasks.noop.get_backend().get_result(task_result.id).status)

        with receiving(task_finished, receive), running():
            tasks.noop.enqueue()
            tasks.fail.enqueue("mute")
            eventually(lambda: len(stored) == 2)

        assert sorted(stored) == [TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL]

    @pytest.mark.parametrize("task", [tasks.fail, tasks.fail_async], ids=["sync", "async"])
    def test_after_a_failure_it_comes_inside_of_the_except_block(self, transactional_db, task):
        handled = []

        def receive(**kwargs):
            handled.append(sys.exc_info()[1])

        with receiving(task_finished, receive), running():
            task.enqueue("unpicklable")
            eventually(lambda: handled)
            tasks.noop.enqueue()
            eventually(lambda: len(handled) == 2)

        assert isinstance(handled[0], tasks.Unpicklable)
        assert handled[0].__traceback__ is not None
        assert handled[1] is None

    def test_a_receiver_that_raises_changes_nothing(self, transactional_db):
        def receive(**kwargs):
            raise RuntimeError("a bad receiver")

        with receiving(task_started, receive), receiving(task_finished, receive), running():
            assert finished(tasks.double.enqueue(4)).return_value == 8
            assert finished(tasks.fail.enqueue("NUL")).status == TaskResultStatus.FAILED
            assert finished(tasks.double.enqueue(5)).return_value == 10


def test_djangos_own_log_lines_come_once_and_in_order(transactional_db, caplog):
    with caplog.at_level(logging.DEBUG, LOGGER):
        good, bad = tasks.double.enqueue(1), tasks.fail.enqueue("SystemExit")
        with running():
            eventually(lambda: len(lines(caplog, good)) == len(lines(caplog, bad)) == 3)

    assert [(r.levelname, r.getMessage()) for r in lines(caplog, good)] == [
        ("DEBUG", f"Task id={good.id} path=tests.contract.tasks.double enqueued backend=default"),
        ("INFO", f"Task id={good.id} path=tests.contract.tasks.double state=RUNNING"),
        ("INFO", f"Task id={good.id} path=tests.contract.tasks.double state=SUCCESSFUL"),
    ]
    assert [(r.levelname, r.getMessage().rpartition(" ")[2]) for r in lines(caplog, bad)][1:] == [
        ("INFO", "state=RUNNING"),
        ("ERROR", "state=FAILED"),
    ]
    assert lines(caplog, bad)[-1].exc_info[0] is SystemExit


def lines(caplog, result):
    return [r for r in caplog.records if r.name == LOGGER and f"id={result.id} " in r.getMessage()]


def test_call_of_the_task_is_used(transactional_db, monkeypatch):
    called = []

    def call(task, *args, **kwargs):
        called.append(task.name)
        return task.func(*args, **kwargs)

    monkeypatch.setattr(JobTask, "call", call)
    with running():
        finished(tasks.note.enqueue("x"))

    assert called == ["note"]


class TestSuccess:
    def test_what_json_holds_comes_back_as_it_was_and_what_is_near_as_json(self, transactional_db):
        with running():
            results = {name: tasks.give.enqueue(name) for name in [*VALUES, *CONVERTED]}
            eventually(settled)

        for name, result in results.items():
            result.refresh()
            expected = VALUES[name] if name in VALUES else CONVERTED[name][1]
            assert result.status == TaskResultStatus.SUCCESSFUL, name
            assert result.return_value == expected
            assert type(result.return_value) is type(expected)
            assert (result.attempts, result.errors, result.is_finished) == (1, [], True)
            assert result.enqueued_at <= result.started_at <= result.finished_at

    def test_what_it_does_not_hold_is_a_failure_with_a_clear_error(self, transactional_db):
        with running():
            results = {name: tasks.give.enqueue(name) for name in REFUSED}
            eventually(settled)
            assert finished(tasks.double.enqueue(2)).return_value == 4  # the worker lives

        for name, result in results.items():
            result.refresh()
            assert result.status == TaskResultStatus.FAILED, name
            [error] = result.errors
            assert error.exception_class is REFUSED[name][1]
            assert "return value" in error.traceback
            with pytest.raises(ValueError, match="Task failed"):
                _ = result.return_value

    def test_sync_and_async_tasks_both_run(self, transactional_db):
        with running():
            assert finished(tasks.double.enqueue(21)).return_value == 42
            assert finished(tasks.attempt.enqueue()).return_value == 1


class TestFailure:
    @pytest.mark.parametrize("task", [tasks.fail, tasks.fail_async], ids=["sync", "async"])
    def test_any_exception_is_one_with_its_class_and_full_traceback(self, transactional_db, task):
        with running():
            results = {name: task.enqueue(name) for name in RAISED}
            eventually(settled)
            assert finished(tasks.double.enqueue(2)).return_value == 4  # the worker lives

        for name, result in results.items():
            result.refresh()
            assert result.status == TaskResultStatus.FAILED, name
            [error] = result.errors
            assert error.exception_class is type(RAISED[name])
            assert "Traceback (most recent call last):" in error.traceback
            assert f"in {task.name}" in error.traceback
            assert "raise RAISED[name]" in error.traceback
            assert (result.attempts, len(result.worker_ids)) == (1, 1)
            assert result.finished_at >= result.started_at

    def test_an_exception_from_elsewhere_is_told_though_its_class_is_gone(self, db):
        from django_jobs.framework import TaskError

        with pytest.raises(ImportError):
            _ = TaskError(exception_class_path="no.such.Class", traceback="").exception_class


class TestRetries:
    def test_everything_survives_them_and_a_job_that_waits_for_one_is_ready(self, transactional_db):
        workers, results, moments = [], [], []
        result = tasks.third_time_lucky.enqueue()
        for number in (1, 2, 3):
            with running() as worker:
                workers.append(str(worker.dispatcher.worker))
                context = tasks.seen.get(timeout=20)
                eventually(lambda: state_of(result) != "RUNNING")
            result.refresh()
            results.append(context.task_result)
            moments.append((result.started_at, result.last_attempted_at))
            assert result.attempts == number == context.attempt
            assert result.worker_ids == workers
            if number < 3:
                assert (result.status, result.finished_at) == (TaskResultStatus.READY, None)
                assert [error.exception_class_path for error in result.errors] == [
                    "django_jobs.exceptions.Retry"
                ] * number
                assert Job.objects.get(pk=result.id).run_now()

        assert len(set(workers)) == 3
        assert len({started for started, _ in moments}) == 1
        assert len({attempted for _, attempted in moments}) == 3
        assert [len(seen.errors) for seen in results] == [0, 1, 2]
        assert [seen.worker_ids for seen in results] == [workers[:1], workers[:2], workers]
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "lucky")
        assert ["attempt 1" in result.errors[0].traceback, "attempt 2" in result.errors[1].traceback] == [
            True
        ] * 2


def test_what_befell_the_job_of_another_worker_is_looked_up_in_the_jobs_own_database(
    project, told, monkeypatch
):
    project.TASKS = {
        **tasks.TASKS,
        "second": {**tasks.TASKS["any"], "OPTIONS": {"database": "second"}},
    }
    asked = []

    def get(result_id, *, database, backend):
        asked.append((result_id, database, backend))
        return "its result"

    monkeypatch.setattr("django_jobs.results.get", get)
    outcome = Failed(kind=Kind.LOST, trace=TRACE, keep=None)

    announce(Ended(claimed_job(task_path=tasks.noop.module_path), outcome), "second")

    assert asked == [("7", "second", "second")]
    assert told == [("finished", JobsBackend, "its result")]
