"""
Claiming: due rows become `RUNNING` under a worker's name, one attempt further, before any body runs.

Three statements. The **plain claim** takes the best due rows of each queue. Between two vacuums the entries
of claimed jobs stay at the front of the index, and while any transaction is open they can't even be
vacuumed, so plain claims slow down (to a fifth within 20 s of an open transaction). The **claim after
points** starts behind what this worker has already claimed, by queue and priority, and keeps its speed; it
misses what lies before its points, which plain claims find. The **survey** tells which queues and
priorities have waiting rows, and when the first of each is due.

All use the index `django_jobs_ready`: queue_name, priority DESC, run_after, id WHERE state = 'READY'.

Rules met on the way: `= ANY(ARRAY(SELECT …))` and never a join, whose plan may turn into a sequential scan;
a LIMIT for each queue and never `queue_name = ANY(…) ORDER BY`, which sorts them all (2.9 s with 50 queues);
RETURNING has no order, so what comes back is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any

from django_jobs.core.records import ClaimedJob, Point
from django_jobs.store.cursor import Rows, Statement, array

TAKE = """
    UPDATE django_jobs_job AS job
       SET state = 'RUNNING', attempt = LEAST(job.attempt, 2147483646) + 1, worker = %(worker)s,
           reason = NULL, last_attempted_at = now(), started_at = COALESCE(job.started_at, now())
     WHERE job.id = ANY(ARRAY(
"""

# Times are kept within Python's calendar, and attempts within integers (above), so that no row stops others.
# Of earlier runs, the last 1,000 come along, of which the last 20 with their tracebacks: all of them took
# seconds for a job that had failed or snoozed for weeks, and the same again at each claim.
GIVE = """
     ))
 RETURNING job.id, job.queue_name, job.task_path, '[' || job.args || ',' || job.kwargs || ']',
           job.attempt, job.uncounted, job.max_attempts, job.priority,
           GREATEST(LEAST(job.run_after, '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(job.enqueued_at, '9999-12-30Z'), '0001-01-03Z'),
           GREATEST(LEAST(job.started_at, '9999-12-30Z'), '0001-01-03Z'),
           job.last_attempted_at, NULLIF(job.meta, '{}')::text,
           CASE WHEN job.attempt > 1 THEN (
                SELECT json_agg(json_build_object(
                           'number', number, 'worker', worker, 'kind', kind,
                           'exception_class', exception_class, 'traceback',
                           CASE WHEN number > job.attempt - 20 THEN traceback END) ORDER BY number)
                  FROM django_jobs_attempt
                 WHERE job_id = job.id AND number > job.attempt - 1000)
           END
"""

# OFFSET 0 keeps the planner from testing for a pause only after rows of the queue were locked.
OPEN_QUEUES = """
      FROM (SELECT * FROM unnest(%(queues)s::text[], %(rooms)s::int[], %(firsts)s::int[], %(lasts)s::int[])
                       AS served (name, room, first, last)
             WHERE NOT EXISTS (SELECT FROM django_jobs_queue AS paused
                                WHERE paused.name = served.name AND paused.paused_at IS NOT NULL)
            OFFSET 0) AS queue
"""

# Only what is taken is locked: another worker's claim would pass over all the rows that this one looks at.
# Of those there is no plain `state = …`, as in store/rescue.py: where the planner believes that few wait, it
# would look for each among all of them (before PostgreSQL 18).
CLAIM = (
    TAKE
    + """
    SELECT picked.id
"""
    + OPEN_QUEUES
    + """
     CROSS JOIN LATERAL (
           SELECT taken.id
             FROM (SELECT job.id, job.task_path
                     FROM django_jobs_job AS job
                    WHERE job.queue_name = queue.name AND job.state = 'READY' AND job.run_after <= now()
                    ORDER BY job.priority DESC, job.run_after, job.id
                    LIMIT %(walk)s) AS ready
            CROSS JOIN LATERAL (
                  SELECT job.id
                    FROM django_jobs_job AS job
                   WHERE job.id = ready.id AND job.state || '' = 'READY' AND job.run_after <= now()
                     FOR UPDATE SKIP LOCKED) AS taken
            WHERE ready.task_path = ANY(%(tasks)s::text[])
            LIMIT queue.room) AS picked
     LIMIT %(limit)s
"""
    + GIVE
)

SPANS = """unnest((%(priorities)s::int[])[queue.first:queue.last],
                         (%(times)s::timestamptz[])[queue.first:queue.last],
                         (%(ids)s::bigint[])[queue.first:queue.last],
                         (%(until_times)s::timestamptz[])[queue.first:queue.last],
                         (%(until_ids)s::bigint[])[queue.first:queue.last])
                      AS span (priority, run_after, id, until_run_after, until_id)"""

CLAIM_AFTER = (
    TAKE
    + """
    SELECT picked.id
"""
    + OPEN_QUEUES
    + """
     CROSS JOIN LATERAL (
           SELECT ready.id
             FROM """
    + SPANS
    + """
            CROSS JOIN LATERAL (
                  SELECT job.id
                    FROM django_jobs_job AS job
                   WHERE job.queue_name = queue.name AND job.state = 'READY'
                     AND job.priority = span.priority AND job.run_after <= now()
                     AND (job.run_after, job.id) > (span.run_after, span.id)
                     AND (job.run_after, job.id) <= (span.until_run_after, span.until_id)
                     AND job.task_path = ANY(%(tasks)s::text[])
                   ORDER BY job.run_after, job.id
                   LIMIT queue.room
                     FOR UPDATE SKIP LOCKED) AS ready
            LIMIT queue.room) AS picked
     LIMIT %(limit)s
"""
    + GIVE
)

# The commit of this transaction doesn't wait, so that the jobs are there before the disk has their claim.
EARLY = """
    WITH claimed AS ({})
    SELECT claimed.* FROM claimed, (SELECT set_config('synchronous_commit', 'off', true)) AS early
"""

# To flush, with all that was written before it: a lock is written too, and nobody waits for this one.
FLUSH = "SELECT id FROM django_jobs_worker WHERE id = %(worker)s FOR NO KEY UPDATE SKIP LOCKED"

# A walk from one (queue, priority) with waiting rows to the next: two index look-ups for each.
SURVEY = """
    WITH RECURSIVE place AS (
        (SELECT queue_name, priority, run_after
           FROM django_jobs_job WHERE state = 'READY'
          ORDER BY queue_name, priority DESC, run_after, id LIMIT 1)
         UNION ALL
        SELECT following.*
          FROM place
         CROSS JOIN LATERAL (
               (SELECT job.queue_name, job.priority, job.run_after
                  FROM django_jobs_job AS job
                 WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                   AND job.priority < place.priority
                 ORDER BY job.queue_name, job.priority DESC, job.run_after, job.id LIMIT 1)
                UNION ALL
               (SELECT job.queue_name, job.priority, job.run_after
                  FROM django_jobs_job AS job
                 WHERE job.state = 'READY' AND job.queue_name > place.queue_name
                 ORDER BY job.queue_name, job.priority DESC, job.run_after, job.id LIMIT 1)
                LIMIT 1) AS following)
    SELECT place.queue_name, place.priority,
           CASE WHEN isfinite(place.run_after)
                THEN EXTRACT(epoch FROM place.run_after - clock_timestamp())::float8
                WHEN place.run_after > now() THEN 'infinity' ELSE '-infinity' END,
           (SELECT EXTRACT(epoch FROM job.run_after - clock_timestamp())::float8
              FROM django_jobs_job AS job
             WHERE job.state = 'READY' AND job.queue_name = place.queue_name
               AND job.priority = place.priority
               AND job.run_after > now() AND job.run_after < 'infinity'
             ORDER BY job.run_after LIMIT 1),
           EXISTS (SELECT FROM django_jobs_queue AS paused
                    WHERE paused.name = place.queue_name AND paused.paused_at IS NOT NULL)
      FROM place
"""


LONGEST_WALK = 2_000
"""Rows of a queue that a plain claim looks at when their tasks aren't asked for; there may be millions.
What lies behind is found by claims after points."""


BEGINNING = Point(datetime(1, 1, 2, tzinfo=UTC), 0)
"""A point before every row."""

END = Point(datetime(9999, 12, 30, tzinfo=UTC), 2**63 - 1)
"""A point behind every row that is due."""


@dataclass(frozen=True, slots=True)
class Span:
    """Waiting rows of one priority, from behind a point up to another one."""

    priority: int
    after: Point
    until: Point = END


@dataclass(frozen=True, slots=True)
class Room:
    """A queue to claim from, how many jobs it may give at once, and what to walk over, in this order."""

    queue_name: str
    room: int
    spans: Sequence[Span] = ()
    """No row in two of them; none for a plain claim."""
    whole: bool = True
    """Whether that is all there is to walk over."""


@dataclass(frozen=True, slots=True)
class Place:
    """Waiting rows of one queue and priority, as the survey found them."""

    queue_name: str
    priority: int
    due_in: float
    """Seconds until the first one is due; 0 or less when it is."""
    next_due_in: float | None
    """Seconds until the first one that isn't due yet."""
    paused: bool


def claim(worker: int, rooms: Sequence[Room], tasks: Iterable[str], limit: int) -> Statement:
    """Return the plain claim of up to `limit` jobs; queues in the given order, each by priority."""
    return CLAIM, {
        "worker": worker,
        "queues": [room.queue_name for room in rooms],
        "rooms": array(room.room for room in rooms),
        "firsts": None,
        "lasts": None,
        "tasks": list(tasks),
        "limit": limit,
        "walk": max(LONGEST_WALK, 2 * limit),
    }


def claim_after(worker: int, rooms: Sequence[Room], tasks: Iterable[str], limit: int) -> Statement:
    """Return the claim of up to `limit` jobs in the spans of `rooms`, each with at least one."""
    return CLAIM_AFTER, {
        "worker": worker,
        "queues": [room.queue_name for room in rooms],
        "rooms": array(room.room for room in rooms),
        **span_parameters(room.spans for room in rooms),
        "tasks": list(tasks),
        "limit": limit,
    }


def early(statement: Statement) -> Statement:
    """Return a claim whose commit doesn't wait for the disk, in a transaction that stores nothing else."""
    text, parameters = statement
    return without_waiting(text), parameters


@cache
def without_waiting(text: str) -> str:
    """Return the text of `early`."""
    return EARLY.format(text)


def flush(worker: int) -> Statement:
    """Return what has the disk take in the claims of `worker` so far: its commit waits."""
    return FLUSH, {"worker": worker}


def span_parameters(queues: Iterable[Sequence[Span]]) -> dict[str, Any]:
    """Return the parameters of `SPANS`, and which of them are those of each queue."""
    spans: list[Span] = []
    firsts, lasts = [], []
    for found in queues:
        firsts.append(len(spans) + 1)
        spans += found
        lasts.append(len(spans))
    return {
        "firsts": array(firsts),
        "lasts": array(lasts),
        "priorities": array([span.priority for span in spans]),
        "times": [span.after.run_after for span in spans],
        "ids": array([span.after.id for span in spans]),
        "until_times": [span.until.run_after for span in spans],
        "until_ids": array([span.until.id for span in spans]),
    }


def claimed(rows: Rows) -> list[ClaimedJob]:
    """Return the jobs of a claim in the order in which they are to run."""
    jobs = [ClaimedJob(*row) for row in rows]
    jobs.sort(key=attrgetter("id"))
    jobs.sort(key=attrgetter("run_after"))
    jobs.sort(key=attrgetter("priority"), reverse=True)
    return jobs


def survey() -> Statement:
    """Return the survey of what waits."""
    return SURVEY, {}


def surveyed(rows: Rows) -> list[Place]:
    """Return what the survey found."""
    return [Place(*row) for row in rows]


def point_of(job: ClaimedJob) -> Point:
    """Return the place of a claimed job in the order of its queue and priority."""
    return Point(job.run_after, job.id)
