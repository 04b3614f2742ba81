"""What people ask of the queue, and how PostgreSQL answers it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.db import connection
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from django_jobs.dashboard.hurried import limited
from django_jobs.models import Job, Queue
from django_jobs.store import counting, stats
from tests.rows import LONG_AGO, row, worker_row

LATER = TransactionNow() + timedelta(hours=1)


def waiting(**wanted):
    """Return the ids of waiting jobs as the list of the admin looks them up."""
    given = {"due": True, "later": True, "queue_name": None} | wanted
    condition = RawSQL(stats.IS_WAITING, stats.waiting_params(**given), output_field=BooleanField())
    return set(Job.objects.filter(condition).values_list("pk", flat=True))


class TestChoices:
    def test_names_come_from_jobs_workers_and_settings_each_once(self, cursor):
        for _ in range(3):
            row(queue_name="waits", task_path="of.waiting")
        row("RUNNING", queue_name="runs", task_path="of.running")
        row("FAILED", queue_name="failed", task_path="of.failed")
        worker_row(queues=["served"], tasks=["known"])
        worker_row(queues=["not-any-more"], tasks=["not.any.more"], state="STOPPED")
        Queue.objects.create(name="set")

        found = stats.choices(cursor, {"mine"}, {"my.task"})

        assert found.queues == ["failed", "mine", "runs", "served", "set", "waits"]
        assert found.tasks == ["known", "my.task", "of.failed", "of.running", "of.waiting"]

    def test_a_worker_that_serves_all_queues_names_none(self, cursor):
        worker_row(queues=None, tasks=[])

        assert stats.choices(cursor, (), ()) == stats.Choices([], [])

    def test_a_queue_whose_waiting_jobs_are_older_than_very_many_others_is_found(self, cursor):
        row(queue_name="old")
        for _ in range(4):
            row("SUCCESSFUL", queue_name="new")

        assert stats.choices(cursor, (), (), newest=2).queues == ["new", "old"]


@pytest.mark.django_db
class TestWaiting:
    def test_due_and_later_jobs_are_told_apart(self):
        due, later = row(), row(run_after=LATER)
        row("RUNNING")

        assert waiting() == {due.pk, later.pk}
        assert waiting(later=False) == {due.pk}
        assert waiting(due=False) == {later.pk}

    def test_one_queue_can_be_asked_for(self):
        row(queue_name="a")
        b = row(queue_name="b", priority=7)

        assert waiting(queue_name="b") == {b.pk}

    def test_of_each_queue_and_priority_the_next_ones_are_found(self, monkeypatch):
        monkeypatch.setattr(stats, "COUNTED", 1)
        for queue, priority in (("a", 0), ("a", 5), ("b", 0)):
            for minutes in (3, 9, 6):
                since = TransactionNow() - timedelta(minutes=minutes)
                row(queue_name=queue, priority=priority, run_after=since)
        oldest = Job.objects.order_by("run_after")[:3].values_list("pk", flat=True)

        assert waiting() == set(oldest)

    def test_whether_a_queue_has_more_at_a_priority_can_be_asked(self, cursor, monkeypatch):
        monkeypatch.setattr(stats, "COUNTED", 2)
        for run_after in (LONG_AGO, LATER):
            for priority in (0, 0, 5):
                row(priority=priority, run_after=run_after)

        assert not stats.waiting_ends(cursor)
        row(run_after=LATER)
        assert stats.waiting_ends(cursor)


LIMITS = {"counted": stats.COUNTED, "least": counting.LEAST, "rows": counting.ROWS}

FILL = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, enqueued_at, run_after,
        meta, finished_at)
    SELECT 'q' || n % 5, 't', '[]', '{}', n % 3,
           CASE WHEN n < 2000 THEN 'READY' ELSE 'SUCCESSFUL' END, 0, 0,
           now(), now() - interval '1 day', '{}', CASE WHEN n < 2000 THEN NULL ELSE now() END
      FROM generate_series(1, 20000) AS n
"""


@pytest.mark.parametrize("analyzed", [True, False])
def test_no_statement_scans_the_table_whether_or_not_its_statistics_are_fresh(cursor, analyzed):
    cursor.execute(FILL)
    if analyzed:
        cursor.execute("ANALYZE django_jobs_job")

    statements = {
        "CHOICES": (stats.CHOICES, {"newest": 1000}),
        "QUEUES": (counting.QUEUES, LIMITS | {"known": []}),
        "ENDED": (counting.ENDED, LIMITS),
        "ENDS": (stats.ENDS, LIMITS),
    }
    for name, statement in statements.items():
        with limited("default"):
            cursor.execute("EXPLAIN " + statement[0], statement[1])
        plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Seq Scan on django_jobs_job" not in plan, f"{name}\n{plan}"
        assert "Sort Key: job" not in plan, f"{name}\n{plan}"
    params = stats.waiting_params(due=True, later=True, queue_name=None)
    with limited("default"), connection.cursor() as other:
        other.execute(
            f"EXPLAIN SELECT id FROM django_jobs_job WHERE {stats.IS_WAITING} ORDER BY id DESC", params
        )
        plan = "\n".join(line for (line,) in other.fetchall())
    assert "Seq Scan on django_jobs_job" not in plan, plan
    assert "Sort Key: job" not in plan, plan
