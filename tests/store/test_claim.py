"""Claiming: which rows, in which order, how many, and what never stands in the way of others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from django.contrib.postgres.functions import TransactionNow as Now
from django.db import connection
from django.utils import timezone

from django_jobs.core.records import Point
from django_jobs.core.states import Kind, State
from django_jobs.models import Attempt, Job, Queue
from django_jobs.store.claim import (
    BEGINNING,
    Room,
    Span,
    claim,
    claim_after,
    claimed,
    early,
    flush,
    point_of,
    survey,
    surveyed,
)
from django_jobs.store.cursor import run
from tests import jobs
from tests.rows import WORKER, claimed_job, row, worker_row

KNOWN = [jobs.ok.module_path]
MINUTE = timedelta(minutes=1)
STRANGE_TIMES = ["-infinity", "4713-01-01 BC", "0001-01-01 BC", "infinity", "294276-12-31"]
LARGEST_INTEGER = 2**31 - 1


def plain(cursor, *rooms, limit=100, tasks=KNOWN, made=lambda statement: statement):
    """Claim from queues, given as names or as (name, room)."""
    wanted = [Room(name, room) for name, room in map(with_room, rooms or ("default",))]
    return claimed(run(cursor, made(claim(WORKER, wanted, tasks, limit))))


def spans_behind(points):
    return [Span(priority, points[priority]) for priority in sorted(points, reverse=True)]


def after(cursor, *rooms, limit=100, tasks=KNOWN, made=lambda statement: statement):
    """Claim behind points, given as (queue, {priority: point}) or (queue, {…}, room)."""
    wanted = [
        Room(
            name,
            room[0] if room else 100,
            spans_behind(points),
        )
        for name, points, *room in rooms
    ]
    return claimed(run(cursor, made(claim_after(WORKER, wanted, tasks, limit))))


def with_room(room):
    return (room, 100) if isinstance(room, str) else room


def ids(found):
    return [job.id for job in found]


def pks(rows):
    return [job.pk for job in rows]


def after_beginning(cursor, **kwargs):
    return after(cursor, ("default", {0: BEGINNING}), **kwargs)


def early_one(cursor, **kwargs):
    return after_beginning(cursor, made=early, **kwargs)


EVERY = pytest.mark.parametrize(
    "take", [plain, after_beginning, early_one], ids=["plain", "after points", "early"]
)


class TestAClaim:
    @EVERY
    def test_makes_a_job_run_one_attempt_further(self, cursor, take):
        job = row(attempt=4, uncounted=1, reason="failed before", meta={"who": "me"}, max_attempts=9)

        [found] = take(cursor)

        job.refresh_from_db()
        assert (job.state, job.attempt, job.worker, job.reason) == (State.RUNNING, 5, WORKER, None)
        assert job.started_at == job.last_attempted_at == found.started_at
        assert (found.id, found.attempt, found.counted_attempt, found.max_attempts) == (job.pk, 5, 4, 9)
        assert (found.queue_name, found.task_path, found.priority) == ("default", KNOWN[0], 0)
        assert (found.run_after, found.enqueued_at) == (job.run_after, job.enqueued_at)
        assert found.meta == '{"who": "me"}'

    @EVERY
    def test_leaves_the_time_of_the_first_start(self, cursor, take):
        first = timezone.now() - timedelta(days=1)
        job = row(attempt=1, started_at=first, last_attempted_at=first)

        [found] = take(cursor)

        job.refresh_from_db()
        assert found.started_at == job.started_at == first != job.last_attempted_at

    @EVERY
    def test_brings_the_arguments_as_they_were_stored(self, cursor, take):
        job = row()
        texts = ['[{"b": 1,"a":-0.0}, 1e22]', '{"z":1, "a" :2}', job.pk]
        cursor.execute("UPDATE django_jobs_job SET args = %s, kwargs = %s WHERE id = %s", texts)

        [found] = take(cursor)

        assert found.call == f"[{texts[0]},{texts[1]}]"

    @EVERY
    def test_brings_the_runs_before(self, cursor, take):
        job = row(attempt=2)
        for number, kind in [(2, Kind.TIMEOUT), (1, Kind.ERROR)]:
            Attempt.objects.create(
                job=job, number=number, worker=7, kind=kind, exception_class="E", traceback=f"T{number}"
            )

        [found] = take(cursor)

        common = {"worker": 7, "exception_class": "E"}
        assert found.past == [
            common | {"number": 1, "kind": "ERROR", "traceback": "T1"},
            common | {"number": 2, "kind": "TIMEOUT", "traceback": "T2"},
        ]

    @EVERY
    def test_brings_what_is_long_past_in_short(self, cursor, take):
        job = row(attempt=1500)
        Attempt.objects.bulk_create(
            Attempt(job=job, number=number, worker=7, kind=Kind.ERROR, exception_class="E", traceback="T")
            for number in range(1, 1501)
        )

        [found] = take(cursor)

        assert [run["number"] for run in found.past] == list(range(502, 1501))
        assert [run["traceback"] for run in found.past] == [None] * 980 + ["T"] * 19

    @EVERY
    def test_of_a_first_run_asks_for_none_before(self, cursor, take):
        row()

        [found] = take(cursor)

        assert (found.past, found.meta) == (None, None)

    @EVERY
    def test_takes_no_job_before_it_is_due(self, cursor, take):
        due = row(run_after=Now())
        row(run_after=Now() + timedelta(milliseconds=1))

        assert ids(take(cursor)) == [due.pk]

    @EVERY
    def test_takes_only_ready_jobs(self, cursor, take):
        made = {state: row(state) for state in State}

        assert ids(take(cursor)) == [made[State.READY].pk]

    @EVERY
    def test_takes_no_more_than_its_limit(self, cursor, take):
        made = [row() for _ in range(5)]

        assert ids(take(cursor, limit=3)) == pks(made)[:3]
        assert ids(take(cursor, limit=3)) == pks(made)[3:]

    @EVERY
    def test_takes_no_task_it_does_not_know(self, cursor, take):
        row(task_path="tests.jobs.renamed", priority=0)
        row(task_path="", priority=0)
        row(task_path="os.system", args=["true"], priority=0)
        known = row()

        assert ids(take(cursor)) == [known.pk]
        assert Job.objects.filter(state=State.READY).count() == 3

    @EVERY
    def test_of_no_tasks_takes_nothing(self, cursor, take):
        row()

        assert take(cursor, tasks=[]) == []

    @EVERY
    def test_takes_nothing_from_other_queues(self, cursor, take):
        row(queue_name="mail")
        row(queue_name="default ")
        mine = row()

        assert ids(take(cursor)) == [mine.pk]

    @EVERY
    def test_takes_nothing_from_a_paused_queue(self, cursor, take):
        job = row()
        Queue.objects.create(name="default", paused_at=timezone.now())

        assert take(cursor) == []

        Queue.objects.update(paused_at=None)
        assert ids(take(cursor)) == [job.pk]

    @EVERY
    def test_takes_ids_beyond_32_bits(self, cursor, take):
        job = row(id=2**40, attempt=1)

        assert ids(take(cursor)) == [job.pk]

    @EVERY
    def test_is_one_statement(self, db, take, django_assert_num_queries):
        made = [row(attempt=place % 2) for place in range(100)]

        with django_assert_num_queries(1), connection.cursor() as counted:
            assert ids(take(counted)) == pks(made)


class TestTheDisk:
    """A claim's commit waits for the disk, but for an early one's: then something else must, soon after."""

    @pytest.fixture
    def link(self, links):
        link = links()
        link.execute("SET synchronous_commit = on")  # the tests' server doesn't wait
        return link

    def waits(self, link, statement=None):
        """Whether the commit of a transaction with this statement waits."""
        with link.transaction():
            if statement:
                link.execute(*statement)
            [[value]] = link.execute("SHOW synchronous_commit").fetchall()
        return value == "on"

    @pytest.mark.parametrize("prepared", [False, True])
    def test_only_an_early_claim_does_not_wait_and_nothing_after_it(self, link, prepared):
        room = [Room("default", 100, spans_behind({0: BEGINNING}))]
        statement = claim_after(WORKER, room, KNOWN, 100)
        for _ in range(10 if prepared else 1):
            row()
            assert not self.waits(link, early(statement))
            assert self.waits(link)
            row()
            assert self.waits(link, statement)

    def test_a_flush_has_the_disk_take_in_what_was_written_before(self, link):
        row()
        worker = worker_row().pk
        rooms = [Room("default", 1, spans_behind({0: BEGINNING}))]
        link.execute(*early(claim_after(worker, rooms, KNOWN, 1)))
        [[written]] = link.execute("SELECT pg_current_wal_insert_lsn()").fetchall()

        link.execute(*flush(worker))

        [[flushed]] = link.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", [written]).fetchall()
        assert flushed
        assert self.waits(link, flush(worker))

    def test_it_waits_for_nobody_who_holds_the_workers_row(self, link, links):
        worker = worker_row().pk
        other = links()
        with other.transaction():
            other.execute("SELECT FROM django_jobs_worker WHERE id = %s FOR UPDATE", [worker])

            assert link.execute(*flush(worker)).fetchall() == []


class TestOrder:
    def test_higher_priority_then_due_time_then_id(self, cursor):
        chance = Random(1)
        for _ in range(60):
            row(
                priority=chance.choice([-100, 0, 5, 100]),
                run_after=Now() - timedelta(seconds=chance.choice([1, 2, 30])),
            )

        found = plain(cursor, limit=20) + plain(cursor, limit=20) + plain(cursor, limit=20)

        keys = [(-job.priority, job.run_after, job.id) for job in found]
        assert len(keys) == 60
        assert keys == sorted(keys)

    def test_what_comes_back_is_sorted_whatever_the_statement_returned(self):
        jobs_by_id = [
            claimed_job(id=number, priority=priority, run_after=timezone.now() + timedelta(seconds=seconds))
            for number, priority, seconds in [(1, 0, 5), (2, 9, 50), (3, 0, 1), (4, 9, 5)]
        ]
        rows = [[getattr(job, name) for name in job.__slots__] for job in jobs_by_id]

        assert ids(claimed(rows)) == [4, 2, 3, 1]


class TestRooms:
    def test_each_queue_gives_as_many_as_it_may(self, cursor):
        for name in ("a", "b", "c"):
            for _ in range(4):
                row(queue_name=name)

        found = plain(cursor, ("a", 1), ("b", 3))

        assert sorted(job.queue_name for job in found) == ["a", "b", "b", "b"]

    def test_queues_give_in_the_order_given_until_the_limit(self, links):
        cursor = links().cursor()
        for name in ("a", "b"):
            for _ in range(3):
                row(queue_name=name)

        assert [job.queue_name for job in plain(cursor, "b", "a", limit=4)].count("b") == 3

    def test_behind_points_each_queue_gives_by_priority(self, cursor):
        high, low = row(queue_name="a", priority=5), row(queue_name="a", priority=-5)
        other = row(queue_name="b")
        points = {5: BEGINNING, -5: BEGINNING}

        assert ids(after(cursor, ("a", points, 1), ("b", {0: BEGINNING}, 1))) == [high.pk, other.pk]
        assert ids(after(cursor, ("a", points, 1), ("b", {0: BEGINNING}, 1))) == [low.pk]


class TestPoints:
    def test_what_lies_before_a_point_is_left_to_the_plain_claim(self, cursor):
        first, second, third = (row(run_after=Now() - timedelta(seconds=30 - place)) for place in range(3))
        point = Point(second.run_after, second.pk)

        assert ids(after(cursor, ("default", {0: point}))) == [third.pk]
        assert ids(plain(cursor)) == [first.pk, second.pk]

    def test_a_point_is_a_time_and_an_id(self, cursor):
        earlier, later = row(), row()
        assert earlier.run_after == later.run_after

        assert ids(after(cursor, ("default", {0: Point(earlier.run_after, earlier.pk)}))) == [later.pk]

    def test_a_priority_without_a_point_gives_nothing(self, cursor):
        row(priority=1)
        row(priority=-1)

        assert after(cursor, ("default", {0: BEGINNING})) == []

    def test_the_point_of_a_claimed_job_lies_just_before_the_next(self, cursor):
        first, second = row(), row()
        [found] = plain(cursor, limit=1)

        assert found.id == first.pk
        assert ids(after(cursor, ("default", {0: point_of(found)}))) == [second.pk]


class TestStrangeRows:
    """Rows that no code of ours wrote stop nobody."""

    @pytest.mark.parametrize("name", ["run_after", "enqueued_at", "started_at"])
    @pytest.mark.parametrize("value", STRANGE_TIMES)
    @EVERY
    def test_a_time_outside_of_pythons_calendar(self, cursor, take, name, value):
        strange, other = row(), row()
        cursor.execute(f"UPDATE django_jobs_job SET {name} = %s WHERE id = %s", [value, strange.pk])

        found = ids(take(cursor)) + ids(plain(cursor))

        never_due = name == "run_after" and value in ("infinity", "294276-12-31")
        assert sorted(found) == [other.pk] if never_due else [strange.pk, other.pk]

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("attempt", LARGEST_INTEGER),
            ("attempt", -5),
            ("uncounted", LARGEST_INTEGER),
            ("uncounted", -LARGEST_INTEGER),
            ("max_attempts", 0),
            ("max_attempts", -1),
            ("priority", 32767),
            ("priority", -32768),
            ("args", '{"no": "list"}'),
            ("args", "null"),
            ("kwargs", "[1]"),
            ("kwargs", '"text"'),
            ("meta", "[1, 2]"),
            ("meta", "null"),
            ("queue_name", "default"),
            ("worker", 5),
        ],
    )
    def test_a_value_that_makes_no_sense(self, cursor, column, value):
        strange, other = row(), row()
        cursor.execute(f"UPDATE django_jobs_job SET {column} = %s WHERE id = %s", [value, strange.pk])

        assert sorted(ids(plain(cursor))) == [strange.pk, other.pk]

    def test_more_attempts_than_are_allowed(self, cursor):
        strange = row(attempt=9, max_attempts=3)
        other = row()

        assert sorted(ids(plain(cursor))) == [strange.pk, other.pk]


class TestSurvey:
    def found(self, cursor):
        return surveyed(run(cursor, survey()))

    def test_an_empty_table_has_no_places(self, cursor):
        assert self.found(cursor) == []

    def test_each_queue_and_priority_with_waiting_jobs_is_a_place(self, cursor):
        for name, priority in [("b", 0), ("a", -1), ("a", 100), ("a", -1), ("b", 0)]:
            row(queue_name=name, priority=priority)
        row(State.SUCCESSFUL, queue_name="done")
        row(State.RUNNING, queue_name="running")

        places = [(place.queue_name, place.priority) for place in self.found(cursor)]

        assert places == [("a", 100), ("a", -1), ("b", 0)]

    def test_it_tells_when_the_first_and_the_next_are_due(self, cursor):
        row(run_after=Now() - MINUTE)
        row(run_after=Now() + MINUTE)
        row(run_after=Now() + 2 * MINUTE)

        [place] = self.found(cursor)

        assert -65 < place.due_in <= -60
        assert place.next_due_in is not None
        assert 50 < place.next_due_in <= 60

    def test_what_is_all_due_has_no_next(self, cursor):
        row()

        [place] = self.found(cursor)

        assert place.next_due_in is None

    def test_it_tells_what_is_paused(self, cursor):
        row(queue_name="a")
        row(queue_name="b")
        Queue.objects.create(name="a", paused_at=timezone.now())
        Queue.objects.create(name="b")

        assert {place.queue_name: place.paused for place in self.found(cursor)} == {"a": True, "b": False}

    @pytest.mark.parametrize(("value", "is_due"), [("-infinity", True), ("infinity", False)])
    def test_endless_times_are_due_or_never(self, cursor, value, is_due):
        job = row()
        cursor.execute("UPDATE django_jobs_job SET run_after = %s WHERE id = %s", [value, job.pk])

        [place] = self.found(cursor)

        assert (place.due_in <= 0) is is_due
        assert place.next_due_in is None

    def test_a_hundred_places_are_one_statement(self, db, django_assert_num_queries):
        for number in range(100):
            row(queue_name=f"q{number:03}")

        with django_assert_num_queries(1), connection.cursor() as counted:
            places = self.found(counted)

        assert len(places) == 100
        assert all(a.queue_name < b.queue_name for a, b in pairwise(places))


def test_the_beginning_is_before_every_time_that_python_can_tell():
    assert BEGINNING.run_after - datetime.min.replace(tzinfo=UTC) == timedelta(days=1)
