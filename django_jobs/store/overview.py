"""
What goes on: who works on what, what has waited longest, what is paused. For `manage.py jobs status|health`.

Depths and counts are in `stats`. Every statement is bounded: workers and running jobs are as few as there are
processes and slots, and what waits is found by a walk from one queue and priority to the next.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django_jobs.core.names import names_in, names_or_all, numbers_by_name, room, takes, texts_by_name
from django_jobs.store.cursor import Cursor, run
from django_jobs.store.stats import PLACES

MOST = 1_000
"""Workers, running jobs, and queues and priorities with due ones that are listed."""

# Times are kept within Python's calendar, so that no row of a stranger's breaks the list.
WORKERS = """
    SELECT id, name, host, pid, state, COALESCE(queues::text, 'null'), excluded_queues::text, threads,
           async_slots, holds_lock,
           EXTRACT(epoch FROM clock_timestamp()
                              - GREATEST(LEAST(heartbeat_at, '9999-12-30Z'), '0001-01-03Z'))::float8,
           EXTRACT(epoch FROM clock_timestamp()
                              - GREATEST(LEAST(started_at, '9999-12-30Z'), '0001-01-03Z'))::float8,
           supervisor_pid, memory_bytes, asked_to, limits::text, versions::text
      FROM django_jobs_worker
     WHERE state IN ('RUNNING', 'STOPPING')
     ORDER BY id LIMIT %(most)s
"""

KNOWING = """
    SELECT id FROM django_jobs_worker
     WHERE state IN ('RUNNING', 'STOPPING') AND tasks ? %(path)s
     ORDER BY id LIMIT %(most)s
"""

# Index django_jobs_running.
RUNNING = """
    SELECT id, queue_name, task_path, worker, attempt::bigint - uncounted, cancel_requested_at IS NOT NULL,
           COALESCE(EXTRACT(epoch FROM clock_timestamp()
                            - CASE WHEN isfinite(last_attempted_at) THEN last_attempted_at END)::float8, 0)
      FROM django_jobs_job
     WHERE state = 'RUNNING' AND (%(queues)s::text[] IS NULL OR queue_name = ANY(%(queues)s::text[]))
     ORDER BY last_attempted_at, id LIMIT %(most)s
"""

# Index django_jobs_ready: one look-up for each queue and priority. clock_timestamp() would be asked of every
# row that is scheduled there; the statement's own time is a bound of the look-up.
OLDEST = (
    PLACES
    + """
    SELECT job.id, job.queue_name, job.task_path, job.priority,
           GREATEST(EXTRACT(epoch FROM clock_timestamp() - job.run_after)::float8, 0),
           EXISTS (SELECT FROM django_jobs_worker AS live
                    WHERE live.state IN ('RUNNING', 'STOPPING') AND live.tasks ? job.task_path)
      FROM place
     CROSS JOIN LATERAL (
           SELECT * FROM django_jobs_job AS waiting
            WHERE waiting.state = 'READY' AND waiting.queue_name = place.queue_name
              AND waiting.priority = place.priority
              AND waiting.run_after <= statement_timestamp() AND waiting.run_after > '-infinity'
            ORDER BY waiting.run_after, waiting.id LIMIT 1) AS job
     WHERE (%(queues)s::text[] IS NULL OR place.queue_name = ANY(%(queues)s::text[]))
       AND NOT EXISTS (SELECT FROM django_jobs_queue AS paused
                        WHERE paused.name = place.queue_name AND paused.paused_at IS NOT NULL)
     ORDER BY job.run_after, job.id LIMIT %(most)s
"""
)

PAUSED = """
    SELECT name, GREATEST(LEAST(paused_at, '9999-12-30Z'), '0001-01-03Z'), paused_by, pause_reason
      FROM django_jobs_queue
     WHERE paused_at IS NOT NULL ORDER BY name
"""

WORKER_NAMES = "SELECT id, name FROM django_jobs_worker WHERE id = ANY(%(ids)s::bigint[])"


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker whose row says that it lives; times in seconds, by the database's clock."""

    id: int
    name: str
    host: str
    pid: int
    state: str
    queues: list[str] | None
    excluded_queues: list[str]
    threads: int
    async_slots: int
    holds_lock: bool
    silent_seconds: float
    """Since its last heartbeat."""
    up_seconds: float
    supervisor_pid: int | None
    """The process that starts another in its place; `None` where there is none, or it didn't say."""
    memory_bytes: int | None
    asked_to: str
    """What someone asked it to do: `DRAIN`, `STOP`, or nothing."""
    limits: dict[str, int]
    """How many jobs of a queue it runs at once, where that is limited."""
    versions: dict[str, str]

    @property
    def slots(self) -> int:
        """How many jobs it can run at once."""
        return self.threads + self.async_slots

    def room(self, queue_name: str) -> int:
        """Return how many jobs of a queue it can run at once."""
        return room(self.slots, self.limits, queue_name)

    def serves(self, queue_name: str) -> bool:
        """Whether it claims from this queue."""
        return self.state == "RUNNING" and takes(self.queues, self.excluded_queues, queue_name)


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs now."""

    id: int
    queue_name: str
    task_path: str
    worker: int
    attempt: int
    cancel_requested: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Oldest:
    """The job of one queue and priority that has been due for longest."""

    id: int
    queue_name: str
    task_path: str
    priority: int
    due_seconds: float
    task_is_known: bool
    """Whether a live worker's code has its task."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A queue that no worker claims from."""

    name: str
    at: datetime
    by: str
    reason: str


def live_workers(cursor: Cursor) -> list[LiveWorker]:
    """Return the workers that say they live, oldest first."""
    found = []
    for row in run(cursor, (WORKERS, {"most": MOST})):
        queues, excluded, limits, versions = (json.loads(row[place] or "null") for place in (5, 6, -2, -1))
        named = (numbers_by_name(limits), texts_by_name(versions))
        shown = (names_or_all(queues), names_in(excluded), *row[7:-2], *named)
        found.append(LiveWorker(*(*row[:5], *shown)))
    return found


def workers_that_know(cursor: Cursor, task_path: str) -> list[int]:
    """Return the ids of the workers that say they live and know this task."""
    return [row[0] for row in run(cursor, (KNOWING, {"path": task_path, "most": MOST}))]


def running_jobs(cursor: Cursor, queues: Collection[str] | None = None) -> list[RunningJob]:
    """Return what runs, of all queues or some, the longest first."""
    return [RunningJob(*row) for row in run(cursor, (RUNNING, choice(queues)))]


def oldest_due(cursor: Cursor, queues: Collection[str] | None = None) -> list[Oldest]:
    """
    Return the longest due job of each queue and priority, of all queues or some, the longest first.

    Those of paused queues are left out: what is due there waits for whoever paused it.
    """
    return [Oldest(*row) for row in run(cursor, (OLDEST, choice(queues)))]


def choice(queues: Collection[str] | None) -> dict[str, object]:
    """Return the parameters of a list of all queues, or of some."""
    return {"queues": None if queues is None else list(queues), "most": MOST}


def paused_queues(cursor: Cursor) -> list[Paused]:
    """Return the queues that are paused, by name."""
    return [Paused(*row) for row in run(cursor, (PAUSED, {}))]


def worker_names(cursor: Cursor, ids: Sequence[int]) -> dict[int, str]:
    """Return the names of workers by their ids, of those whose rows are still there."""
    return {row[0]: row[1] for row in run(cursor, (WORKER_NAMES, {"ids": list(ids)}))}
