"""
How many jobs there are: by queue, and by how they ended. Read by the admin and `manage.py jobs`.

Jobs are counted one by one only where they are few, since each may take a look at its row: up to `COUNTED` of
a kind, and `ROWS` of all that wait. What goes beyond is estimated from a sample of the table's pages, by one
more statement that is sent only then. So what counting costs is bounded, whatever the table holds.

Indexes: `django_jobs_ready` for what waits, `django_jobs_running` and `django_jobs_dead` by their states, and
the primary key for the newest jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django_jobs.store.cursor import Cursor, run
from django_jobs.store.stats import COUNTED, PLACES

ROWS = 100_000
"""Where it stops for the waiting jobs of all queues, in equal parts for each."""

LEAST = 1_000
"""How many of each queue are counted one by one however many queues there are."""

SAMPLED = 1_000
"""Pages of 8 kB that an estimate reads. Of five million jobs they held 31,000 and were right to 3 %."""

# Of one queue, at all its priorities. The limit is one that the planner doesn't know: it would fetch and sort
# all of a place that it believes to hold fewer.
WAITING = """
    SELECT count(*)::int AS number
      FROM (SELECT
              FROM place
             CROSS JOIN LATERAL (
                   SELECT FROM django_jobs_job AS job
                    WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                      AND job.priority = place.priority AND job.run_after {} statement_timestamp()
                    ORDER BY job.run_after, job.id LIMIT (SELECT most FROM room) + 1) AS job
             WHERE place.queue_name = queue.queue_name
             LIMIT (SELECT most FROM room) + 1) AS rows
"""

# The oldest is asked for by itself, with one look-up in each place.
QUEUES = (
    PLACES
    + f""",
    queue AS (
        SELECT queue_name FROM place GROUP BY queue_name),
    room AS MATERIALIZED (
        SELECT LEAST(%(counted)s, GREATEST(%(least)s, %(rows)s / (2 * GREATEST(count(*), 1)))) AS most
          FROM queue),
    waiting AS (
        SELECT queue.queue_name, due.number AS due, later.number AS later, oldest.age
          FROM queue
         CROSS JOIN LATERAL ({WAITING.format("<=")}) AS due
         CROSS JOIN LATERAL ({WAITING.format(">")}) AS later
         CROSS JOIN LATERAL (
               SELECT EXTRACT(epoch FROM clock_timestamp() - min(first.run_after))::float8 AS age
                 FROM place
                CROSS JOIN LATERAL (
                      SELECT job.run_after FROM django_jobs_job AS job
                       WHERE job.state = 'READY' AND job.queue_name = place.queue_name
                         AND job.priority = place.priority
                         AND job.run_after <= statement_timestamp() AND job.run_after > '-infinity'
                       ORDER BY job.run_after, job.id LIMIT 1) AS first
                WHERE place.queue_name = queue.queue_name) AS oldest),
    running AS (
        SELECT queue_name, count(*)::int AS number FROM django_jobs_job WHERE state = 'RUNNING'
         GROUP BY queue_name),
    failed AS (
        SELECT queue_name, count(*) FILTER (WHERE state = 'FAILED')::int AS number
          FROM (SELECT queue_name, state FROM django_jobs_job WHERE state IN ('FAILED', 'CANCELLED')
                 ORDER BY state DESC, id DESC LIMIT %(counted)s) AS dead
         GROUP BY queue_name),
    named AS (
        SELECT queue_name FROM waiting
         UNION SELECT queue_name FROM running
         UNION SELECT queue_name FROM failed WHERE number > 0
         UNION SELECT name FROM django_jobs_queue
         UNION SELECT jsonb_array_elements_text(queues) FROM django_jobs_worker
                WHERE state IN ('RUNNING', 'STOPPING') AND jsonb_typeof(queues) = 'array'
         UNION SELECT unnest(%(known)s::text[]))
    SELECT named.queue_name, COALESCE(waiting.due, 0), COALESCE(waiting.later, 0), waiting.age,
           COALESCE(running.number, 0), COALESCE(failed.number, 0), room.most
      FROM named
     CROSS JOIN room
      LEFT JOIN waiting USING (queue_name)
      LEFT JOIN running USING (queue_name)
      LEFT JOIN failed USING (queue_name)
     WHERE named.queue_name IS NOT NULL   -- a null that a stranger put among a worker's queues
     ORDER BY named.queue_name
