"""
What goes on in the queue, for `manage.py jobs status`, and whether that is well, for `health`.

Counts stop at `store.stats.COUNTED`; everything is read in a handful of bounded statements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections

from django_jobs import conf
from django_jobs.management.operating.printing import moment, number, span, table
from django_jobs.models import clock
from django_jobs.store import overview, stats
from django_jobs.tasks import registry


@dataclass(frozen=True, slots=True)
class Count:
    """A number of jobs; `exact` is false where counting stopped or didn't reach everything."""

    count: int
    exact: bool


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue. Its lengths stop at the counting limit, each."""

    name: str
    due: int
    later: int
    running: int
    failed: int
    oldest_due_seconds: float | None
    paused: bool
    workers: int
    """Live workers that claim from it."""

    @property
    def is_unserved(self) -> bool:
        """Whether jobs are due that nobody takes."""
        return self.due > 0 and not self.paused and self.workers == 0


@dataclass(frozen=True, slots=True)
class Survey:
    """The state of the queue at one moment."""

    database: str
    at: datetime
    states: dict[str, Count]
    queues: list[QueueState]
    oldest: list[overview.Oldest]
    paused: list[overview.Paused]
    workers: list[overview.LiveWorker]
    running: list[overview.RunningJob]
    slow_after_seconds: float
    dead_after_seconds: float

    @property
    def long_runs(self) -> list[overview.RunningJob]:
        return [job for job in self.running if job.seconds > self.slow_after_seconds]

    @property
    def stale(self) -> list[overview.LiveWorker]:
        """Workers that say they live, but haven't been heard of."""
        return [worker for worker in self.workers if worker.silent_seconds > self.dead_after_seconds]

    @property
    def unserved(self) -> list[str]:
        return [queue.name for queue in self.queues if queue.is_unserved]


def survey(alias: str, queues: Collection[str] | None, slow_after: timedelta) -> Survey:
    """Return the state of the queue in the database `alias`, of all queues or some."""
    settings = conf.current()
    with connections[alias].cursor() as cursor:
        workers = overview.live_workers(cursor)
        paused = overview.paused_queues(cursor)
        known = sorted({task.queue_name for task in registry.values()} | set(queues or ()))
        depths = [d for d in stats.depths(cursor, known) if queues is None or d.queue_name in queues]
        ended = stats.ended(cursor)
        oldest = overview.oldest_due(cursor)
        running = overview.running_jobs(cursor)
    live = [worker for worker in workers if worker.silent_seconds <= settings.dead_after_seconds]
    names_paused = {queue.name for queue in paused}
    return Survey(
        database=alias,
        at=clock(alias),
        states=counts(depths, ended, whole=queues is None),
        queues=[
            QueueState(
                name=depth.queue_name,
                due=depth.due,
                later=depth.later,
                running=depth.running,
                failed=depth.failed,
                oldest_due_seconds=depth.oldest_due_seconds,
                paused=depth.queue_name in names_paused,
                workers=sum(worker.serves(depth.queue_name) for worker in live),
            )
            for depth in depths
        ],
        oldest=[job for job in oldest if queues is None or job.queue_name in queues],
        paused=[queue for queue in paused if queues is None or queue.name in queues],
        workers=workers,
        running=[job for job in running if queues is None or job.queue_name in queues],
        slow_after_seconds=slow_after.total_seconds(),
        dead_after_seconds=settings.dead_after_seconds,
    )


def counts(depths: Sequence[stats.Depth], ended: stats.Ended, *, whole: bool) -> dict[str, Count]:
    """Return how many jobs are in each state; of those that ended only for the whole of the queues."""
    most = stats.COUNTED
    found = {
        "due": Count(sum(d.due for d in depths), all(d.due <= most for d in depths)),
        "later": Count(sum(d.later for d in depths), all(d.later <= most for d in depths)),
        "running": Count(sum(d.running for d in depths), True),
    }
    if whole:
        found |= {
            "failed": Count(min(ended.failed, most), ended.failed <= most),
            "cancelled": Count(min(ended.cancelled, most), ended.cancelled <= most),
            "successful": Count(ended.successful, not ended.there_are_more),
        }
    return found


def as_json(found: Survey) -> dict[str, Any]:
    """Return a survey as the documented object."""
    by_worker: dict[int, list[overview.RunningJob]] = {}
    for job in found.running:
        by_worker.setdefault(job.worker, []).append(job)
    return {
        "database": found.database,
        "at": found.at,
        "states": {name: {"count": c.count, "exact": c.exact} for name, c in found.states.items()},
        "queues": found.queues,
        "oldest_due": found.oldest,
        "paused": found.paused,
        "workers": [
            {
                "id": worker.id,
                "name": worker.name,
                "host": worker.host,
                "pid": worker.pid,
                "state": worker.state.lower(),
                "queues": worker.queues,
                "excluded_queues": worker.excluded_queues,
                "threads": worker.threads,
                "async_slots": worker.async_slots,
                "silent_seconds": worker.silent_seconds,
                "up_seconds": worker.up_seconds,
                "stale": worker in found.stale,
                "runs": by_worker.get(worker.id, []),
            }
            for worker in found.workers
        ],
        "unserved_queues": found.unserved,
        "long_runs": found.long_runs,
    }


