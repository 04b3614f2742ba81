"""
Holding: what a transaction that somebody leaves open costs.

A worker is kept supplied for some minutes, once without and once with a REPEATABLE READ transaction open from
the start, in tables that were emptied. Dead rows can't be removed meanwhile, so the cost grows with time: the
last minute counts. Then jobs come at a rate that leaves the worker time, and it is their latency that counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import psycopg

from benchmarks.backlog import insert_waiting
from benchmarks.figures import JOBS_PER_SECOND, RATIO, Found, percentiles
from benchmarks.ground import Ground, checkpoint, idle_workers, wait_for, workers
from benchmarks.latency import BODIES, arrivals
from benchmarks.scale import UPDATES
from benchmarks.sizes import Sizes

STOCK = 150_000
"""Jobs that wait at the least: some seconds of work; the counter of those done is up to a second old."""

PART = 20_000
"""Jobs inserted at once."""

RATE = 300
"""Jobs a second that come one by one."""

UNFINISHED = "SELECT EXISTS (SELECT FROM django_jobs_job WHERE state <> 'SUCCESSFUL')"

RATES = """
    SELECT count(*) FILTER (WHERE finished_at <= %(began)s::timestamptz + %(part)s::interval),
           count(*) FILTER (WHERE finished_at > %(ended)s::timestamptz - %(part)s::interval
                              AND finished_at <= %(ended)s::timestamptz),
           count(*) FILTER (WHERE finished_at <= %(ended)s::timestamptz)
      FROM django_jobs_job WHERE state = 'SUCCESSFUL'
"""


def measure(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Keep a worker supplied without and with a transaction open elsewhere."""
    seconds = sizes.minutes * 60
    free = sustained(ground, seconds, held=False)
    held = sustained(ground, seconds, held=True)
    name = f"{sizes.minutes:g} min"
    for (first, last, whole), what in ((free, "nothing held open"), (held, "a transaction held open")):
        yield Found(f"{name}, {what}: whole time", JOBS_PER_SECOND, whole)
        yield Found(f"{name}, {what}: begin", JOBS_PER_SECOND, first)
        yield Found(f"{name}, {what}: end", JOBS_PER_SECOND, last)
    yield Found(f"{name}: held open of nothing held open, whole time", RATIO, held[2] / free[2])
    yield Found(f"{name}: held open of nothing held open, end", RATIO, held[1] / free[1])


def sustained(ground: Ground, seconds: float, *, held: bool) -> tuple[float, float, float]:
    """Return jobs/s of one worker in the first part, the last part and the whole of so many seconds."""
    ground.empty()
    ground.execute("VACUUM django_jobs_job")
    insert_waiting(ground, 2 * STOCK)
    checkpoint(ground.connection)
    part = min(60.0, seconds / 3)
    before = ground.one(UPDATES) or 0
    inserted = 2 * STOCK
    with held_open(ground) if held else nullcontext(), workers(1, environment=ground.environment()):
        idle_workers(ground, 1)
        began = ground.one("SELECT clock_timestamp()")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done = ((ground.one(UPDATES) or 0) - before) // 2
            if inserted - done < STOCK:
                insert_waiting(ground, PART)
                inserted += PART
            else:
                time.sleep(0.1)
        ended = ground.one("SELECT clock_timestamp()")
    row = ground.execute(RATES, {"began": began, "ended": ended, "part": f"{part} s"}).fetchone()
    assert row is not None
    return row[0] / part, row[1] / part, row[2] / seconds


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
