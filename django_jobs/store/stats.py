"""
What people ask of the queue: names to choose from, and what waits. Read by the admin; nothing is changed.

Every statement is bounded, whatever the table holds: it walks an index from one entry to the next, or stops
at a limit. How many jobs there are is in `counting`.

Indexes: `django_jobs_ready` for what waits, `django_jobs_running` and `django_jobs_dead` by their states, and
the primary key for the newest jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
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
# An array and not a join, so that rows are looked up by their ids whatever the planner believes. And limits
# that it doesn't know: it would sort all of a place that it believes to hold fewer.
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
             ORDER BY job.run_after, job.id LIMIT (SELECT %s::bigint))
            UNION ALL
           (SELECT job.id FROM django_jobs_job AS job
             WHERE job.state = 'READY' AND job.queue_name = place.queue_name
               AND job.priority = place.priority AND job.run_after > statement_timestamp() AND %s::boolean
             ORDER BY job.run_after, job.id LIMIT (SELECT %s::bigint))) AS waiting
     WHERE %s::text IS NULL OR place.queue_name = %s::text
     LIMIT %s::bigint))"""
)

ENDS = (
    PLACES
    + """
    SELECT EXISTS (
        SELECT
          FROM place
         CROSS JOIN LATERAL (
               (SELECT FROM django_jobs_job AS job
                 WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                   AND job.priority = place.priority AND job.run_after <= statement_timestamp()
                 ORDER BY job.run_after, job.id OFFSET (SELECT %(counted)s) LIMIT 1)
                UNION ALL
               (SELECT FROM django_jobs_job AS job
                 WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                   AND job.priority = place.priority AND job.run_after > statement_timestamp()
                 ORDER BY job.run_after, job.id OFFSET (SELECT %(counted)s) LIMIT 1)) AS further)
"""
)

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


def choices(cursor: Cursor, queues: Iterable[str], tasks: Iterable[str], newest: int = 1000) -> Choices:
    """Return the queues and tasks that are about, together with those that the caller knows."""
    found = {"queue": set(queues), "task": set(tasks)}
    for kind, name in run(cursor, (CHOICES, {"newest": newest})):
        if name is not None:  # a null that a stranger put into a list of names
            found[kind].add(name)
    return Choices(sorted(found["queue"]), sorted(found["task"]))


def running(cursor: Cursor) -> dict[tuple[str, int], int]:
    """Return how many jobs run, by queue and worker."""
    return {(queue, worker): number for queue, worker, number in run(cursor, (RUNNING, {}))}


def waiting_params(
    *, due: bool, later: bool, queue_name: str | None, most: int = REACH
) -> tuple[bool | int | str | None, ...]:
    """
    Return the parameters of `IS_WAITING`: at most `COUNTED` jobs of each queue and priority, next ones first.
    """
    return (due, COUNTED, later, COUNTED, queue_name, queue_name, most)


def waiting_ends(cursor: Cursor) -> bool:
    """Whether some queue has more waiting jobs at a priority than `IS_WAITING` finds."""
    return bool(run(cursor, (ENDS, {"counted": COUNTED}))[0][0])


INDEXED = frozenset({State.FAILED, State.CANCELLED})
"""States whose jobs an index lists by id; `RUNNING` and `READY` have theirs in other orders."""
