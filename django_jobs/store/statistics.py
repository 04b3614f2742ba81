"""
Figures by minute and by hour: written by each worker once a minute, read by the admin's pages.

A worker adds what it counted to the rows of this minute and of this hour, one for each queue and task, so
the table grows with the kinds of work and not with the work. One of them also counts new jobs by their ids.
Minutes go after three hours, hours after 31 days, in the same statement. All is found by the unique index
`django_jobs_stat_place`: seconds, at, ….
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django_jobs.core.histogram import class_of
from django_jobs.store.cursor import Cursor, Statement, run

MINUTE, HOUR = 60, 3600

LOOKS = 10_000
"""Ids that are looked up in one count of new jobs: of more, one is taken at random of each so many."""

MOST_KINDS = 200
"""Pairs of queue and task whose new jobs are told apart in a minute; others are counted without a name."""

# What was enqueued is counted by ids, by whoever comes first once 50 seconds have passed: those up to the
# highest of the last time, so that transactions had that long to commit. Rows in a fixed order, so that two
# workers never wait for each other in a circle.
ADD = """
    WITH old AS (
        DELETE FROM django_jobs_stat
         WHERE (seconds = 60 AND at < now() - interval '3 hours')
            OR (seconds = 3600 AND at < now() - interval '31 days')),
    newest AS (SELECT COALESCE(max(id), 0) AS id FROM django_jobs_job),
    turn AS (
        SELECT counted_to, seen_to FROM django_jobs_intake
         WHERE id = 1 AND at < now() - interval '50 seconds' FOR UPDATE SKIP LOCKED),
    first AS (
        INSERT INTO django_jobs_intake (id, at, counted_to, seen_to)
        SELECT 1, now(), id, id FROM newest WHERE NOT EXISTS (SELECT FROM django_jobs_intake WHERE id = 1)
            ON CONFLICT DO NOTHING),
    moved AS (
        UPDATE django_jobs_intake AS intake
           SET at = now(), counted_to = turn.seen_to, seen_to = newest.id
          FROM turn, newest WHERE intake.id = 1),
    stretch AS (   -- a gap in the ids before the lowest is passed over
        SELECT new.lowest, seen_to, (seen_to - new.lowest) / %(looks)s::bigint + 1 AS size
          FROM turn
         CROSS JOIN LATERAL (
               SELECT min(id) AS lowest FROM django_jobs_job WHERE id > GREATEST(counted_to, 0)) AS new
         WHERE new.lowest <= seen_to),
    picked AS (   -- of each `size` ids one, told by its distance: a stranger's id may be the last there is
        SELECT size, seen_to, lowest + n * size AS start, floor(random() * size)::bigint AS distance
          FROM stretch CROSS JOIN LATERAL generate_series(0, (seen_to - lowest) / size) AS n),
    met AS (
        SELECT job.queue_name, job.task_path, date_trunc('minute', job.enqueued_at, 'UTC') AS at,
               sum(picked.size)::bigint AS number
          FROM picked
          JOIN django_jobs_job AS job
            ON job.id = CASE WHEN distance <= seen_to - start THEN start + distance END
         WHERE job.enqueued_at > now() - interval '3 hours' AND job.enqueued_at < now() + interval '1 hour'
         GROUP BY 1, 2, 3),
    ranked AS (
        SELECT *, row_number() OVER (PARTITION BY at ORDER BY number DESC) > %(most)s::bigint AS is_over
          FROM met),
    named AS (
        SELECT at, CASE WHEN is_over THEN '' ELSE queue_name END AS queue_name,
               CASE WHEN is_over THEN '' ELSE task_path END AS task_path, number
          FROM ranked),
    intake AS (
        SELECT part.seconds, date_trunc(part.name, named.at, 'UTC') AS at, named.queue_name, named.task_path,
               sum(named.number)::bigint AS enqueued
          FROM named CROSS JOIN (VALUES (60, 'minute'), (3600, 'hour')) AS part (seconds, name)
         GROUP BY 1, 2, 3, 4),
    ended AS (
        SELECT part.seconds, date_trunc(part.name, now(), 'UTC') AS at, counted.*
          FROM (VALUES (60, 'minute'), (3600, 'hour')) AS part (seconds, name)
         CROSS JOIN jsonb_to_recordset(%(counted)s::jsonb) AS counted (
               queue_name text, task_path text, completed bigint, failed bigint, retried bigint,
               cancelled bigint, waits bigint[], runs bigint[]))
    INSERT INTO django_jobs_stat AS stat (
           seconds, at, queue_name, task_path, completed, failed, retried, cancelled, waits, runs, enqueued)
    SELECT ended.*, COALESCE(intake.enqueued, 0)
      FROM ended LEFT JOIN intake USING (seconds, at, queue_name, task_path)
     UNION ALL
    SELECT seconds, at, queue_name, task_path, 0, 0, 0, 0, '{}', '{}', enqueued
      FROM intake
     WHERE NOT EXISTS (SELECT FROM ended
                        WHERE ended.seconds = intake.seconds AND ended.at = intake.at
                          AND ended.queue_name = intake.queue_name AND ended.task_path = intake.task_path)
     ORDER BY 1, 2, 3, 4
        ON CONFLICT (seconds, at, queue_name, task_path) DO UPDATE
       SET completed = stat.completed + EXCLUDED.completed, failed = stat.failed + EXCLUDED.failed,
           retried = stat.retried + EXCLUDED.retried, cancelled = stat.cancelled + EXCLUDED.cancelled,
           enqueued = stat.enqueued + EXCLUDED.enqueued,
           waits = ARRAY(SELECT COALESCE(a, 0) + COALESCE(b, 0)
                           FROM unnest(stat.waits, EXCLUDED.waits) WITH ORDINALITY AS pair (a, b, n)
                          ORDER BY n),
           runs = ARRAY(SELECT COALESCE(a, 0) + COALESCE(b, 0)
                          FROM unnest(stat.runs, EXCLUDED.runs) WITH ORDINALITY AS pair (a, b, n)
                         ORDER BY n)
 RETURNING id