"""
)

# Ordered as the index is, so that the planner takes it however many it believes there are. Successful jobs
# have no index, so they are counted among the newest ids, by a range of them: see `stats.CHOICES`.
ENDED = """
    WITH ids AS MATERIALIZED (
        SELECT min(id) AS oldest, max(id) AS newest FROM django_jobs_job)
    SELECT (SELECT count(*) FILTER (WHERE state = 'FAILED')::int
              FROM (SELECT state FROM django_jobs_job WHERE state IN ('FAILED', 'CANCELLED')
                     ORDER BY state DESC, id DESC LIMIT %(counted)s + 1) AS rows),
           (SELECT count(*) FILTER (WHERE state = 'CANCELLED')::int
              FROM (SELECT state FROM django_jobs_job WHERE state IN ('FAILED', 'CANCELLED')
                     ORDER BY state, id LIMIT %(counted)s + 1) AS rows),
           (SELECT count(*)::int FROM django_jobs_job, ids
             WHERE id > ids.newest - %(counted)s AND id <= ids.newest AND state = 'SUCCESSFUL'),
           (SELECT newest - oldest >= %(counted)s FROM ids)
"""

# The same pages each time, so that a figure doesn't jump about from one refresh of a page to the next.
SAMPLE = """
    WITH part AS (
        SELECT LEAST(1, %(sampled)s * current_setting('block_size')::float8
                        / GREATEST(pg_relation_size('django_jobs_job'), 1)) AS share)
    SELECT queue_name,
           CASE WHEN state <> 'READY' THEN lower(state)
                WHEN run_after <= statement_timestamp() THEN 'due' ELSE 'later' END AS kind,
           round(count(*) / (SELECT share FROM part))::bigint
      FROM django_jobs_job TABLESAMPLE SYSTEM (100 * (SELECT share FROM part)) REPEATABLE (1)
     GROUP BY queue_name, kind
"""

Sample = Mapping[tuple[str, str], int]
"""How many jobs there may be, by queue and kind."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of jobs; one that isn't `exact` is an estimate, and no less than were seen."""

    count: int
    exact: bool = True

    @property
    def rounded(self) -> int:
        """The first two digits of it."""
        return int(float(f"{self.count:.2g}"))


@dataclass(frozen=True, slots=True)
class Depth:
    """One queue in figures."""

    queue_name: str
    due: Count
    later: Count
    """Waiting for a time to come: scheduled or retrying."""
    oldest_due_seconds: float | None
    running: int
    failed: Count


@dataclass(frozen=True, slots=True)
class Census:
    """How many jobs there are: by queue, in the order of their names, and all that ended and are kept."""

    depths: list[Depth]
    failed: Count
    cancelled: Count
    successful: Count

    @property
    def due(self) -> Count:
        return together(depth.due for depth in self.depths)

    @property
    def later(self) -> Count:
        return together(depth.later for depth in self.depths)

    @property
    def running(self) -> Count:
        return Count(sum(depth.running for depth in self.depths))


def census(cursor: Cursor, known: Sequence[str] = ()) -> Census:
    """Count jobs. Each queue has a record that has a job, a worker, or a setting, or is `known`."""
    limits = {"counted": COUNTED, "least": LEAST, "rows": ROWS}
    queues = run(cursor, (QUEUES, limits | {"known": list(known)}))
    [(failed, cancelled, successful, is_part)] = run(cursor, (ENDED, {"counted": COUNTED}))
    most = queues[0][-1] if queues else COUNTED
    waits = max((max(due, later) for _, due, later, *_ in queues), default=0)
    sample: Sample = {}
    if waits > most or max(failed, cancelled) > COUNTED or is_part:
        found = run(cursor, (SAMPLE, {"sampled": SAMPLED}))
        sample = {(queue_name, kind): number for queue_name, kind, number in found}

    def counted(number: int, is_all: bool, kind: str, queue_name: str | None = None) -> Count:
        if is_all:
            return Count(number)
        sums = (n for (queue, other), n in sample.items() if other == kind and queue_name in (None, queue))
        return Count(max(number, sum(sums)), exact=False)

    return Census(
        [
            Depth(
                name,
                counted(due, due <= most, "due", name),
                counted(later, later <= most, "later", name),
                age,
                running,
                counted(dead, failed <= COUNTED, "failed", name),
            )
            for name, due, later, age, running, dead, _ in queues
        ],
        counted(failed, failed <= COUNTED, "failed"),
        counted(cancelled, cancelled <= COUNTED, "cancelled"),
        counted(successful, not is_part, "successful"),
    )


def together(counts: Iterable[Count]) -> Count:
    """Return the sum of counts."""
    found = list(counts)
    return Count(sum(one.count for one in found), all(one.exact for one in found))
