"""
What an operator may do to jobs and queues. Every statement names the states it acts on, so that two people
who do the same at once have it done once, and returns the ids that it changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django_jobs.core.records import Wake
from django_jobs.store.cursor import Cursor, Rows, run
from django_jobs.store.finish import interval

# The guards of what is found by its id are no plain `state = …`, as in store/finish.py: where the planner
# believes that few are in a state, it would look for the ids among all of these.

# A reset forgives all attempts so far; otherwise the limit, if any, is raised where it leaves no attempt.
RETRY = """
    UPDATE django_jobs_job
       SET state = 'READY', run_after = clock_timestamp(), finished_at = NULL, expires_at = NULL,
           worker = NULL, cancel_requested_at = NULL, reason = NULL, return_value = NULL,
           uncounted = CASE WHEN %(reset)s THEN attempt ELSE uncounted END,
           max_attempts = CASE WHEN %(reset)s THEN max_attempts
                               ELSE (max_attempts + GREATEST(0,
                                    LEAST(attempt::bigint - uncounted + 1, 2147483647) - max_attempts))::int
                          END
     WHERE id = ANY(%(ids)s::bigint[]) AND state || '' IN ('FAILED', 'CANCELLED')
 RETURNING id, queue_name, priority, run_after
"""

CANCEL_WAITING = """
    WITH job AS (
        UPDATE django_jobs_job
           SET state = 'CANCELLED', finished_at = clock_timestamp(), reason = NULLIF(%(reason)s, ''),
               expires_at = clock_timestamp() + %(keep)s::interval
         WHERE id = ANY(%(ids)s::bigint[]) AND state || '' IN ('READY', 'BLOCKED')
     RETURNING id)
    SELECT id FROM job
"""

# Index django_jobs_about.
CANCEL_ABOUT = """
    UPDATE django_jobs_job
       SET state = 'CANCELLED', finished_at = clock_timestamp(), reason = %(reason)s,
           expires_at = clock_timestamp() + %(keep)s::interval
     WHERE meta ? 'about' AND meta ->> 'about' = %(about)s AND state IN ('READY', 'BLOCKED')
 RETURNING id
"""

CANCEL_RUNNING = """
    UPDATE django_jobs_job
       SET cancel_requested_at = COALESCE(cancel_requested_at, clock_timestamp()),
           reason = COALESCE(NULLIF(%(reason)s, ''), reason)
     WHERE id = ANY(%(ids)s::bigint[]) AND state || '' = 'RUNNING'
 RETURNING id
"""

# Jobs that are due already would lose their place in the queue.
RUN_NOW = """
    UPDATE django_jobs_job SET run_after = clock_timestamp()
     WHERE id = ANY(%(ids)s::bigint[]) AND state || '' = 'READY' AND run_after > clock_timestamp()
 RETURNING id, queue_name, priority, run_after
"""

# What is left out stays as it is.
EDIT = """
    UPDATE django_jobs_job
       SET queue_name = COALESCE(%(queue)s, queue_name), priority = COALESCE(%(priority)s, priority),
           run_after = COALESCE(%(run_after)s::timestamptz, run_after)
     WHERE id = %(id)s AND state || '' IN ('READY', 'BLOCKED')
 RETURNING id, queue_name, priority, run_after
"""

# From row to row, so that arguments are the same to the letter, also of tasks that this process doesn't know.
COPY = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, meta,
        enqueued_at, run_after)
    SELECT queue_name, task_path, args, kwargs, priority, 'READY', 0, 0, max_attempts,
           CASE WHEN jsonb_typeof(meta) = 'object' THEN meta - 'enqueued_by' ELSE meta END
           || jsonb_strip_nulls(jsonb_build_object('copy_of', id, 'enqueued_by', %(by)s::text)),
           statement_timestamp(), statement_timestamp()
      FROM django_jobs_job WHERE id = %(id)s
 RETURNING id, queue_name, priority, run_after
"""

DISCARD = """
    WITH job AS (
        DELETE FROM django_jobs_job
         WHERE id = ANY(%(ids)s::bigint[]) AND state <> 'RUNNING'
     RETURNING id),
    attempts AS (
        DELETE FROM django_jobs_attempt USING job WHERE job_id = job.id),
    captures AS (
        DELETE FROM django_jobs_capture USING job WHERE job_id = job.id)
    SELECT id FROM job
"""

