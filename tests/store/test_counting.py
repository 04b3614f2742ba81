"""How many jobs there are: exactly where they are few, and otherwise by a sample."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.db import connection

from django_jobs.store import counting
from django_jobs.store.counting import Count, census, together
from tests.rows import row, worker_row

LATER = TransactionNow() + timedelta(hours=1)

MANY = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, enqueued_at, run_after,
        meta, finished_at)
    SELECT 'q' || n % 2, 't', '[]', '{}', n % 3, CASE WHEN n % 10 = 0 THEN 'READY' ELSE 'SUCCESSFUL' END,
           0, 0, now(), now() - interval '1 day', '{}', CASE WHEN n % 10 > 0 THEN now() END
      FROM generate_series(1, 20000) AS n
"""


def by_name(cursor, *known):
    return {depth.queue_name: depth for depth in census(cursor, known).depths}


@pytest.fixture
def two_at_most(monkeypatch):
    """Counting one by one stops at two; a sample is the whole table, whatever other tests left of it."""
    monkeypatch.setattr(counting, "COUNTED", 2)
    monkeypatch.setattr(counting, "SAMPLED", 10**9)


class TestQueues:
    def test_priorities_are_summed_and_the_oldest_counts(self, cursor):
        for priority, minutes in ((5, 10), (0, 50), (-5, 20)):
            row(queue_name="a", priority=priority, run_after=TransactionNow() - timedelta(minutes=minutes))
            row(queue_name="a", priority=priority, run_after=LATER)
        row("RUNNING", queue_name="a")
        row("FAILED", queue_name="b")

        found = by_name(cursor, "known")

        a, b, known = found["a"], found["b"], found["known"]
        assert (a.due, a.later, a.running, a.failed) == (Count(3), Count(3), 1, Count(0))
        assert a.oldest_due_seconds == pytest.approx(3000, abs=60)
        assert (b.due, b.failed, b.oldest_due_seconds) == (Count(0), Count(1), None)
        assert known.due == Count(0)

    def test_they_are_those_with_jobs_workers_or_settings_by_name(self, cursor):
        row(queue_name="z")
        row("RUNNING", queue_name="runs")
        row("SUCCESSFUL", queue_name="past")
        row("CANCELLED", queue_name="past")
        worker_row(queues=["served"])

        assert list(by_name(cursor)) == ["runs", "served", "z"]

    def test_a_due_time_without_end_or_beginning_stops_nothing(self, cursor):
        for text in ("infinity", "-infinity"):
            job = row(queue_name="a")
            cursor.execute("UPDATE django_jobs_job SET run_after = %s WHERE id = %s", [text, job.pk])

        a = by_name(cursor)["a"]

        assert (a.due, a.later, a.oldest_due_seconds) == (Count(1), Count(1), None)

    def test_more_than_is_counted_is_estimated_and_told_so(self, cursor, two_at_most):
        for priority in (0, 0, 3, 3):
            row(queue_name="many", priority=priority)
            row(queue_name="many", priority=priority, run_after=LATER)
        row(queue_name="few", run_after=LATER)

        found = by_name(cursor)

        assert (found["many"].due, found["many"].later) == (Count(4, exact=False), Count(4, exact=False))
        assert found["few"].later == Count(1)

    def test_queues_share_what_is_counted_of_all(self, cursor, monkeypatch):
        monkeypatch.setattr(counting, "SAMPLED", 10**9)
        monkeypatch.setattr(counting, "ROWS", 12)
        monkeypatch.setattr(counting, "LEAST", 2)
        for _ in range(4):
            row(queue_name="a")

        assert by_name(cursor)["a"].due == Count(4)
        row(queue_name="b")
        assert by_name(cursor)["a"].due == Count(4, exact=False)


class TestEnded:
    def test_it_is_counted_by_state(self, cursor):
        for state in ("FAILED", "CANCELLED", "CANCELLED", "SUCCESSFUL", "RUNNING"):
            row(state)

        found = census(cursor)

        assert (found.failed, found.cancelled, found.successful) == (Count(1), Count(2), Count(1))

    def test_more_than_is_counted_is_estimated_and_told_so(self, cursor, two_at_most):
        for state in ("FAILED", "CANCELLED", "CANCELLED", "CANCELLED", "SUCCESSFUL"):
            row(state)

        found = census(cursor)

        assert (found.failed, found.cancelled) == (Count(1), Count(3, exact=False))
        assert found.successful == Count(1, exact=False)

    def test_failed_jobs_are_not_hidden_by_cancelled_ones_nor_these_by_them(self, cursor, two_at_most):
        for state in ("FAILED", "CANCELLED") * 2 + ("FAILED", "CANCELLED"):
            row(state)

        found = census(cursor)

        assert found.failed == found.cancelled == Count(3, exact=False)


class TestEstimates:
    def test_a_sample_of_the_pages_stands_for_all(self, cursor, monkeypatch):
        cursor.execute(MANY)
        cursor.execute("SELECT pg_relation_size('django_jobs_job') / 8192")
        [pages] = cursor.fetchone()
        monkeypatch.setattr(counting, "COUNTED", 100)
        monkeypatch.setattr(counting, "SAMPLED", pages / 3)

        found = census(cursor)

        assert 9_000 < found.successful.count < 36_000
        assert 1_000 < found.depths[0].due.count < 4_000
        assert census(cursor).successful == found.successful, "a second look tells the same"

    def test_it_is_no_less_than_was_seen(self, cursor, monkeypatch, two_at_most):
        for _ in range(5):
            row()
        monkeypatch.setattr(counting, "SAMPLED", 0)

        assert census(cursor).due == Count(3, exact=False)

    def test_it_is_one_more_statement_and_only_where_it_is_needed(
        self, db, django_assert_num_queries, monkeypatch
    ):
        for _ in range(3):
            row()

        with django_assert_num_queries(2), connection.cursor() as counted:
            census(counted)
        monkeypatch.setattr(counting, "COUNTED", 2)
        with django_assert_num_queries(3), connection.cursor() as counted:
            census(counted)

    @pytest.mark.parametrize(("number", "shown"), [(7, 7), (99, 99), (123, 120), (4_404_344, 4_400_000)])
    def test_its_first_two_digits_are_shown(self, number, shown):
        assert Count(number, exact=False).rounded == shown


def test_a_sum_is_exact_when_all_of_it_is():
    assert together([Count(1), Count(2)]) == Count(3)
    assert together([Count(1), Count(2, exact=False)]) == Count(3, exact=False)
    assert together([]) == Count(0)
