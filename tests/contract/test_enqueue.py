"""enqueue and aenqueue: validate, normalise, write at once on the caller's connection, tell it once."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections, transaction

from django_jobs.backend import JobsBackend
from django_jobs.framework import TaskResultStatus
from django_jobs.models import Job
from tests.contract import tasks
from tests.contract.tasks import CONVERTED, REFUSED, TASKS, VALUES

ways = pytest.mark.parametrize(
    "enqueue",
    [lambda task: task.enqueue, lambda task: async_to_sync(task.aenqueue)],
    ids=["enqueue", "aenqueue"],
)


@ways
class TestResult:
    def test_is_ready_with_an_id_and_the_time_and_nothing_else(self, db, enqueue):
        result = enqueue(tasks.noop)(1, two=2)

        assert result.status == TaskResultStatus.READY
        assert isinstance(result.id, str)
        assert 0 < len(result.id) < 64
        assert result.enqueued_at is not None
        assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
        assert (result.args, result.kwargs) == ([1], {"two": 2})
        assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
        assert (result.backend, result.is_finished) == ("default", False)
        with pytest.raises(ValueError, match="not finished"):
            _ = result.return_value

    def test_belongs_to_the_task_that_was_enqueued(self, db, enqueue):
        for task in (
            tasks.noop,
            tasks.noop.using(priority=9, queue_name="mail"),
            tasks.noop.using(backend="any"),
        ):
            assert enqueue(task)().task == task

    def test_is_what_the_backend_gives_when_called_itself(self, db, enqueue):
        backend = tasks.noop.get_backend()

        first = backend.enqueue(tasks.noop, [1], {"a": 2})
        second = backend.enqueue(task=tasks.noop, args=(1,), kwargs={"a": 2})
        third = async_to_sync(backend.aenqueue)(task=tasks.noop, args=(1,), kwargs={"a": 2})

        assert [(r.args, r.kwargs) for r in (first, second, third)] == [([1], {"a": 2})] * 3


class TestValues:
    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
    def test_of_json_are_the_same_in_the_result_and_in_the_row(self, db, value):
        result = tasks.noop.enqueue(value, key=value)

        assert (result.args, result.kwargs) == ([value], {"key": value})
        assert tasks.noop.get_result(result.id) == result

    @pytest.mark.parametrize(("value", "becomes"), CONVERTED.values(), ids=CONVERTED)
    def test_near_json_become_json(self, db, value, becomes):
        result = tasks.noop.enqueue(value, key=value)

        assert (result.args, result.kwargs) == ([becomes], {"key": becomes})
        assert tasks.noop.get_result(result.id) == result

    @pytest.mark.parametrize(("value", "error"), REFUSED.values(), ids=REFUSED)
    @ways
    def test_beyond_it_are_refused_and_nothing_is_stored(self, db, enqueue, value, error):
        with transaction.atomic():
            for call in (lambda: enqueue(tasks.noop)(value), lambda: enqueue(tasks.noop)(key=[value])):
                with pytest.raises(error):
                    call()
            assert not Job.objects.exists()
            assert enqueue(tasks.noop)("the transaction goes on").id

    def test_the_text_backslash_u0000_is_no_nul(self, db):
        result = tasks.noop.enqueue("\\u0000", **{"\\u0000": ["\\u0000"]})

        stored = tasks.noop.get_result(result.id)
        assert (stored.args, stored.kwargs) == (["\\u0000"], {"\\u0000": ["\\u0000"]})


@contextmanager
def another_session():
    other = connection.copy()
    try:
        yield lambda: count_in(other)
    finally:
        other.close()


def count_in(session):
    with session.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM django_jobs_job")
        return cursor.fetchone()[0]


class TestTransactions:
    """`TestTransactions` in tests/test_enqueueing.py has more."""

    @ways
    def test_the_job_is_written_at_once_on_the_callers_connection(self, transactional_db, enqueue):
        with another_session() as seen_by_others:
            with transaction.atomic():
                enqueue(tasks.noop)()
                assert (Job.objects.count(), seen_by_others()) == (1, 0)
            assert seen_by_others() == 1
            with transaction.atomic():
                enqueue(tasks.noop)()
                transaction.set_rollback(True)
            assert seen_by_others() == 1

    @ways
    def test_without_autocommit_it_is_there_when_the_caller_commits(self, transactional_db, enqueue):
        with another_session() as seen_by_others:
            transaction.set_autocommit(False)
            try:
                enqueue(tasks.noop)()
                assert seen_by_others() == 0
                transaction.commit()
                assert seen_by_others() == 1
            finally:
                transaction.rollback()
                transaction.set_autocommit(True)

    def test_from_async_code_of_its_own_it_is_there_at_once(self, transactional_db):
        async def view():
            try:
                return await tasks.noop.aenqueue()
            finally:
                await sync_to_async(connections.close_all)()  # that thread's

        result = asyncio.run(view())

        assert Job.objects.get().pk == int(result.id)


class TestSignal:
    @ways
    def test_is_sent_once_by_the_class_with_the_result(self, db, told, enqueue):
        result = enqueue(tasks.noop)(1)

        assert told == [("enqueued", JobsBackend, result)]

    def test_a_subclass_is_its_own_sender(self, db, project, told):
        project.TASKS = {**TASKS, "default": {"BACKEND": f"{__name__}.Special", "QUEUES": []}}

        tasks.noop.enqueue()

        assert [(name, sender) for name, sender, _ in told] == [("enqueued", Special)]

    def test_a_refusal_sends_none(self, db, told):
        with pytest.raises(TypeError):
            tasks.noop.enqueue(object())

        assert told == []


class Special(JobsBackend):
    """A project's own backend on ours."""
