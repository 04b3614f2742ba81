"""
Pruning: deleting what has expired, a small batch at a time.

When a job expires is decided as it finishes (`expires_at`), so that retention may differ by task and no
waiting or running job can ever be met here. Rows that someone else holds are left for the next round: any
number of processes may prune at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django_jobs.store.cursor import Statement
from django_jobs.store.finish import interval

# Index django_jobs_expiry.
PRUNE = """
    WITH doomed AS (
        SELECT id, expires_at FROM django_jobs_job
         WHERE expires_at >= %(after)s::timestamptz AND expires_at <= now() - %(grace)s::interval
           AND state IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
         ORDER BY expires_at LIMIT %(limit)s
           FOR UPDATE SKIP LOCKED),
    job AS (
        DELETE FROM django_jobs_job AS job USING doomed WHERE job.id = doomed.id RETURNING job.id),
    attempts AS (
        DELETE FROM django_jobs_attempt USING job WHERE job_id = job.id),
    captures AS (
        DELETE FROM django_jobs_capture USING job WHERE job_id = job.id)
    SELECT (SELECT count(*) FROM job), (SELECT max(expires_at) FROM doomed)
"""

# By id: what a walk found (store/matching.py), looked at once more, so that no job that was retried meanwhile
# is met. No plain `state = …`, as in store/control.py.
PRUNE_CHOSEN = """
    WITH doomed AS (
        SELECT id FROM django_jobs_job
         WHERE id = ANY(%(ids)s::bigint[]) AND state || '' = %(state)s
           AND state || '' IN ('SUCCESSFUL', 'FAILED', 'CANCELLED') AND finished_at < %(before)s
           FOR UPDATE SKIP LOCKED),
    job AS (
        DELETE FROM django_jobs_job AS job
         WHERE job.id = ANY(ARRAY(SELECT id FROM doomed)) RETURNING job.id),
    attempts AS (
        DELETE FROM django_jobs_attempt WHERE job_id = ANY(ARRAY(SELECT id FROM job))),
    captures AS (
        DELETE FROM django_jobs_capture WHERE job_id = ANY(ARRAY(SELECT id FROM job)))
    SELECT count(*) FROM job
"""

PRUNE_WORKERS = """
    WITH gone AS (
        DELETE FROM django_jobs_worker
         WHERE state IN ('STOPPED', 'LOST') AND stopped_at < now() - %(keep)s::interval
           AND NOT EXISTS (SELECT FROM django_jobs_job AS job
                            WHERE job.state = 'RUNNING' AND job.worker = django_jobs_worker.id)
     RETURNING id)
    SELECT count(*) FROM gone
"""


BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
"""Before every expiry."""


def prune(limit: int, *, after: datetime = BEGINNING, grace: timedelta = timedelta(0)) -> Statement:
    """
    Return the statement that deletes up to `limit` jobs that expired `grace` ago.

    It returns how many, and the last one's expiry. Given back as `after`, the next batch starts there and
    doesn't walk the entries of what was deleted, which stay while any transaction is open.
    """
    return PRUNE, {"limit": limit, "after": after, "grace": interval(grace)}


def prune_chosen(ids: Sequence[int], *, state: str, before: datetime) -> Statement:
    """Return the statement that deletes those of `ids` that ended so before then; it returns how many."""
    return PRUNE_CHOSEN, {"ids": list(ids), "state": state, "before": before}


def prune_workers(keep: timedelta) -> Statement:
    """Return the statement that deletes the rows of workers that ended before `keep`."""
    return PRUNE_WORKERS, {"keep": interval(keep)}
