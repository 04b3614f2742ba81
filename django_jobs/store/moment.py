"""
The queue's statements at a chosen moment, for tests: time moves on for the queue, not for the database.

Every statement of the store takes its time from `now()` or `clock_timestamp()`. Here a parameter stands in
their place, so that a test claims and finishes with the very statements of a worker, which themselves stay
as they are: constants with the database's own clock. Used by `testing` alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from django_jobs.store.claim import GIVE, TAKE
from django_jobs.store.cursor import Statement

CLOCK = re.compile(r"\b(?:clock_timestamp|now)\(\)")

# One job by its id, with the beginning and the end of a worker's claim.
CLAIM_ONE = (
    TAKE
    + """
    SELECT ready.id
      FROM django_jobs_job AS ready
     WHERE ready.id = %(id)s AND ready.state || '' = 'READY' AND ready.run_after <= now()
       AND NOT EXISTS (SELECT FROM django_jobs_queue AS paused
                        WHERE paused.name = ready.queue_name AND paused.paused_at IS NOT NULL)
       FOR UPDATE SKIP LOCKED
"""
    + GIVE
)

NEXT_DUE = """
    SELECT min(job.run_after)
      FROM django_jobs_job AS job
     WHERE job.state = 'READY' AND job.run_after > now() AND isfinite(job.run_after)
       AND (%(scheduled)s OR job.attempt > 0)
       AND (%(queues)s::text[] IS NULL OR job.queue_name = ANY(%(queues)s::text[]))
       AND job.task_path = ANY(%(tasks)s::text[])
       AND NOT EXISTS (SELECT FROM django_jobs_queue AS paused
                        WHERE paused.name = job.queue_name AND paused.paused_at IS NOT NULL)
"""

NEWEST = "SELECT COALESCE(max(id), 0) FROM django_jobs_job"

# What bodies enqueued to run at once was enqueued at the moment, as far as the test can tell.
BRING_UP = """
    UPDATE django_jobs_job
       SET run_after = now(), enqueued_at = now()
     WHERE id > %(newest)s AND state = 'READY' AND attempt = 0 AND run_after = enqueued_at
       AND run_after > now()
 RETURNING id
"""

CANCEL_REQUESTED = "SELECT cancel_requested_at IS NOT NULL FROM django_jobs_job WHERE id = %(id)s"


def at(statement: Statement, moment: datetime) -> Statement:
    """Return `statement` with `moment` for the time that it would ask the database for."""
    text, params = statement
    return timeless(text), {**params, "moment": moment}


@cache
def timeless(text: str) -> str:
    """Return a statement's text with a parameter in place of the clock."""
    return CLOCK.sub("%(moment)s::timestamptz", text)


def claim_one(worker: int, id: int) -> Statement:  # noqa: A002  (the column's name)
    """Return the claim of one job, if it is due."""
    return CLAIM_ONE, {"worker": worker, "id": id}


def next_due(queues: Sequence[str] | None, tasks: Sequence[str], *, scheduled: bool) -> Statement:
    """
    Return the statement that tells when the next job will be due: one that ran before and waits for its
    next run, or with `scheduled` any.
    """
    return NEXT_DUE, {"queues": queues, "tasks": list(tasks), "scheduled": scheduled}


def newest() -> Statement:
    """Return the statement that tells the highest id so far."""
    return NEWEST, {}


def bring_up(newest: int) -> Statement:
    """Return the statement that makes jobs after `newest` due which were enqueued to run at once."""
    return BRING_UP, {"newest": newest}


def cancel_requested(id: int) -> Statement:  # noqa: A002
    """Return the statement that tells whether someone asked to cancel a job."""
    return CANCEL_REQUESTED, {"id": id}
