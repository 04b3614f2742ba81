"""
What keeps a job from running: the facts of one job, for the admin and `manage.py jobs explain`.

Each is a look-up by a key or a count that stops at `COUNTED`; nothing is locked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django_jobs.core.states import State
from django_jobs.store.cursor import Cursor, run
from django_jobs.store.health import Holder
from django_jobs.store.overview import LiveWorker, Paused, RunningJob, live_workers, running_jobs
from django_jobs.store.stats import COUNTED

# Times are kept within Python's calendar, so that no row of a stranger's breaks the page; to LEAST and
# GREATEST, NULL is nothing at all.
# A row that someone locked or changed without a commit names that transaction in its xmax; claims skip it.
JOB = """
    SELECT job.state, job.queue_name, job.task_path, job.priority, job.attempt::bigint - job.uncounted,
           CASE WHEN isfinite(job.run_after) THEN EXTRACT(epoch FROM job.run_after - clock_timestamp())
                WHEN job.run_after > now() THEN 'infinity' ELSE '-infinity' END::float8,
           job.worker, job.cancel_requested_at IS NOT NULL, COALESCE(job.reason, ''),
           EXTRACT(epoch FROM clock_timestamp()
                   - CASE WHEN isfinite(job.last_attempted_at) THEN job.last_attempted_at END)::float8,
           CASE WHEN paused.paused_at IS NOT NULL
                THEN GREATEST(LEAST(paused.paused_at, '9999-12-30Z'), '0001-01-03Z') END,
           paused.paused_by, paused.pause_reason,
           ARRAY(SELECT live.id FROM django_jobs_worker AS live
                  WHERE live.state IN ('RUNNING', 'STOPPING') AND live.tasks ? job.task_path),
           holder.pid, COALESCE(holder.application_name, ''), COALESCE(holder.state, ''),
           COALESCE(EXTRACT(epoch FROM clock_timestamp() - holder.xact_start), 0)::float8
      FROM django_jobs_job AS job
      LEFT JOIN django_jobs_queue AS paused ON paused.name = job.queue_name AND paused.paused_at IS NOT NULL
      LEFT JOIN pg_stat_activity AS holder
        ON holder.backend_xid = job.xmax AND holder.pid <> pg_backend_pid()
     WHERE job.id = %(id)s
"""

# Index django_jobs_ready: what a claim takes before this job. A walk from one higher priority to the next, or
# jobs that are scheduled there would be walked over; clock_timestamp() would be asked of each of them.
AHEAD = """
    WITH RECURSIVE place AS (
        (SELECT priority FROM django_jobs_job
          WHERE state = 'READY' AND queue_name = %(queue)s AND priority > %(priority)s
          ORDER BY queue_name, priority DESC, run_after, id LIMIT 1)
         UNION ALL
        SELECT following.priority
          FROM place
         CROSS JOIN LATERAL (
               SELECT job.priority FROM django_jobs_job AS job
                WHERE job.state = 'READY' AND job.queue_name = %(queue)s
                  AND job.priority < place.priority AND job.priority > %(priority)s
                ORDER BY job.queue_name, job.priority DESC, job.run_after, job.id LIMIT 1) AS following)
    SELECT count(*)::int
      FROM ((SELECT
               FROM place
              CROSS JOIN LATERAL (
                    SELECT FROM django_jobs_job AS other
                     WHERE other.state = 'READY' AND other.queue_name = %(queue)s
                       AND other.priority = place.priority AND other.run_after <= statement_timestamp()
                     LIMIT %(counted)s + 1) AS due
              LIMIT %(counted)s + 1)
             UNION ALL
            (SELECT FROM django_jobs_job AS other, django_jobs_job AS job
              WHERE job.id = %(id)s AND other.state = 'READY' AND other.queue_name = %(queue)s
                AND other.priority = %(priority)s AND other.run_after <= job.run_after
                AND (other.run_after, other.id) < (job.run_after, job.id)
              LIMIT %(counted)s + 1)) AS rows
"""

HOLDER = """
    SELECT name, state, EXTRACT(epoch FROM clock_timestamp()
                              - GREATEST(LEAST(heartbeat_at, '9999-12-30Z'), '0001-01-03Z'))::float8, ending
      FROM django_jobs_worker WHERE id = %(id)s
"""

# Ids are drawn before the commit, so one that was drawn and has no row is another transaction's, or deleted.
DRAWN = "SELECT pg_sequence_last_value(pg_get_serial_sequence('django_jobs_job', 'id')::regclass)"

WRITERS = """
    SELECT pid, COALESCE(application_name, ''), COALESCE(state, ''),
           EXTRACT(epoch FROM clock_timestamp() - xact_start)::float8
      FROM pg_stat_activity
     WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
     ORDER BY xact_start LIMIT 3
"""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The worker under whose name a job runs."""

    name: str
    state: str
    silent_seconds: float
    ending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found of one job."""

    id: int
    state: str
    queue_name: str
    task_path: str
    priority: int
    attempts: int
    """Runs that counted."""
    due_in_seconds: float
    """Until it is due; below zero since when. Infinite for never."""
    worker: int | None
    cancel_requested: bool
    reason: str
    runs_for_seconds: float | None
    paused: Paused | None
    knowing: frozenset[int]
    """Live workers whose code has its task."""
    locker: Holder | None
    """The session whose open transaction has the row."""
    held_by: WorkerFacts | None = None
    """The worker that runs it, if its row is still there."""
    ahead: int = 0
    """Due jobs that a claim takes first; above `COUNTED` it means "more than that"."""
    workers: list[LiveWorker] = field(default_factory=list)
    running: list[RunningJob] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Absence:
    """A job that isn't there."""

    was_drawn: bool
    """Whether its id was given to someone."""
    writers: list[Holder]
    """Sessions that have written something and not committed yet."""


def facts(cursor: Cursor, job_id: int) -> Facts | Absence:
    """Return what keeps a job from running, as far as the tables tell."""
    rows = run(cursor, (JOB, {"id": job_id}))
    if not rows:
        [[drawn]] = run(cursor, (DRAWN, {}))
        was_drawn = drawn is not None and job_id <= drawn
        writers = [Holder(*row) for row in run(cursor, (WRITERS, {}))] if was_drawn else []
        return Absence(was_drawn, writers)
    row = rows[0]
    state, queue_name, _task, priority, *_ = row
    waits, runs = state == State.READY, state == State.RUNNING
    order = {"id": job_id, "queue": queue_name, "priority": priority, "counted": COUNTED}
    held_by = run(cursor, (HOLDER, {"id": row[6]})) if runs else []
    return Facts(
        id=job_id,
        state=state,
        queue_name=queue_name,
        task_path=row[2],
        priority=priority,
        attempts=row[4],
        due_in_seconds=row[5],
        worker=row[6],
        cancel_requested=row[7],
        reason=row[8],
        runs_for_seconds=row[9],
        paused=paused(queue_name, *row[10:13]),
        knowing=frozenset(row[13]),
        locker=None if row[14] is None else Holder(*row[14:18]),
        held_by=WorkerFacts(*held_by[0]) if held_by else None,
        ahead=run(cursor, (AHEAD, order))[0][0] if waits else 0,
        workers=live_workers(cursor),
        running=running_jobs(cursor) if waits else [],
    )


def paused(name: str, at: datetime | None, by: str, reason: str) -> Paused | None:
    """Return since when a queue is paused and why, if it is."""
    return None if at is None else Paused(name, at, by, reason)
