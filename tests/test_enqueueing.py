"""Enqueueing: in the caller's transaction, refused before any SQL, exact, and cheap."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_jobs.core.arguments import decode
from django_jobs.core.states import State
from django_jobs.enqueueing import LATEST
from django_jobs.framework import InvalidTask, TaskResultStatus
from django_jobs.models import Job, Queue
from django_jobs.store.claim import Room, claim, claimed
from django_jobs.store.cursor import run
from tests import jobs
from tests.core.plain_values import is_same, nested, texts, values
from tests.rows import WORKER

HOUR = timedelta(hours=1)


def clock():
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


class TestOneJob:
    def test_is_a_row_that_is_ready(self, db):
        result = jobs.ok.enqueue(1, "two", three=[3])

        job = Job.objects.get()
        assert (result.id, result.status) == (str(job.pk), TaskResultStatus.READY)
        assert (job.state, job.attempt, job.uncounted) == (State.READY, 0, 0)
        assert (job.task_path, job.queue_name, job.priority) == ("tests.jobs.ok", "default", 0)
        assert (job.args, job.kwargs, job.meta) == ([1, "two"], {"three": [3]}, {})
        assert (job.worker, job.started_at, job.finished_at, job.expires_at) == (None, None, None, None)
        assert job.max_attempts == 5

    def test_is_due_when_it_is_enqueued_and_not_when_its_transaction_began(self, db):
        before = clock()
        jobs.ok.enqueue()
        after = clock()

        job = Job.objects.get()
        assert before < job.run_after == job.enqueued_at < after

    def test_takes_what_using_says(self, db):
        due = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=timezone(timedelta(hours=5)))
        special = jobs.ok.using(
            run_after=due, priority=-7, queue_name="mail", max_attempts=None, meta={"by": "me"}
        )
        special.enqueue()

        job = Job.objects.get()
        assert (job.run_after, job.priority, job.queue_name) == (due, -7, "mail")
        assert (job.max_attempts, job.meta) == (None, {"by": "me"})

    def test_can_wait_for_a_while_by_the_databases_clock(self, db):
        jobs.ok.using(run_after=HOUR).enqueue()

        job = Job.objects.get()
        assert job.run_after - job.enqueued_at == HOUR

    def test_counts_its_wait_from_each_enqueueing(self, db):
        later = jobs.ok.using(run_after=HOUR)
        later.enqueue()
        later.enqueue()

        first, second = Job.objects.order_by("pk").values_list("run_after", flat=True)
        assert first < second

    def test_keeps_what_the_task_was_made_with(self, db):
        jobs.fail.enqueue()

        assert Job.objects.get().max_attempts == 3

    def test_is_added_to_the_meta_of_the_task(self, db):
        tagged = jobs.ok.using(meta={"tag": "a", "by": "x"}).using(meta={"by": "y"})
        tagged.enqueue()

        assert Job.objects.get().meta == {"tag": "a", "by": "y"}
        assert jobs.ok.meta == {}

    def test_is_found_again_as_it_was_returned(self, db):
        for task in (
            jobs.ok,
            jobs.ok.using(priority=3, queue_name="mail", meta={"a": [1]}, max_attempts=9),
            jobs.ok.using(run_after=HOUR),
            jobs.ok.using(run_after=datetime(2031, 1, 1, tzinfo=UTC)),
        ):
            result = task.enqueue(1, a={"b": 2})

            assert jobs.ok.get_result(result.id) == result

    @pytest.mark.parametrize("setting", [1, None])
    def test_gets_the_attempts_of_the_settings(self, db, settings, setting):
        settings.DJANGO_JOBS = {"max_attempts": setting}

        jobs.ok.enqueue()

        assert Job.objects.get().max_attempts == setting


class TestTransactions:
    def test_a_commit_keeps_data_and_job(self, transactional_db):
        with transaction.atomic():
            Queue.objects.create(name="mine")
            jobs.ok.enqueue()

        assert (Queue.objects.count(), Job.objects.count()) == (1, 1)

    def test_a_rollback_takes_both_back(self, transactional_db):
        with transaction.atomic():
            Queue.objects.create(name="mine")
            jobs.ok.enqueue()
            transaction.set_rollback(True)

        assert (Queue.objects.count(), Job.objects.count()) == (0, 0)

    def test_an_exception_takes_both_back(self, transactional_db):
        with suppress(jobs.Unwell), transaction.atomic():
            Queue.objects.create(name="mine")
            jobs.ok.enqueue()
            jobs.ok.enqueue_many([(1,), (2,)])
            raise jobs.Unwell

        assert (Queue.objects.count(), Job.objects.count()) == (0, 0)

    def test_a_savepoint_takes_back_what_was_enqueued_in_it(self, transactional_db):
        with transaction.atomic():
            jobs.ok.enqueue("outer")
            with suppress(jobs.Unwell), transaction.atomic():
                jobs.ok.enqueue("inner")
                raise jobs.Unwell

        assert [job.args for job in Job.objects.all()] == [["outer"]]

    def test_others_see_nothing_before_the_commit(self, transactional_db):
        other = connection.copy()
        try:
            with transaction.atomic():
                jobs.ok.enqueue()
                with other.cursor() as cursor:
                    cursor.execute("SELECT count(*) FROM django_jobs_job")
                    assert cursor.fetchone() == (0,)
        finally:
            other.close()

    def test_without_autocommit_the_caller_commits(self, transactional_db):
        transaction.set_autocommit(False)
        try:
            jobs.ok.enqueue(1)
            transaction.rollback()
            jobs.ok.enqueue(2)
            jobs.ok.enqueue_many([(3,)])
            transaction.commit()
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

        assert sorted(job.args[0] for job in Job.objects.all()) == [2, 3]


class Stranger:
    pass


class TestRefusals:
    """What can't be stored or run is refused before any SQL, and an open transaction goes on."""

    @pytest.mark.parametrize(
        ("value", "error", "told"),
        [
            ("a\0b", ValueError, r"args\[0\].*NUL"),
            ({"k": ["x", "a\ud800"]}, ValueError, r"args\[0\]\['k'\]\[1\].*surrogate"),
            (math.nan, ValueError, r"args\[0\].*nan"),
            (math.inf, ValueError, r"args\[0\].*inf"),
            (Stranger(), TypeError, r"args\[0\].*Stranger"),
            (datetime(2020, 1, 1, tzinfo=UTC), TypeError, r"args\[0\].*isoformat"),
            ({1: 2}, TypeError, r"args\[0\].*key 1"),
            (nested(300), ValueError, r"args\[0\].*deeper than 200"),
            ("x" * (4 * 2**20), ValueError, r"args\[0\].*over the limit"),
        ],
    )
    def test_of_a_value_name_its_place(self, refused, value, error, told):
        refused(lambda: jobs.ok.enqueue(value), error, told)
        refused(lambda: jobs.ok.enqueue_many([(1,), (value,)]), error, told)
        refused(lambda: jobs.ok.enqueue(key=value), error, r"kwargs\['key'\]")
        refused(lambda: jobs.ok.using(meta={"m": value}).enqueue(), error, "meta")

    @pytest.mark.parametrize(
        ("call", "told"),
        [
            (lambda: jobs.give.enqueue(), "tests.jobs.give.*missing.*'value'"),
            (lambda: jobs.give.enqueue(1, 2), "tests.jobs.give.*too many"),
            (lambda: jobs.give.enqueue(1, other=2), "tests.jobs.give.*'other'"),
            (lambda: jobs.alook.enqueue("in place of the context"), "tests.jobs.alook.*too many"),
            (lambda: jobs.give.enqueue_many([(1,), ()]), "tests.jobs.give.*missing"),
            (lambda: jobs.give.enqueue_many([(1,), 2]), r"call 1 is 2.*write \(2,\)"),
            (lambda: jobs.give.enqueue_many(["text"]), "call 0 is 'text'"),
            (lambda: jobs.ok.using(timeout=HOUR), "timeout"),  # type: ignore[call-arg]
        ],
    )
    def test_of_a_call_say_what_does_not_fit(self, refused, call, told):
        refused(call, TypeError, told)

    @pytest.mark.parametrize(
        "run_after",
        [
            LATEST + timedelta(microseconds=1),
            datetime.max.replace(tzinfo=UTC),
            timedelta.max,
            timedelta.min,
            datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        ],
        ids=str,
    )
    def test_of_a_time_that_not_everyone_can_tell(self, refused, run_after):
        refused(lambda: jobs.ok.using(run_after=run_after).enqueue(), ValueError, "run_after")

    def test_of_a_time_without_its_zone(self, refused):
        naive = datetime(2031, 1, 1)  # noqa: DTZ001  (that is the point)
        refused(lambda: jobs.ok.using(run_after=naive), InvalidTask, "aware")

    @pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 129, 7])
    def test_of_a_queue_that_can_not_be(self, refused, name):
        refused(lambda: jobs.ok.using(queue_name=name), InvalidTask, "queue_name")

    @pytest.mark.parametrize("priority", [-101, 101, 0.5])
    def test_of_a_priority_out_of_range(self, refused, priority):
        refused(lambda: jobs.ok.using(priority=priority), InvalidTask, "priority")

    @pytest.mark.parametrize("attempts", [0, -1, 1.5, True, "3"])
    def test_of_a_number_of_attempts_that_is_none(self, refused, attempts):
        refused(lambda: jobs.ok.using(max_attempts=attempts), InvalidTask, "max_attempts")

    def test_of_a_call_far_into_many_take_all_back(self, db, monkeypatch):
        monkeypatch.setattr("django_jobs.enqueueing.CHUNK", 10)
        with transaction.atomic():
            jobs.ok.enqueue("before")
            with pytest.raises(ValueError, match="nan"):
                jobs.ok.enqueue_many([(number,) for number in range(95)] + [(math.nan,)])
            jobs.ok.enqueue("after")

        assert [job.args for job in Job.objects.order_by("pk")] == [["before"], ["after"]]

    @pytest.fixture
    def refused(self, db, django_assert_num_queries):
        def check(call, error, told):
            with transaction.atomic():
                with pytest.raises(error, match=told), django_assert_num_queries(0):
                    call()
                assert Job.objects.count() == 0

        return check