MOST_RUNS = 5
"""Jobs shown for each worker."""


def as_text(found: Survey) -> str:
    """Return a survey for people."""
    parts = ["Jobs:  " + ", ".join(f"{number(c.count, exact=c.exact)} {s}" for s, c in found.states.items())]
    warnings = warnings_of(found)
    if warnings:
        parts.append("\n".join(f"! {warning}" for warning in warnings))
    if found.queues:
        headers = ("queue", "due", "later", "running", "failed", "oldest due", "workers", "")
        rows = [
            (
                queue.name,
                limited(queue.due),
                limited(queue.later),
                queue.running,
                limited(queue.failed, inclusive=True),
                span(queue.oldest_due_seconds),
                queue.workers,
                "paused" if queue.paused else "nobody serves it" if queue.is_unserved else "",
            )
            for queue in found.queues
        ]
        parts.append("Queues:\n" + table(headers, rows))
    if found.oldest:
        oldest = [
            (f"#{job.id}", job.queue_name, job.task_path, span(job.due_seconds),
             "" if job.task_is_known else "no live worker knows this task")
            for job in found.oldest
        ]  # fmt: skip
        parts.append("Due for longest:\n" + table(("job", "queue", "task", "for", ""), oldest))
    for queue in found.paused:
        why = f": {queue.reason}" if queue.reason else ""
        parts.append(f"Paused: {queue.name} since {moment(queue.at)} by {queue.by or 'somebody'}{why}")
    parts.append(workers_text(found))
    return "\n\n".join(parts)


def workers_text(found: Survey) -> str:
    """Return the live workers with what they run."""
    if not found.workers:
        return "Workers: none. Start one with: manage.py runjobs"
    lines = []
    for worker in found.workers:
        names = "all queues" if worker.queues is None else f"queues {', '.join(worker.queues)}"
        without = f" but {', '.join(worker.excluded_queues)}" if worker.excluded_queues else ""
        state = "silent" if worker in found.stale else worker.state.lower()
        lines.append(
            f"  #{worker.id} {worker.name}: {state}, heartbeat {span(worker.silent_seconds)} ago, "
            f"up {span(worker.up_seconds)}, {names}{without}"
        )
        runs = [job for job in found.running if job.worker == worker.id]
        lines += [
            f"      #{job.id} {job.task_path}, attempt {job.attempt}, for {span(job.seconds)}"
            + (", asked to stop" if job.cancel_requested else "")
            for job in runs[:MOST_RUNS]
        ]
        if len(runs) > MOST_RUNS:
            lines.append(f"      and {len(runs) - MOST_RUNS} more")
    return "Workers:\n" + "\n".join(lines)


def warnings_of(found: Survey) -> list[str]:
    """Return what someone should look at."""
    warnings = [f"queue {name} has due jobs, but no live worker serves it" for name in found.unserved]
    warnings += [
        f"worker #{worker.id} {worker.name} hasn't been heard of for {span(worker.silent_seconds)}"
        for worker in found.stale
    ]
    warnings += [
        f"job #{job.id} {job.task_path} has been running for {span(job.seconds)}" for job in found.long_runs
    ]
    return warnings


def limited(count: int, *, inclusive: bool = False) -> int | str:
    """Return a count as it is, or with a plus where it reached the limit."""
    over = count >= stats.COUNTED if inclusive else count > stats.COUNTED
    return number(stats.COUNTED, exact=False) if over else count


def problems_of(found: Survey, max_wait: timedelta | None) -> list[dict[str, str]]:
    """Return what is unhealthy: objects with a stable `id` and a `message`."""
    problems = []
    live = [worker for worker in found.workers if worker not in found.stale and worker.state == "RUNNING"]
    if not live:
        problems.append({"id": "no_worker", "message": "no live worker: start one with manage.py runjobs"})
    problems += [
        {
            "id": "stale_heartbeat",
            "message": f"worker #{worker.id} {worker.name} hasn't been heard of for "
            f"{span(worker.silent_seconds)} (limit {span(found.dead_after_seconds)})",
        }
        for worker in found.stale
    ]
    problems += [
        {"id": "unserved_queue", "message": f"queue {name} has due jobs, but no live worker serves it"}
        for name in found.unserved
    ]
    paused = {queue.name for queue in found.paused}
    waiting = [job for job in found.oldest if job.queue_name not in paused]
    if max_wait is not None and waiting and waiting[0].due_seconds > max_wait.total_seconds():
        job = waiting[0]
        problems.append(
            {
                "id": "waits_too_long",
                "message": f"job #{job.id} {job.task_path} in queue {job.queue_name} has been due for "
                f"{span(job.due_seconds)}",
            }
        )
    return problems
