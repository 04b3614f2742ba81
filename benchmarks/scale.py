"""
Scale: what millions of finished, scheduled and waiting rows cost.

Each backlog has a database of its own, and what is measured there is measured in turns in one with empty
tables beside it, so that both see the same machine. Claims are timed twice: ten at a time as by ten slots
with long jobs, and a hundred at a time as with short ones; a claim's time includes its commit, so the disk's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.backlog import insert_finished, insert_waiting, settle
from benchmarks.claims import timed_claims
from benchmarks.draining import RATE
from benchmarks.figures import JOBS_PER_SECOND, MILLISECONDS, RATIO, Found, percentiles
from benchmarks.ground import Ground, another_ground, checkpoint, idle_workers, wait_for, workers
from benchmarks.sizes import Sizes
from django_jobs.core.records import Wake
from django_jobs.store.notify import notification

NOTHING = "benchmarks.tasks.nothing"

UPDATES = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'django_jobs_job'"

ONE = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, meta,
        enqueued_at, run_after)
    SELECT 'starving', %(task)s, '[1]', '{}', 0, 'READY', 0, 0, 5, '{}', now, now
      FROM (SELECT clock_timestamp() AS now) AS clock
 RETURNING run_after
"""

DONE = "SELECT count(*) FROM django_jobs_job WHERE id > %s AND state = 'SUCCESSFUL'"

WAITS = """
    SELECT EXTRACT(epoch FROM last_attempted_at - enqueued_at)::float8 * 1000
      FROM django_jobs_job WHERE id > %s
"""


@dataclass(frozen=True)
class Backlog:
    """Rows that lie about while jobs are run."""

    name: str
    fill: Callable[[Ground, Sizes], None]
    has_jobs: bool
    """Whether these rows are the jobs to run, so that none are added."""


def finished(ground: Ground, sizes: Sizes) -> None:
    insert_finished(ground, sizes.finished)


def scheduled_mixed(ground: Ground, sizes: Sizes) -> None:
    insert_waiting(ground, sizes.scheduled, mixed=True, ahead="1 day")


def scheduled_first(ground: Ground, sizes: Sizes) -> None:
    insert_waiting(ground, sizes.scheduled, priority=100, ahead="1 day")


def waiting(ground: Ground, sizes: Sizes) -> None:
    insert_waiting(ground, sizes.waiting)


def waiting_mixed(ground: Ground, sizes: Sizes) -> None:
    insert_waiting(ground, sizes.waiting, mixed=True)


def waiting_in_queues(ground: Ground, sizes: Sizes) -> None:
    insert_waiting(ground, sizes.waiting, queues=sizes.queues - 1)


def backlogs(sizes: Sizes) -> dict[str, Backlog]:
    """Return the backlogs by the groups that measure them."""
    return {
        "finished": Backlog(f"{sizes.finished:,} finished", finished, False),
        "scheduled": Backlog(f"{sizes.scheduled:,} scheduled at any priority", scheduled_mixed, False),
        "scheduled-first": Backlog(f"{sizes.scheduled:,} scheduled at priority 100", scheduled_first, False),
        "waiting": Backlog(f"{sizes.waiting:,} waiting", waiting, True),
        "priorities": Backlog(f"{sizes.waiting:,} waiting at 201 priorities", waiting_mixed, True),
        "queues": Backlog(f"{sizes.waiting:,} waiting in {sizes.queues - 1} queues", waiting_in_queues, True),
    }


def measure(name: str) -> Callable[[Ground, Sizes], Iterator[Found]]:
    """Return what measures one backlog, all its repetitions at once, since filling takes minutes."""

    def found(ground: Ground, sizes: Sizes) -> Iterator[Found]:
        backlog = backlogs(sizes)[name]
        with another_ground("backlog") as full:
            began = time.monotonic()
            backlog.fill(full, sizes)
            settle(full)
            yield Found(f"{backlog.name}: filled in", "s", time.monotonic() - began)
            size = full.one("SELECT pg_total_relation_size('django_jobs_job')")
            yield Found(f"{backlog.name}: table and indexes", "GB", size / 1e9)
            for _ in range(sizes.runs):
                yield from against_empty(ground, full, backlog, sizes)
            if name == "queues":
                for _ in range(sizes.runs):
                    yield from starving(full, sizes, notify=True)
                    yield from starving(full, sizes, notify=False)

    return found


def against_empty(ground: Ground, full: Ground, backlog: Backlog, sizes: Sizes) -> Iterator[Found]:
    """Run jobs in empty tables and beside the backlog, and time claims beside the backlog."""
    ground.empty()
    insert_waiting(ground, sizes.jobs)
    settle(ground)
    empty = throughput(ground, sizes.jobs)
    if not backlog.has_jobs:
        insert_waiting(full, sizes.jobs)
    settle(full)
    rate = throughput(full, sizes.jobs)
    yield Found("drain in empty tables", JOBS_PER_SECOND, empty)
    yield Found(f"drain with {backlog.name}", JOBS_PER_SECOND, rate)
    yield Found(f"drain with {backlog.name} of empty tables", RATIO, rate / empty)
    for batch in (10, 100):
        ground.empty()
        insert_waiting(ground, sizes.jobs)
        settle(ground)
        usual = timed_claims(ground, batch=batch, seconds=sizes.seconds, tasks=[NOTHING])
        if not backlog.has_jobs:
            insert_waiting(full, sizes.jobs)
        settle(full)
        claims = timed_claims(full, batch=batch, seconds=sizes.seconds, tasks=[NOTHING])
        yield from percentiles(f"claim of {batch} in empty tables", usual.all, (50, 99))
        yield from percentiles(f"claim of {batch} with {backlog.name}", claims.all, (50, 99))
        yield Found(
            f"claim of {batch} with {backlog.name}, plain ones, most", MILLISECONDS, max(claims.plain)
        )
        if batch == 10 and claims.surveys:
            yield Found(f"survey with {backlog.name}, most", MILLISECONDS, max(claims.surveys))


def throughput(ground: Ground, jobs: int) -> float:
    """Return jobs/s of one worker until it has done so many."""
    began = ground.one("SELECT clock_timestamp()")
    updates = ground.one(UPDATES) or 0
    with workers(1, environment=ground.environment()):
        wait_for(lambda: enough(ground, updates + 2 * jobs), pause=0.25, patience=600)
    return float(ground.one(RATE, [began]))


def enough(ground: Ground, updates: int) -> bool:
    """Whether so many rows were updated, by a counter that needs no look at the table."""
    return bool((ground.one(UPDATES) or 0) >= updates)


def starving(full: Ground, sizes: Sizes, *, notify: bool) -> Iterator[Found]:
    """Put a job into a queue of its own now and then, while all other queues have jobs waiting."""
    checkpoint(full.connection)
    first = full.one("SELECT max(id) FROM django_jobs_job")
    count = 0
    with workers(1, environment=full.environment()):
        idle_workers(full, 1)
        end = time.monotonic() + max(3.0, sizes.seconds)
        while time.monotonic() < end:
            [(at,)] = full.execute(ONE, {"task": NOTHING}).fetchall()
            if notify:
                full.execute(*notification("django_jobs", [Wake("starving", 0, at)]))
            count += 1
            time.sleep(0.1)
        wait_for(lambda: full.one(DONE, [first]) >= count, pause=0.1)
    late = [wait for (wait,) in full.execute(WAITS, [first]).fetchall()]
    told = "notified" if notify else "not notified"
    name = f"job in a queue of its own, {told}, {sizes.queues - 1} others full: claimed after"
    yield from percentiles(name, late, (50, 99))
