"""
Inserting jobs: what `enqueueing` hands over becomes rows, in the caller's own transaction.

Times are those of the statement, not of the transaction's start, or a job of a long transaction would be
due before jobs that were claimed long ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django_jobs.core.records import Inserted, NewJob
from django_jobs.core.states import State
from django_jobs.store.cursor import Cursor, run
from django_jobs.store.finish import interval

INSERT = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, meta,
        enqueued_at, run_after)
    VALUES (%s, %s, %s::json, %s::json, %s, 'READY', 0, 0, %s, %s::jsonb, statement_timestamp(),
            {})
 RETURNING id, enqueued_at{}
"""

# Apart, as most jobs are due at once, and each parameter and each time that is returned has its price.
INSERT_DUE = INSERT.format("statement_timestamp()", "")
INSERT_FOR_LATER = INSERT.format(
    "COALESCE(%s::timestamptz, statement_timestamp() + %s::interval)", ", run_after"
)

NUMBERS = """
    SELECT statement_timestamp() AT TIME ZONE 'UTC',
           array_agg(nextval(pg_get_serial_sequence('django_jobs_job', 'id')))
      FROM generate_series(1, %(count)s)
"""

COPY = """
    COPY django_jobs_job (
        id, queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, meta,
        enqueued_at, run_after)
    FROM STDIN
"""


def insert(cursor: Cursor, job: NewJob) -> Inserted:
    """Insert one job and return what the database made of it: one statement, one round trip."""
    values = (
        job.queue_name,
        job.task_path,
        job.args,
        job.kwargs,
        job.priority,
        job.max_attempts,
        job.meta,
    )
    if job.run_after is None:
        cursor.execute(INSERT_DUE, values)
        number, now = cursor.fetchone()
        return Inserted(id=number, enqueued_at=now, run_after=now)
    cursor.execute(INSERT_FOR_LATER, (*values, *instant_or_delay(job.run_after)))
    return Inserted(*cursor.fetchone())


def insert_many(cursor: Cursor, jobs: Sequence[NewJob]) -> list[Inserted]:
    """
    Insert `jobs` with one COPY, in their order, and return what the database made of each, its times aware.

    Numbers are drawn from the identity's sequence first: COPY is twice as fast as the fastest INSERT, but
    returns nothing.
    """
    if not jobs:
        return []
    [(now, numbers)] = run(cursor, (NUMBERS, {"count": len(jobs)}))
    now = now.replace(tzinfo=UTC)  # whatever the session's time zone, so that delays are added as they are
    inserted = [
        Inserted(id=number, enqueued_at=now, run_after=due(job.run_after, now))
        for number, job in zip(numbers, jobs, strict=True)
    ]
    with cursor.copy(COPY) as copy:
        for place, job in zip(inserted, jobs, strict=True):
            copy.write_row(
                (
                    place.id,
                    job.queue_name,
                    job.task_path,
                    job.args,
                    job.kwargs,
                    job.priority,
                    State.READY.value,
                    0,
                    0,
                    job.max_attempts,
                    job.meta,
                    place.enqueued_at,
                    place.run_after,
                )
            )
    return inserted


def instant_or_delay(run_after: datetime | timedelta | None) -> tuple[datetime | None, str | None]:
    """Split `run_after` into the two parameters of the statement."""
    if isinstance(run_after, timedelta):
        return None, interval(run_after)
    return run_after, None


def due(run_after: datetime | timedelta | None, now: datetime) -> datetime:
    """Return the instant that `run_after` means when it is `now` in the database."""
    if run_after is None:
        return now
    return now + run_after if isinstance(run_after, timedelta) else run_after
