"""
Holding: what a transaction that somebody leaves open costs.

Two workers are given jobs in turns, in two databases: a REPEATABLE READ transaction is open in one of them
from the start. Its dead rows can't be removed meanwhile, so the cost grows with time. Then jobs come at a
rate that leaves the worker time, and it is their latency that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from benchmarks.backlog import insert_waiting
from benchmarks.figures import JOBS_PER_SECOND, RATIO, Found, percentiles
from benchmarks.ground import Ground, another_ground, idle_workers, wait_for, workers
from benchmarks.latency import BODIES, arrivals
from benchmarks.sizes import Sizes
from django_jobs.core.records import Wake
from django_jobs.store.notify import notification

JOBS_A_MINUTE = 50_000
"""Jobs of one turn, for each minute that all turns are to take: some fortieth of the time."""

LEAST = 20_000
"""Jobs of one turn at the least."""

RATE = 300
"""Jobs a second that come one by one."""

UNFINISHED = "SELECT EXISTS (SELECT FROM django_jobs_job WHERE state <> 'SUCCESSFUL')"

LAST = "SELECT COALESCE(max(id), 0) FROM django_jobs_job"

EARLIEST = "SELECT min(run_after) FROM django_jobs_job WHERE id > %s"

TURN = """
    SELECT EXTRACT(epoch FROM max(finished_at) - min(started_at))::float8
      FROM django_jobs_job WHERE id > %s HAVING bool_and(state = 'SUCCESSFUL')
"""

DONE = "SELECT state = 'SUCCESSFUL' FROM django_jobs_job WHERE id = %s"


def measure(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Give jobs to a worker in a database where a transaction is open, in turns with one where none is."""
    jobs = max(LEAST, int(sizes.minutes * JOBS_A_MINUTE))
    ground.empty()
    free: list[float] = []
    held: list[float] = []
    with (
        another_ground("held") as other,
        workers(1, environment=ground.environment()),
        workers(1, environment=other.environment()),
    ):
        idle_workers(ground, 1)
        idle_workers(other, 1)
        with held_open(other):
            while sum(held) < sizes.minutes * 60:
                free.append(turn(ground, jobs))
                held.append(turn(other, jobs))
    name, few = f"{sizes.minutes:g} min", max(1, len(held) // 4)
    parts = {
        "whole time": slice(None),
        "first quarter": slice(few),
        "last quarter": slice(-few, None),
    }
    for turns, what in ((free, "nothing held open"), (held, "a transaction held open")):
        for part, which in parts.items():
            yield Found(f"{name}, {what}: {part}", JOBS_PER_SECOND, speed(jobs, turns[which]))
    for part, which in parts.items():
        ratio = speed(jobs, held[which]) / speed(jobs, free[which])
        yield Found(f"{name}: held open of nothing held open, {part}", RATIO, ratio)


def turn(ground: Ground, jobs: int) -> float:
    """Have a worker run so many jobs and return in how many seconds it did, from its first claim on."""
    before = ground.one(LAST)
    insert_waiting(ground, jobs)
    wake = Wake("default", 0, ground.one(EARLIEST, [before]), False)
    ground.execute(*notification("django_jobs", [wake]))
    last = ground.one(LAST)
    wait_for(lambda: ground.one(DONE, [last]), pause=0.1, patience=600)
    seconds: float = wait_for(lambda: ground.one(TURN, [before]), pause=0.2)
    return seconds


def speed(jobs: int, turns: Sequence[float]) -> float:
    """Return jobs/s over some turns."""
    return jobs * len(turns) / sum(turns)


def steady(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Have jobs come one by one while a transaction is held open, and after it has ended."""
    from benchmarks.tasks import clock

    seconds = sizes.minutes * 60
    part = min(60.0, seconds / 3)
    ground.empty()
    with workers(1):
        idle_workers(ground, 1)
        with held_open(ground):
            first = enqueued(clock, part)
            enqueued(clock, seconds - 2 * part)
            last = enqueued(clock, part)
        after = enqueued(clock, part)
        wait_for(lambda: not ground.one(UNFINISHED), pause=0.5)
        bodies = dict(ground.execute(BODIES).fetchall())
    name = f"{RATE} jobs/s, a transaction held open for {sizes.minutes:g} min"
    for committed, when in ((first, "at first"), (last, "at its end"), (after, "after it")):
        found = [(bodies[job] - at) * 1000 for job, at in committed.items()]
        yield from percentiles(f"{name}: pick-up {when}", found, (50, 99))


def enqueued(task: Any, seconds: float) -> dict[int, float]:
    """Enqueue jobs at random times for so long, and return when each was committed."""
    return arrivals(task, int(RATE * seconds), 1 / RATE)[0]


@contextmanager
def held_open(ground: Ground) -> Iterator[None]:
    """Hold a transaction open that sees the tables as they are now, as a dump or a report does."""
    with psycopg.connect(ground.url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT FROM django_jobs_job LIMIT 1")
        yield
        connection.rollback()