"""

TOTALS = """
    SELECT period.name, COALESCE(sum(stat.completed), 0)::bigint, COALESCE(sum(stat.failed), 0)::bigint,
           COALESCE(sum(stat.retried), 0)::bigint, COALESCE(sum(stat.enqueued), 0)::bigint
      FROM unnest(%(names)s::text[], %(seconds)s::int[], %(lengths)s::interval[])
        AS period (name, seconds, length)
      LEFT JOIN django_jobs_stat AS stat
        ON stat.seconds = period.seconds AND stat.at > now() - period.length
       AND (%(queue)s::text IS NULL OR stat.queue_name = %(queue)s::text)
     GROUP BY period.name
"""

COURSE = """
    SELECT at, sum(completed)::bigint, sum(failed)::bigint, sum(retried)::bigint, sum(enqueued)::bigint
      FROM django_jobs_stat
     WHERE seconds = %(seconds)s AND at > now() - %(length)s::interval
       AND (%(queue)s::text IS NULL OR queue_name = %(queue)s::text)
     GROUP BY at ORDER BY at
"""

KINDS = """
    WITH chosen AS (
        SELECT * FROM django_jobs_stat
         WHERE seconds = %(seconds)s AND at > now() - %(length)s::interval
           AND (%(queue)s::text IS NULL OR queue_name = %(queue)s::text)),
    class AS (
        SELECT queue_name, task_path, n, sum(wait)::bigint AS waits, sum(run)::bigint AS runs
          FROM chosen
         CROSS JOIN LATERAL unnest(waits, runs) WITH ORDINALITY AS counted (wait, run, n)
         GROUP BY queue_name, task_path, n),
    spread AS (
        SELECT queue_name, task_path, array_agg(COALESCE(waits, 0) ORDER BY n) AS waits,
               array_agg(COALESCE(runs, 0) ORDER BY n) AS runs
          FROM class GROUP BY queue_name, task_path)
    SELECT chosen.queue_name, chosen.task_path, sum(completed)::bigint, sum(failed)::bigint,
           sum(retried)::bigint, sum(cancelled)::bigint, COALESCE(spread.waits, '{}'),
           COALESCE(spread.runs, '{}'), sum(enqueued)::bigint
      FROM chosen
      LEFT JOIN spread USING (queue_name, task_path)
     GROUP BY chosen.queue_name, chosen.task_path, spread.waits, spread.runs
     ORDER BY chosen.queue_name, chosen.task_path
