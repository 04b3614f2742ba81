"""
Latency: from the commit to the begin of the body, and from the due time to the begin of the body.

The commit's time is taken by the first `on_commit` callback of the transaction, so before any notification is
sent. Both times are of one machine's clock.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from benchmarks.figures import MILLISECONDS, Found, percentile, percentiles
from benchmarks.ground import Ground, idle_workers, wait_for, workers
from benchmarks.sizes import Sizes

BODIES = "SELECT id, return_value::text::float8 FROM django_jobs_job WHERE state = 'SUCCESSFUL'"

SLOTS = 10


def pick_up(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Enqueue now and then, once with an idle worker and once with half of its slots busy."""
    from benchmarks.tasks import SECONDS, clock, slow_clock

    count = max(30, sizes.jobs // 100)
    yield from percentiles("pick-up, idle worker", picked_up(ground, clock, count, 0.05))
    pause = SECONDS / (SLOTS / 2)
    yield from percentiles("pick-up, half of the slots busy", picked_up(ground, slow_clock, 2 * count, pause))


def picked_up(ground: Ground, task: Any, count: int, pause: float, *, running: int = 1) -> list[float]:
    """Return for each of `count` jobs the milliseconds from its commit to its body; they come at random."""
    ground.empty()
    with workers(1, *(["--processes", str(running), "--threads", "1"] if running > 1 else [])):
        idle_workers(ground, running)
        time.sleep(0.5)  # let the workers' first look pass
        committed, _ = arrivals(task, count, pause)
        bodies = begun(ground, count)
    return [(bodies[job] - at) * 1000 for job, at in committed.items()]


def arrivals(task: Any, count: int, pause: float) -> tuple[dict[int, float], list[float]]:
    """Enqueue at random times, `pause` seconds apart on average; return commits and durations."""
    from django.db import transaction

    chance = random.Random(4)
    committed: dict[int, float] = {}
    durations = []
    at = time.perf_counter()
    for number in range(count):
        at += chance.expovariate(1 / pause)
        time.sleep(max(0.0, at - time.perf_counter()))
        marks: list[float] = []
        began = time.perf_counter()
        with transaction.atomic():
            transaction.on_commit(partial(note_time, marks))
            result = task.enqueue(number)
        durations.append(time.perf_counter() - began)
        committed[int(result.id)] = marks[0]
    return committed, durations


def note_time(marks: list[float]) -> None:
    """Note what time it is."""
    marks.append(time.time())


def begun(ground: Ground, count: int) -> dict[int, float]:
    """Wait until so many jobs are done, and return when the body of each began."""
    found: dict[int, float] = {}

    def all_begun() -> bool:
        found.update(ground.execute(BODIES).fetchall())
        return len(found) >= count

    wait_for(all_begun)
    return found


def due(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Schedule jobs for times spread over some seconds, and see how late their bodies begin."""
    from benchmarks.tasks import clock

    ground.empty()
    chance = random.Random(5)
    count = max(30, sizes.jobs // 100)
    with workers(1):
        idle_workers(ground, 1)
        times = {}
        begin = time.time() + 2
        for number in range(count):
            at = begin + chance.uniform(0, 2 * sizes.seconds)
            result = clock.using(run_after=datetime.fromtimestamp(at, UTC)).enqueue(number)
            times[int(result.id)] = at
        bodies = begun(ground, count)
    late = [(bodies[job] - at) * 1000 for job, at in times.items()]
    yield from percentiles("lateness of jobs due at times of their own", late, (50, 99))
    yield Found("lateness of jobs due at times of their own, most", MILLISECONDS, max(late))
    yield from due_together(ground, count)


def due_together(ground: Ground, count: int) -> Iterator[Found]:
    """Schedule jobs for one time."""
    from benchmarks.tasks import clock

    ground.empty()
    with workers(1):
        idle_workers(ground, 1)
        at = datetime.now(UTC) + timedelta(seconds=2)
        clock.using(run_after=at).enqueue_many((number,) for number in range(count))
        late = [(body - at.timestamp()) * 1000 for body in begun(ground, count).values()]
    yield Found(f"lateness of the first of {count} jobs due together", MILLISECONDS, min(late))
    yield Found(f"lateness of the last of {count} jobs due together", MILLISECONDS, max(late))


def listening(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Enqueue now and then while one worker listens, and while many do."""
    from benchmarks.tasks import clock

    room = int(ground.one("SHOW max_connections")) - ground.one("SELECT count(*) FROM pg_stat_activity") - 10
    many = min(sizes.listeners, room // 2)  # each has two connections
    count = max(30, sizes.jobs // 200)
    for running in (1, many):
        name = f"{running} workers" if running > 1 else "1 worker"
        ground.empty()
        with workers(1, "--processes", str(running), "--threads", "1"):
            idle_workers(ground, running)
            time.sleep(1.0)
            committed, durations = arrivals(clock, count, 0.05)
            bodies = begun(ground, count)
        found = [(bodies[job] - at) * 1000 for job, at in committed.items()]
        yield from percentiles(f"pick-up, {name} listening", found, (50, 99))
        yield Found(
            f"enqueue() in atomic(), {name} listening, p50",
            MILLISECONDS,
            percentile([seconds * 1000 for seconds in durations], 50),
        )