class TestRoundTrip:
    @pytest.mark.parametrize(
        "value",
        [
            {"b": 1, "a": {"z": 0, "y": 1}},
            [1e22, -0.0, 0.1, 5e-324, 1.7976931348623157e308, 1.0],
            [2**53 + 1, 2**64, -(2**63), 10**400],
            ["😀", "é", "é", " ", "\u2028", "\\u0000", '"'],
            nested(190),
        ],
        ids=["order of keys", "floats", "integers", "texts", "nesting"],
    )
    def test_arguments_come_back_as_they_went_in(self, db, value):
        assert self.is_carried(value)

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(values, max_size=3), st.dictionaries(texts, values, max_size=3))
    def test_whatever_json_holds_comes_back(self, db, args, kwargs):
        result = jobs.ok.enqueue(*args, **kwargs)
        job = Job.objects.get(pk=result.id)

        assert is_same(job.args, args)
        assert is_same(job.kwargs, kwargs)
        assert is_same(result.args, args)

    def is_carried(self, value):
        """Whether a value is the same in the result, in the row, in the result read back, and to a worker."""
        result = jobs.ok.enqueue(value, key=value)
        jobs.ok.enqueue_many([(value,)])
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_job SET run_after = now()")
            rooms = [Room("default", 9)]
            found = claimed(run(cursor, claim(WORKER, rooms, ["tests.jobs.ok"], 9)))
        stored = list(Job.objects.order_by("pk"))
        read = jobs.ok.get_result(result.id)
        return all(
            is_same(there, value)
            for there in [
                result.args[0],
                result.kwargs["key"],
                read.args[0],
                *(job.args[0] for job in stored),
                *(decode(job.call)[0][0] for job in found),
            ]
        ) and (len(stored), len(found)) == (2, 2)

    def test_what_is_no_json_comes_back_as_django_tasks_normalises_it(self, db):
        result = jobs.ok.enqueue((1, 2), b"bytes", State.READY)

        assert result.args == Job.objects.get().args == [[1, 2], "bytes", "READY"]
