"""Figures: what workers add up, and what is read off."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.db import connection
from django.db.models.functions import Now

from django_jobs.core.histogram import class_of
from django_jobs.models import Attempt, Stat
from django_jobs.store import statistics
from django_jobs.store.statistics import PERIODS, Tally
from tests.rows import row

pytestmark = pytest.mark.django_db

HOUR, DAY, WEEK = PERIODS


def tally(completed=0, failed=0, retried=0, cancelled=0, lengths=()):
    found = Tally(completed, failed, retried, cancelled)
    for waited, ran in lengths:
        found.took(waited, ran)
    return found


def add(cursor, **tallies):
    cursor.execute(*statistics.add({(queue, "t"): found for queue, found in tallies.items()}))


@pytest.fixture
def cursor():
    with connection.cursor() as found:
        yield found


class TestAdding:
    def test_two_workers_add_to_the_same_minute_and_hour(self, cursor):
        add(cursor, mail=tally(completed=3, lengths=[(0.5, 2.0)]))
        add(
            cursor, mail=tally(completed=4, failed=1, lengths=[(0.5, 90.0), (0.0, 2.0)]), web=tally(retried=2)
        )

        for seconds in (60, 3600):
            rows = Stat.objects.filter(seconds=seconds).order_by("queue_name")
            assert [(r.queue_name, r.completed, r.failed, r.retried) for r in rows] == [
                ("mail", 7, 1, 0),
                ("web", 0, 0, 2),
            ]
            assert sum(rows[0].waits) == sum(rows[0].runs) == 3
            assert rows[0].waits[class_of(0.5)] == 2
            assert rows[0].runs[class_of(2.0)] == 2
            assert rows[0].runs[class_of(90.0)] == 1

    def test_a_minute_begins_at_its_start_whatever_the_sessions_time_zone(self, cursor):
        cursor.execute("SET LOCAL TIME ZONE 'Asia/Kathmandu'")

        add(cursor, mail=tally(completed=1))

        cursor.execute("SET LOCAL TIME ZONE 'UTC'")  # as Django reads times
        assert Stat.objects.count() == 2
        for stat in Stat.objects.all():
            assert stat.at.timestamp() % stat.seconds == 0

    def test_old_rows_go(self, cursor):
        for seconds, old in ((60, timedelta(hours=4)), (60, timedelta(hours=2)), (3600, timedelta(days=32))):
            Stat.objects.create(seconds=seconds, at=Now() - old, queue_name="old", task_path="t")

        add(cursor, mail=tally(completed=1))

        assert Stat.objects.filter(queue_name="old").count() == 1


class TestReading:
    def put(self, ago, seconds, **counts):
        Stat.objects.create(seconds=seconds, at=Now() - ago, queue_name="q", task_path="t", **counts)

    def test_totals_are_of_each_period(self, cursor):
        self.put(timedelta(minutes=5), 60, completed=5)
        self.put(timedelta(minutes=90), 60, completed=50)
        self.put(timedelta(minutes=5), 3600, completed=5, failed=1)
        self.put(timedelta(hours=20), 3600, completed=100)
        self.put(timedelta(days=6), 3600, completed=1000, retried=7)
        self.put(timedelta(days=8), 3600, completed=10_000)

        found = statistics.totals(cursor)

        assert {name: (m.completed, m.failed, m.retried) for name, m in found.items()} == {
            "hour": (5, 0, 0),
            "day": (105, 1, 0),
            "week": (1105, 1, 7),
        }

    def test_nothing_is_zero(self, cursor):
        assert [m.completed for m in statistics.totals(cursor).values()] == [0, 0, 0]
        assert statistics.course(cursor, DAY) == []
        assert statistics.kinds(cursor, WEEK) == {}
        assert statistics.failures(cursor) == []

    def test_the_course_has_the_minutes_in_which_anything_ended_in_order(self, cursor):
        for minutes in (3, 30):
            for queue in ("a", "b"):
                at = TransactionNow() - timedelta(minutes=minutes)
                Stat.objects.create(seconds=60, at=at, queue_name=queue, task_path="t", failed=2)

        found = statistics.course(cursor, HOUR)

        assert [m.failed for m in found] == [4, 4]
        assert found[0].at < found[1].at

    def test_kinds_add_up_counts_and_lengths_over_time(self, cursor):
        add(cursor, mail=tally(completed=1, lengths=[(1.0, 8.0)]), web=tally(cancelled=1))
        self.put(timedelta(minutes=7), 60, completed=4, waits=[0, 3], runs=[])
        self.put(timedelta(minutes=8), 60, completed=1, waits=[1], runs=[2])

        found = statistics.kinds(cursor, HOUR)

        assert set(found) == {("mail", "t"), ("web", "t"), ("q", "t")}
        assert found["q", "t"] == Tally(completed=5, waits=[1, 3], runs=[2, 0])
        assert found["mail", "t"].runs[class_of(8.0)] == 1
        assert found["web", "t"] == Tally(cancelled=1)

    def test_tallies_are_added_up_by_name(self):
        found = statistics.together(
            [("a", Tally(1, waits=[1])), ("b", Tally(2)), ("a", Tally(3, waits=[1, 1]))]
        )

        assert found == {"a": Tally(4, waits=[2, 1]), "b": Tally(2)}

    def test_failures_are_counted_by_class_the_last_first(self, cursor):
        job = row()
        for number, name in enumerate(["a.E", "b.E", "a.E", "", "c.E"], 1):
            Attempt.objects.create(job=job, number=number, exception_class=name, message=f"m{number}")

        found = statistics.failures(cursor)

        assert [(f.exception_class, f.number, f.message) for f in found] == [
            ("c.E", 1, "m5"),
            ("a.E", 2, "m3"),
            ("b.E", 1, "m2"),
        ]
        assert found[0].job == job.pk


class TestPlans:
    """With a year's worth of rows that shouldn't be read, no statement scans the table."""

    @pytest.mark.parametrize("analysed", [True, False])
    def test_figures_are_found_by_their_time(self, cursor, analysed):
        cursor.execute(
            "INSERT INTO django_jobs_stat (seconds, at, queue_name, task_path, completed, failed, retried,"
            " cancelled, waits, runs) SELECT 3600, now() - n * interval '1 hour', 'q', 't' || k, 1, 1, 1, 1,"
            " '{}', '{}' FROM generate_series(1, 1000) AS n, generate_series(1, 20) AS k"
        )
        if analysed:
            cursor.execute("ANALYZE django_jobs_stat")
        for text, parameters in (
            (statistics.COURSE, statistics.parameters_of(DAY)),
            (statistics.KINDS, statistics.parameters_of(DAY)),
            (statistics.RECENT, {"by_task": False}),
            statistics.add({}),
        ):
            cursor.execute(f"EXPLAIN {text}", parameters)
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "django_jobs_stat_place" in plan
            assert "Seq Scan on django_jobs_stat" not in plan
