"""
Rescue: finding workers that died, and the jobs that still run under their names.

A worker is dead when its lock is gone though its row says that it holds one, or when its heartbeat is older
than the limit, by the database's clock. One UPDATE of its row, which names the state it comes from, decides
who buries it. Any job that runs under a name that isn't alive is an orphan: its end is then written like
any other (`store.finish`), guarded by the dead worker's id, so that two rescuers can't both do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django_jobs.core.records import ClaimedJob
from django_jobs.store.cursor import Rows, Statement
from django_jobs.store.finish import interval

LOOK = """
    SELECT worker.id, worker.name, worker.holds_lock AND NOT lock.found, lock.found,
           worker.heartbeat_at < clock_timestamp() - %(dead_after)s::interval
      FROM django_jobs_worker AS worker
     CROSS JOIN LATERAL (
           SELECT EXISTS (
               SELECT FROM pg_locks AS lock
                WHERE lock.locktype = 'advisory' AND lock.granted
                  AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND lock.classid = (%(lock_class)s::bigint & 4294967295)::oid
                  AND lock.objid = (worker.id & 2147483647)::oid
                  AND lock.objsubid = 2) AS found) AS lock
     WHERE worker.state IN ('RUNNING', 'STOPPING') AND worker.id <> %(worker)s
"""

# The lock is tried for by the one who acts, so that a worker that has just come back isn't buried.
BURY = """
    UPDATE django_jobs_worker
       SET state = 'LOST', stopped_at = clock_timestamp(), holds_lock = false, ending = %(ending)s
     WHERE id = %(dead)s AND state IN ('RUNNING', 'STOPPING')
       AND (%(certain)s
            OR heartbeat_at < clock_timestamp() - %(dead_after)s::interval
            OR (holds_lock
                AND pg_try_advisory_xact_lock(%(lock_class)s, (%(dead)s::bigint & 2147483647)::int)))
 RETURNING started_at