PAUSE = """
    INSERT INTO django_jobs_queue (name, paused_at, paused_by, pause_reason)
    VALUES (%(name)s, clock_timestamp(), left(%(by)s, 200), %(reason)s)   -- what the column holds
        ON CONFLICT (name) DO UPDATE
       SET paused_at = EXCLUDED.paused_at, paused_by = EXCLUDED.paused_by,
           pause_reason = EXCLUDED.pause_reason
     WHERE django_jobs_queue.paused_at IS NULL
 RETURNING name
"""

RESUME = """
    UPDATE django_jobs_queue SET paused_at = NULL, paused_by = '', pause_reason = ''
     WHERE name = %(name)s AND paused_at IS NOT NULL
 RETURNING name
"""


def retry(cursor: Cursor, ids: Sequence[int], *, reset_attempts: bool) -> tuple[list[int], list[Wake]]:
    """Make failed and cancelled jobs READY and due; return the ids changed and what to wake workers with."""
    return changed(run(cursor, (RETRY, {"ids": list(ids), "reset": reset_attempts})))


def run_now(cursor: Cursor, ids: Sequence[int]) -> tuple[list[int], list[Wake]]:
    """Make jobs due that wait for a later time; return the ids changed and what to wake workers with."""
    return changed(run(cursor, (RUN_NOW, {"ids": list(ids)})))


def edit(
    cursor: Cursor, job_id: int, *, queue_name: str | None, priority: int | None, run_after: datetime | None
) -> tuple[list[int], list[Wake]]:
    """Change what is given of a job if it waits; return its id, if it did, and what to wake workers with."""
    given = {"id": job_id, "queue": queue_name, "priority": priority, "run_after": run_after}
    return changed(run(cursor, (EDIT, given)))


def copy(cursor: Cursor, job_id: int, *, by: str) -> tuple[list[int], list[Wake]]:
    """Insert a job like another, due at once; return its id and what to wake workers with."""
    return changed(run(cursor, (COPY, {"id": job_id, "by": by or None})))


def changed(rows: Rows) -> tuple[list[int], list[Wake]]:
    """Split rows of id, queue, priority and due time into ids and wakes."""
    return [row[0] for row in rows], [Wake(*row[1:]) for row in rows]


def cancel(
    cursor: Cursor, ids: Sequence[int], *, reason: str, keep: timedelta | None
) -> tuple[list[int], list[int]]:
    """
    Cancel waiting jobs and ask running ones to stop; return the ids of the two.

    Asked in this order, a job that is claimed in between is still asked to stop; one that is handed back
    in between is missed, so waiting jobs are cancelled once more.
    """
    waiting = {"ids": list(ids), "reason": reason, "keep": interval(keep)}
    cancelled = [row[0] for row in run(cursor, (CANCEL_WAITING, waiting))]
    if not (left := without(ids, cancelled)):
        return cancelled, []
    asked = [row[0] for row in run(cursor, (CANCEL_RUNNING, {"ids": left, "reason": reason}))]
    if left := without(left, asked):
        cancelled += [row[0] for row in run(cursor, (CANCEL_WAITING, waiting | {"ids": left}))]
    return cancelled, asked


def cancel_about(cursor: Cursor, about: str, *, reason: str | None, keep: timedelta | None) -> list[int]:
    """Cancel the waiting jobs about an object; return their ids."""
    given = {"about": about, "reason": reason, "keep": interval(keep)}
    return [row[0] for row in run(cursor, (CANCEL_ABOUT, given))]


def without(ids: Sequence[int], done: Sequence[int]) -> list[int]:
    """Return those of `ids` that are still to be dealt with."""
    dealt_with = set(done)
    return [job_id for job_id in ids if job_id not in dealt_with]


def discard(cursor: Cursor, ids: Sequence[int]) -> list[int]:
    """Delete jobs that aren't running, with their attempts; return the ids deleted."""
    return [row[0] for row in run(cursor, (DISCARD, {"ids": list(ids)}))]


def pause(cursor: Cursor, name: str, *, by: str, reason: str) -> bool:
    """Stop claims from a queue; return whether it was running before."""
    return bool(run(cursor, (PAUSE, {"name": name, "by": by, "reason": reason})))


def resume(cursor: Cursor, name: str) -> bool:
    """Let a queue be claimed from again; return whether it was paused."""
    return bool(run(cursor, (RESUME, {"name": name})))
