"""
What goes on in the queue at one moment: for the overview in the admin and for `manage.py jobs status|health`.

Everything is read in a handful of bounded statements.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import connections

from django_jobs import conf
from django_jobs.models import clock
from django_jobs.store import overview
from django_jobs.store.counting import Census, Count, census
from django_jobs.tasks import registry

MOST_SHOWN = 10
"""Queues and priorities whose longest due job is shown."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue."""

    name: str
    due: Count
    later: Count
    running: int
    failed: Count
    oldest_due_seconds: float | None
    paused: bool
    workers: int
    """Live workers that claim from it."""
    slots: int
    """How many of its jobs these can run at once, by their slots and limits."""

    @property
    def is_unserved(self) -> bool:
        """Whether jobs are due that nobody takes."""
        return self.due.count > 0 and not self.paused and self.workers == 0


@dataclass(frozen=True, slots=True)
class Survey:
    """The state of the queue at one moment."""

    database: str
    at: datetime
    states: dict[str, Count]
    queues: list[QueueState]
    oldest: list[overview.Oldest]
    """One of each queue and priority, the longest due first; lists for people show the first `MOST_SHOWN`."""
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
        counted = census(cursor, known)
        oldest = overview.oldest_due(cursor, queues)
        running = overview.running_jobs(cursor, queues)
    live = [worker for worker in workers if worker.silent_seconds <= settings.dead_after_seconds]
    if queues is not None:
        counted = replace(counted, depths=[d for d in counted.depths if d.queue_name in queues])
    names_paused = {queue.name for queue in paused}
    return Survey(
        database=alias,
        at=clock(alias),
        states=states_of(counted, whole=queues is None),
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
                slots=sum(w.room(depth.queue_name) for w in live if w.serves(depth.queue_name)),
            )
            for depth in counted.depths
        ],
        oldest=oldest,
        paused=[queue for queue in paused if queues is None or queue.name in queues],
        workers=workers,
        running=running,
        slow_after_seconds=slow_after.total_seconds(),
        dead_after_seconds=settings.dead_after_seconds,
    )


def states_of(counted: Census, *, whole: bool = True) -> dict[str, Count]:
    """Return how many jobs are in each state; of those that ended only for the `whole` of the queues."""
    names = ("due", "later", "running", *(("failed", "cancelled", "successful") if whole else ()))
    return {name: getattr(counted, name) for name in names}