"""

# Index django_jobs_running: a walk from one worker with running jobs to the next.
ORPHANS = """
    WITH RECURSIVE holder AS (
        (SELECT worker FROM django_jobs_job WHERE state = 'RUNNING' ORDER BY worker LIMIT 1)
         UNION ALL
        SELECT (SELECT job.worker FROM django_jobs_job AS job
                 WHERE job.state = 'RUNNING' AND job.worker > holder.worker
                 ORDER BY job.worker LIMIT 1)
          FROM holder WHERE holder.worker IS NOT NULL),
    dead AS (
        SELECT holder.worker FROM holder
         WHERE holder.worker IS NOT NULL
           AND NOT EXISTS (SELECT FROM django_jobs_worker AS live
                            WHERE live.id = holder.worker AND live.state IN ('RUNNING', 'STOPPING')))
    SELECT dead.worker, past.name, past.started_at,
           job.id, job.queue_name, job.task_path, '[' || job.args || ',' || job.kwargs || ']',
           job.attempt, job.uncounted, job.max_attempts,
           job.priority,
           GREATEST(LEAST(job.run_after, '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(job.enqueued_at, '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(COALESCE(job.started_at, now()), '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(COALESCE(job.last_attempted_at, now()), '9999-12-30Z'), '0001-01-03Z'),
           NULLIF(job.meta, '{}')::text, NULL
      FROM dead
      LEFT JOIN django_jobs_worker AS past ON past.id = dead.worker
     CROSS JOIN LATERAL (
           SELECT * FROM django_jobs_job AS running
            WHERE running.state = 'RUNNING' AND running.worker = dead.worker
            LIMIT %(limit)s) AS job
"""

# Looks no further than `depth` overdue rows of a queue, so that a backlog doesn't make it slow. The guard is
# no plain `state = …`, as in store/finish.py: where the planner believes that few wait, it would look for a
# job among all of them.
FAIL_UNKNOWN = """
    WITH overdue AS (
        SELECT job.id
          FROM unnest(%(queues)s::text[]) AS queue (name)
         CROSS JOIN LATERAL (
               SELECT waiting.id, waiting.task_path
                 FROM django_jobs_job AS waiting
                WHERE waiting.queue_name = queue.name AND waiting.state = 'READY'
                  AND waiting.run_after < now() - %(wait)s::interval   -- no clock: it would be asked of each
                ORDER BY waiting.priority DESC, waiting.run_after, waiting.id
                LIMIT %(depth)s) AS job
         WHERE NOT EXISTS (
               SELECT FROM django_jobs_worker AS live
                WHERE live.state IN ('RUNNING', 'STOPPING') AND live.tasks ? job.task_path)
         LIMIT 1000),
    job AS (
        UPDATE django_jobs_job AS job
           SET state = 'FAILED', attempt = LEAST(job.attempt, 2147483646) + 1,
               finished_at = clock_timestamp(), expires_at = clock_timestamp() + %(keep)s::interval,
               reason = %(reason)s
          FROM overdue
         WHERE job.id = overdue.id AND job.state || '' = 'READY'
     RETURNING job.*),
    attempt AS (
        INSERT INTO django_jobs_attempt (
               job_id, number, ended_at, kind, exception_class, message, traceback, decision)
        SELECT id, attempt, clock_timestamp(), 'UNKNOWN_TASK', 'django_jobs.exceptions.UnknownTask',
               %(reason)s, '', 'FAILED'
          FROM job
            ON CONFLICT (job_id, number) DO NOTHING)
    SELECT job.id, job.queue_name, job.task_path, '[' || job.args || ',' || job.kwargs || ']',
           job.attempt, job.uncounted, job.max_attempts, job.priority,
           GREATEST(LEAST(job.run_after, '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(job.enqueued_at, '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(COALESCE(job.started_at, now()), '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(COALESCE(job.last_attempted_at, now()), '9999-12-30Z'), '0001-01-03Z'),
           NULLIF(job.meta, '{}')::text, NULL
      FROM job
"""

ORPHANS_LIMIT = 500
"""Orphans of one worker that are taken over at a time."""

DEPTH = 10_000
"""Overdue rows of a queue that are looked at for unknown tasks."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a look showed of another worker that is said to live."""

    id: int
    name: str
    lock_gone: bool
    """Its row says that it holds its lock, and it doesn't."""
    locked: bool
    """It holds its lock."""
    silent: bool
    """Its heartbeat is older than what makes it dead."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A job that runs under the name of a worker that isn't alive."""

    worker: int
    worker_name: str | None
    worker_started_at: datetime | None
    """`None`, as its name, when nothing is known of the worker."""
    job: ClaimedJob


def look(worker: int, *, lock_class: int, dead_after: timedelta) -> Statement:
    """Return the statement that looks at all other workers."""
    return LOOK, {"worker": worker, "lock_class": lock_class, "dead_after": interval(dead_after)}


def looked(rows: Rows) -> list[Peer]:
    """Return what a look showed."""
    return [Peer(*row) for row in rows]


def bury(dead: int, *, lock_class: int, dead_after: timedelta, certain: bool, ending: str) -> Statement:
    """
    Return the statement that declares a worker dead, if it still looks so.

    `certain` is for a process whose parent saw it die. Its start comes back to the one who did it.
    """
    return BURY, {
        "dead": dead,
        "lock_class": lock_class,
        "dead_after": interval(dead_after),
        "certain": certain,
        "ending": ending,
    }


def orphans() -> Statement:
    """Return the statement that lists jobs of workers that aren't alive."""
    return ORPHANS, {"limit": ORPHANS_LIMIT}


def found(rows: Rows) -> list[Orphan]:
    """Return the orphans that a look found."""
    return [Orphan(row[0], row[1], row[2], ClaimedJob(*row[3:])) for row in rows]


def fail_unknown(queues: Sequence[str], *, wait: timedelta, keep: timedelta | None, reason: str) -> Statement:
    """
    Return the statement that fails jobs which are due for longer than `wait` and known to no worker.

    It returns the columns of a `ClaimedJob`.
    """
    return FAIL_UNKNOWN, {
        "queues": list(queues),
        "wait": interval(wait),
        "keep": interval(keep),
        "depth": DEPTH,
        "reason": reason,
    }