"""

# The last hour, one row for each queue, or each task, with its minutes as arrays.
RECENT = """
    WITH minute AS (
        SELECT CASE WHEN %(by_task)s THEN task_path ELSE queue_name END AS name, at,
               sum(completed)::bigint AS completed, sum(failed)::bigint AS failed,
               sum(retried)::bigint AS retried, sum(enqueued)::bigint AS enqueued
          FROM django_jobs_stat
         WHERE seconds = 60 AND at > now() - interval '1 hour'
         GROUP BY 1, 2)
    SELECT name, array_agg(EXTRACT(epoch FROM at)::bigint), array_agg(completed), array_agg(failed),
           array_agg(retried), array_agg(enqueued)
      FROM minute GROUP BY name ORDER BY name
"""

# A range of ids and no LIMIT: without statistics, that is planned as a scan and a sort of the table.
FAILURES = """
    SELECT exception_class, count(*)::int,
           max(CASE WHEN ended_at IS NOT NULL   -- within Python's calendar, whatever a stranger wrote
                    THEN GREATEST(LEAST(ended_at, '9999-12-30Z'), '0001-01-03Z') END),
           max(id), (array_agg(job_id ORDER BY id DESC))[1],
           (array_agg(left(message, 200) ORDER BY id DESC))[1]
      FROM django_jobs_attempt
     WHERE id > (SELECT max(id) FROM django_jobs_attempt) - %(newest)s
       AND id <= (SELECT max(id) FROM django_jobs_attempt) AND exception_class <> ''
     GROUP BY exception_class
     ORDER BY max(id) DESC LIMIT %(most)s
"""

NEWEST_ATTEMPTS = 1_000
"""Runs among which failures are counted."""

MOST_FAILURES = 10
"""Exception classes that are listed."""


@dataclass(frozen=True, slots=True)
class Period:
    """A time that figures are shown for, and the length of the rows that it is made of."""

    name: str
    length: timedelta
    seconds: int


PERIODS = (
    Period("hour", timedelta(hours=1), MINUTE),
    Period("day", timedelta(days=1), HOUR),
    Period("week", timedelta(days=7), HOUR),
)


@dataclass(slots=True)
class Tally:
    """Runs of one queue and task that ended, as a worker counts them and as the pages show them."""

    completed: int = 0
    failed: int = 0
    """For good: the job waits for a person."""
    retried: int = 0
    cancelled: int = 0
    waits: list[int] = field(default_factory=list)
    """How long jobs were due before they began, by class; see `core.histogram`."""
    runs: list[int] = field(default_factory=list)
    """How long bodies ran, by class."""
    enqueued: int = 0
    """New jobs; workers count these by other means, see `ADD`."""

    def took(self, waited: float, ran: float) -> None:
        """Count the lengths of one run, in seconds."""
        count(self.waits, class_of(waited))
        count(self.runs, class_of(ran))

    def add(self, other: Tally) -> None:
        """Add what was counted elsewhere."""
        self.completed += other.completed
        self.failed += other.failed
        self.retried += other.retried
        self.cancelled += other.cancelled
        self.enqueued += other.enqueued
        for mine, theirs in ((self.waits, other.waits), (self.runs, other.runs)):
            for number, times in enumerate(theirs):
                count(mine, number, times)

    @property
    def ended(self) -> int:
        """Runs that counted."""
        return self.completed + self.failed + self.retried


def count(classes: list[int], number: int, times: int = 1) -> None:
    """Count a length in its class."""
    if number >= len(classes):
        classes += [0] * (number + 1 - len(classes))
    classes[number] += times


@dataclass(frozen=True, slots=True)
class Moment:
    """What ended in one minute or hour, and what was enqueued."""

    at: datetime
    completed: int
    failed: int
    retried: int
    enqueued: int = 0

    @property
    def ended(self) -> int:
        """Runs that counted."""
        return self.completed + self.failed + self.retried


@dataclass(frozen=True, slots=True)
class Failure:
    """One class of exceptions among the newest runs that didn't complete."""

    exception_class: str
    number: int
    last_at: datetime | None
    attempt: int
    job: int
    """The last job that raised it."""
    message: str


