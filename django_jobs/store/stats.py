"""
What people ask of the queue: names to choose from, depths, ages. Read by the admin; nothing is changed.

Every statement is bounded, whatever the table holds: it walks an index from one entry to the next, or stops
at a limit. Counts stop at `COUNTED`, which is told as "10,000+". Where many jobs failed that the planner's
statistics don't know of yet, it may sort them all: 0.6 s for 150,000.

Indexes: `django_jobs_ready` for what waits, `django_jobs_running` and `django_jobs_dead` by their states, and
the primary key for the newest jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django_jobs.core.states import State
from django_jobs.store.cursor import Cursor, run

COUNTED = 10_000
"""Where counting stops."""

REACH = 100_000
"""Jobs that a filter without an index of its own looks through, from the newest."""

# The names of queues with waiting jobs by a walk: one index look-up each. Beside them what live workers say,
# what they wrote down in the last day, and what the newest jobs are, so that also a queue or task whose jobs
# all ended can be chosen.
# These are a range of ids with both its ends, and no LIMIT: without statistics, that is planned as a scan and
# a sort of the table.
CHOICES = """
    WITH RECURSIVE queue AS (
        (SELECT queue_name FROM django_jobs_job WHERE state = 'READY' ORDER BY queue_name LIMIT 1)
         UNION ALL
        SELECT following.queue_name
          FROM queue
         CROSS JOIN LATERAL (
               SELECT job.queue_name FROM django_jobs_job AS job
                WHERE job.state = 'READY' AND job.queue_name > queue.queue_name
                ORDER BY job.queue_name LIMIT 1) AS following),
    worker AS (
        SELECT * FROM django_jobs_worker WHERE state IN ('RUNNING', 'STOPPING')
         ORDER BY id DESC LIMIT 1000),
    newest AS (
        (SELECT queue_name, task_path FROM django_jobs_job
          WHERE id > (SELECT max(id) FROM django_jobs_job) - %(newest)s
            AND id <= (SELECT max(id) FROM django_jobs_job))
         UNION ALL
        (SELECT queue_name, task_path FROM django_jobs_job WHERE state = 'FAILED'
          ORDER BY id DESC LIMIT %(newest)s)
         UNION ALL
        (SELECT queue_name, task_path FROM django_jobs_job WHERE state = 'RUNNING' LIMIT %(newest)s)),
    figure AS (
        SELECT queue_name, task_path FROM django_jobs_stat
         WHERE seconds = 3600 AND at > now() - interval '1 day' AND queue_name <> '')
    SELECT 'queue', queue_name FROM queue
     UNION SELECT 'queue', queue_name FROM newest
     UNION SELECT 'queue', name FROM django_jobs_queue
     UNION SELECT 'queue', jsonb_array_elements_text(queues) FROM worker WHERE jsonb_typeof(queues) = 'array'
     UNION SELECT 'task', task_path FROM newest
     UNION SELECT 'queue', queue_name FROM figure
     UNION SELECT 'task', task_path FROM figure
     UNION SELECT 'task', jsonb_array_elements_text(tasks) FROM worker WHERE jsonb_typeof(tasks) = 'array'
"""

# From one (queue, priority) with waiting jobs to the next, as in store/claim.py.
PLACES = """
    WITH RECURSIVE place AS (
        (SELECT queue_name, priority FROM django_jobs_job WHERE state = 'READY'
          ORDER BY queue_name, priority DESC, run_after, id LIMIT 1)
         UNION ALL
        SELECT following.*
          FROM place
         CROSS JOIN LATERAL (
               (SELECT job.queue_name, job.priority FROM django_jobs_job AS job
                 WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                   AND job.priority < place.priority
                 ORDER BY job.queue_name, job.priority DESC, job.run_after, job.id LIMIT 1)
                UNION ALL
               (SELECT job.queue_name, job.priority FROM django_jobs_job AS job
                 WHERE job.state = 'READY' AND job.queue_name > place.queue_name
                 ORDER BY job.queue_name, job.priority DESC, job.run_after, job.id LIMIT 1)
                LIMIT 1) AS following)
