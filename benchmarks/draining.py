"""Draining: workers find jobs waiting, and run them from the first claim to the last stored outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.figures import JOBS_PER_SECOND, RATIO, Found
from benchmarks.ground import Ground, checkpoint, idle_workers, wait_for, workers
from benchmarks.processes import available, cpu_seconds, server_processes, tree
from benchmarks.sizes import Sizes
from django_jobs.operations import Operations

LEFT = """
    SELECT EXISTS (SELECT FROM django_jobs_job WHERE state = 'RUNNING')
           OR EXISTS (SELECT FROM django_jobs_job WHERE state = 'READY' AND run_after <= now())
"""

RATE = """
    SELECT count(*) / EXTRACT(epoch FROM max(finished_at) - min(last_attempted_at))::float8
      FROM django_jobs_job
     WHERE state = 'SUCCESSFUL' AND last_attempted_at > %s
"""


def drain(ground: Ground, task: Any, jobs: int, processes: int, **environment: str) -> float:
    """Return jobs/s of workers that find `jobs` waiting, in tables that were empty."""
    ground.empty()
    task.enqueue_many((number,) for number in range(jobs))
    ground.execute("VACUUM ANALYZE django_jobs_job")
    return emptied(ground, processes, **environment)


def emptied(ground: Ground, processes: int, **environment: str) -> float:
    """Return jobs/s of workers that run all that waits; none claims before all are ready."""
    checkpoint(ground.connection)
    began = ground.one("SELECT clock_timestamp()")
    with paused(), workers(processes, environment=ground.environment(**environment)):
        idle_workers(ground, processes)
        Operations("default").resume("default")
        wait_for(lambda: not ground.one(LEFT), pause=0.1, patience=1200)
    return float(ground.one(RATE, [began]))


def measure(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Drain each kind of job with one process and with two, 10 slots each."""
    from benchmarks.tasks import nothing, nothing_async, query

    few = max(500, sizes.jobs // 4)
    kept = {"BENCHMARK_KEEP_CONNECTIONS": "1"}
    for name, task, jobs, environment in (
        ("no-op in a thread", nothing, sizes.jobs, {}),
        ("no-op on the event loop", nothing_async, sizes.jobs, {}),
        ("one ORM query, CONN_MAX_AGE None", query, sizes.jobs, kept),
        ("one ORM query, CONN_MAX_AGE 0", query, few, {}),
    ):
        one = drain(ground, task, jobs, 1, **environment)
        two = drain(ground, task, jobs, 2, **environment)
        yield Found(f"drain, {name}, 1 process", JOBS_PER_SECOND, one)
        yield Found(f"drain, {name}, 2 processes", JOBS_PER_SECOND, two)
        yield Found(f"drain, {name}, 2 processes of 1", RATIO, two / one)


def scaling(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Drain with more and more processes on one database, and see who used the processor."""
    from benchmarks.tasks import nothing

    first = 0.0
    for count in sizes.processes:
        jobs = sizes.jobs * min(count, 4)
        ground.empty()
        nothing.enqueue_many((number,) for number in range(jobs))
        ground.execute("VACUUM ANALYZE django_jobs_job")
        checkpoint(ground.connection)
        began = ground.one("SELECT clock_timestamp()")
        with paused(), workers(count, environment=ground.environment()) as running:
            idle_workers(ground, count)
            with processor_time(ground, [worker.pid for worker in running]) as used:
                Operations("default").resume("default")
                wait_for(lambda: not ground.one(LEFT), pause=0.1)
        rate = float(ground.one(RATE, [began]))
        first = first or rate
        name = f"{count} processes" if count > 1 else "1 process"
        yield Found(f"drain, {name}", JOBS_PER_SECOND, rate)
        yield Found(f"drain, {name} of the first", RATIO, rate / first)
        for whose, seconds in used.items():
            yield Found(f"drain, {name}: cores used by the {whose}", "cores", seconds * rate / jobs)
            yield Found(f"drain, {name}: processor time of the {whose}", "µs a job", seconds / jobs * 1e6)


@contextmanager
def paused() -> Iterator[None]:
    """Let workers get ready before any of them may claim: pause the queue until someone resumes it."""
    Operations("default").pause("default", by="benchmark", reason="all workers begin together")
    try:
        yield
    finally:
        Operations("default").resume("default")


@contextmanager
def processor_time(ground: Ground, pids: list[int]) -> Iterator[dict[str, float]]:
    """Fill in how many seconds of processor the workers and the server used, where the system tells."""
    used: dict[str, float] = {}
    server = server_processes(ground)
    before = {pid: cpu_seconds(pid) for pid in server}
    workers_before = sum(cpu_seconds(pid) for top in pids for pid in tree(top))
    yield used
    if available():
        at_end = sum(cpu_seconds(pid) for top in pids for pid in tree(top))
        now = {pid: cpu_seconds(pid) for pid in server_processes(ground)}
        used["workers"] = max(0.0, at_end - workers_before)
        used["server"] = sum(max(0.0, time - before.get(pid, 0.0)) for pid, time in now.items())