def add(tallies: Mapping[tuple[str, str], Tally]) -> Statement:
    """
    Return the statement that adds what a worker counted, by queue and task, and forgets what is old.

    Once a minute, whichever worker comes first counts new jobs by it.
    """
    counted = [
        {
            "queue_name": queue_name,
            "task_path": task_path,
            "completed": tally.completed,
            "failed": tally.failed,
            "retried": tally.retried,
            "cancelled": tally.cancelled,
            "waits": tally.waits,
            "runs": tally.runs,
        }
        for (queue_name, task_path), tally in tallies.items()
    ]
    return ADD, {"counted": json.dumps(counted), "looks": LOOKS, "most": MOST_KINDS}


@dataclass(frozen=True, slots=True)
class Figures:
    """What workers wrote down of one period."""

    totals: Mapping[str, Moment]
    """What ended in each of the periods, by its name."""
    course: Sequence[Moment]
    kinds: Mapping[tuple[str, str], Tally]


def figures(cursor: Cursor, period: Period, queue: str | None = None) -> Figures:
    """Return what workers wrote down of a period, of all queues or one."""
    return Figures(totals(cursor, queue), course(cursor, period, queue), kinds(cursor, period, queue))


def totals(cursor: Cursor, queue: str | None = None) -> dict[str, Moment]:
    """Return what ended in each period, by its name."""
    parameters = {
        "names": [period.name for period in PERIODS],
        "seconds": [period.seconds for period in PERIODS],
        "lengths": [period.length for period in PERIODS],
        "queue": queue,
    }
    return {row[0]: Moment(datetime.min, *row[1:]) for row in run(cursor, (TOTALS, parameters))}  # noqa: DTZ901


def course(cursor: Cursor, period: Period, queue: str | None = None) -> list[Moment]:
    """Return the minutes or hours of a period in which anything ended, in order."""
    return [Moment(*row) for row in run(cursor, (COURSE, parameters_of(period, queue)))]


def kinds(cursor: Cursor, period: Period, queue: str | None = None) -> dict[tuple[str, str], Tally]:
    """Return what ended in a period by queue and task."""
    rows = run(cursor, (KINDS, parameters_of(period, queue)))
    return {(row[0], row[1]): Tally(*row[2:]) for row in rows}


def recent(cursor: Cursor, *, by_task: bool) -> dict[str, list[Moment]]:
    """Return the minutes of the last hour in which anything was counted, by queue or by task."""
    return {
        name: [Moment(datetime.fromtimestamp(at, UTC), *counts) for at, *counts in zip(*minutes, strict=True)]
        for name, *minutes in run(cursor, (RECENT, {"by_task": by_task}))
    }


def parameters_of(period: Period, queue: str | None = None) -> dict[str, object]:
    return {"seconds": period.seconds, "length": period.length, "queue": queue}


def failures(cursor: Cursor) -> list[Failure]:
    """Return the classes of exceptions that were raised lately, the last one first."""
    parameters = {"newest": NEWEST_ATTEMPTS, "most": MOST_FAILURES}
    return [Failure(*row) for row in run(cursor, (FAILURES, parameters))]


def together(tallies: Iterable[tuple[str, Tally]]) -> dict[str, Tally]:
    """Return tallies added up by name."""
    found: dict[str, Tally] = {}
    for name, tally in tallies:
        found.setdefault(name, Tally()).add(tally)
    return found