"""

# A condition for the ORM, so with unnamed parameters: whether due ones are wanted, how many of each place,
# whether later ones are, how many of each place, the queue or NULL (twice), how many at all.
# An array and not a join, so that the rows are looked up by their ids whatever the planner believes.
IS_WAITING = (
    "django_jobs_job.id = ANY(ARRAY("
    + PLACES
    + """
    SELECT waiting.id
      FROM place
     CROSS JOIN LATERAL (
           (SELECT job.id FROM django_jobs_job AS job
             WHERE job.state = 'READY' AND job.queue_name = place.queue_name
               AND job.priority = place.priority AND job.run_after <= statement_timestamp() AND %s::boolean
             ORDER BY job.run_after, job.id LIMIT %s::bigint)
            UNION ALL
           (SELECT job.id FROM django_jobs_job AS job
             WHERE job.state = 'READY' AND job.queue_name = place.queue_name
               AND job.priority = place.priority AND job.run_after > statement_timestamp() AND %s::boolean
             ORDER BY job.run_after, job.id LIMIT %s::bigint)) AS waiting
     WHERE %s::text IS NULL OR place.queue_name = %s::text
     LIMIT %s::bigint))"""
)

QUEUES = (
    PLACES
    + """,
    waiting AS (
        SELECT place.queue_name, sum(due.number)::int AS due, sum(later.number)::int AS later,
               max(due.age) AS age
          FROM place
         CROSS JOIN LATERAL (
               SELECT count(*) AS number, EXTRACT(epoch FROM clock_timestamp() - min(run_after)
                          FILTER (WHERE isfinite(run_after)))::float8 AS age
                 FROM (SELECT job.run_after FROM django_jobs_job AS job
                        WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                          AND job.priority = place.priority AND job.run_after <= statement_timestamp()
                        ORDER BY job.run_after, job.id LIMIT %(counted)s + 1) AS rows) AS due
         CROSS JOIN LATERAL (
               SELECT count(*) AS number
                 FROM (SELECT FROM django_jobs_job AS job
                        WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                          AND job.priority = place.priority AND job.run_after > statement_timestamp()
                        LIMIT %(counted)s + 1) AS rows) AS later
         GROUP BY place.queue_name),
    running AS (
        SELECT queue_name, count(*)::int AS number FROM django_jobs_job WHERE state = 'RUNNING'
         GROUP BY queue_name),
    failed AS (
        SELECT queue_name, count(*)::int AS number
          FROM (SELECT queue_name FROM django_jobs_job WHERE state = 'FAILED'
                 ORDER BY id DESC LIMIT %(counted)s) AS rows
         GROUP BY queue_name),
    named AS (
        SELECT queue_name FROM waiting
         UNION SELECT queue_name FROM running
         UNION SELECT queue_name FROM failed
         UNION SELECT name FROM django_jobs_queue
         UNION SELECT jsonb_array_elements_text(queues) FROM django_jobs_worker
                WHERE state IN ('RUNNING', 'STOPPING') AND jsonb_typeof(queues) = 'array'
         UNION SELECT unnest(%(known)s::text[]))
    SELECT named.queue_name, COALESCE(waiting.due, 0), COALESCE(waiting.later, 0), waiting.age,
           COALESCE(running.number, 0), COALESCE(failed.number, 0)
      FROM named
      LEFT JOIN waiting USING (queue_name)
      LEFT JOIN running USING (queue_name)
      LEFT JOIN failed USING (queue_name)
     WHERE named.queue_name IS NOT NULL   -- a null that a stranger put among a worker's queues
     ORDER BY named.queue_name
"""
)

# Successful jobs have no index of their own: those among the newest are counted.
ENDED = """
    SELECT (SELECT count(*)::int FROM (SELECT FROM django_jobs_job WHERE state = 'FAILED'
                                        LIMIT %(counted)s + 1) AS rows),
           (SELECT count(*)::int FROM (SELECT FROM django_jobs_job WHERE state = 'CANCELLED'
                                        LIMIT %(counted)s + 1) AS rows),
           (SELECT count(*) FILTER (WHERE state = 'SUCCESSFUL')::int
              FROM (SELECT state FROM django_jobs_job ORDER BY id DESC LIMIT %(counted)s + 1) AS rows),
           (SELECT count(*) > %(counted)s
              FROM (SELECT FROM django_jobs_job ORDER BY id DESC LIMIT %(counted)s + 1) AS rows)
"""


# Index django_jobs_running.
RUNNING = """
    SELECT queue_name, worker, count(*)::int FROM django_jobs_job WHERE state = 'RUNNING'
     GROUP BY queue_name, worker
"""


@dataclass(frozen=True, slots=True)
class Choices:
    """Names to choose from, in order."""

    queues: list[str]
    tasks: list[str]


@dataclass(frozen=True, slots=True)
class Depth:
    """One queue in figures. `due` and `later` above `COUNTED` mean "more than that"."""

    queue_name: str
    due: int
    later: int
    """Waiting for a time to come: scheduled or retrying."""
    oldest_due_seconds: float | None
    running: int
    failed: int
    """Among the newest `COUNTED` failed jobs of all queues."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Jobs that ended and are still kept. A figure above `COUNTED` means "more than that"."""

    failed: int
    cancelled: int
    successful: int
    """Among the newest `COUNTED` jobs of all states."""
    there_are_more: bool
    """Whether the table holds jobs beyond those, so that `successful` is the least there can be."""


def choices(cursor: Cursor, queues: Iterable[str], tasks: Iterable[str], newest: int = 1000) -> Choices:
    """Return the queues and tasks that are about, together with those that the caller knows."""
    found = {"queue": set(queues), "task": set(tasks)}
    for kind, name in run(cursor, (CHOICES, {"newest": newest})):
        if name is not None:  # a null that a stranger put into a list of names
            found[kind].add(name)
    return Choices(sorted(found["queue"]), sorted(found["task"]))


def depths(cursor: Cursor, known: Sequence[str]) -> list[Depth]:
    """Return one record for each queue that has a job, a worker, or a setting, or is `known`; by name."""
    return [Depth(*row) for row in run(cursor, (QUEUES, {"counted": COUNTED, "known": list(known)}))]


def running(cursor: Cursor) -> dict[tuple[str, int], int]:
    """Return how many jobs run, by queue and worker."""
    return {(queue, worker): number for queue, worker, number in run(cursor, (RUNNING, {}))}


def ended(cursor: Cursor) -> Ended:
    """Return how many jobs ended in which way."""
    return Ended(*run(cursor, (ENDED, {"counted": COUNTED}))[0])


def waiting_params(
    *, due: bool, later: bool, queue_name: str | None, most: int = REACH
) -> tuple[bool | int | str | None, ...]:
    """
    Return the parameters of `IS_WAITING`: at most `COUNTED` jobs of each queue and priority, next ones first.
    """
    return (due, COUNTED, later, COUNTED, queue_name, queue_name, most)


INDEXED = frozenset({State.FAILED, State.CANCELLED})
"""States whose jobs an index lists by id; `RUNNING` and `READY` have theirs in other orders."""
