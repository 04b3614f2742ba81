"""
Figures by minute and by hour: written by each worker once a minute, read by the admin's pages.

A worker adds what it counted to the rows of this minute and of this hour, one for each queue and task, so
the table grows with the kinds of work and not with the work. Minutes go after three hours, hours after 31
days, in the same statement. All is found by the unique index `django_jobs_stat_place`: seconds, at, ….
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django_jobs.core.histogram import class_of
from django_jobs.store.cursor import Cursor, Statement, run

MINUTE, HOUR = 60, 3600

# Rows in a fixed order, so that two workers never wait for each other in a circle.
ADD = """
    WITH old AS (
        DELETE FROM django_jobs_stat
         WHERE (seconds = 60 AND at < now() - interval '3 hours')
            OR (seconds = 3600 AND at < now() - interval '31 days'))
    INSERT INTO django_jobs_stat AS stat (
           seconds, at, queue_name, task_path, completed, failed, retried, cancelled, waits, runs)
    SELECT part.seconds, date_trunc(part.name, now(), 'UTC'), counted.*
      FROM (VALUES (60, 'minute'), (3600, 'hour')) AS part (seconds, name)
     CROSS JOIN jsonb_to_recordset(%(counted)s::jsonb) AS counted (
           queue_name text, task_path text, completed bigint, failed bigint, retried bigint,
           cancelled bigint, waits bigint[], runs bigint[])
     ORDER BY part.seconds, counted.queue_name, counted.task_path
        ON CONFLICT (seconds, at, queue_name, task_path) DO UPDATE
       SET completed = stat.completed + EXCLUDED.completed, failed = stat.failed + EXCLUDED.failed,
           retried = stat.retried + EXCLUDED.retried, cancelled = stat.cancelled + EXCLUDED.cancelled,
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
           COALESCE(sum(stat.retried), 0)::bigint
      FROM unnest(%(names)s::text[], %(seconds)s::int[], %(lengths)s::interval[])
        AS period (name, seconds, length)
      LEFT JOIN django_jobs_stat AS stat
        ON stat.seconds = period.seconds AND stat.at > now() - period.length
       AND (%(queue)s::text IS NULL OR stat.queue_name = %(queue)s::text)
     GROUP BY period.name
"""

COURSE = """
    SELECT at, sum(completed)::bigint, sum(failed)::bigint, sum(retried)::bigint
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
           COALESCE(spread.runs, '{}')
      FROM chosen
      LEFT JOIN spread USING (queue_name, task_path)
     GROUP BY chosen.queue_name, chosen.task_path, spread.waits, spread.runs
     ORDER BY chosen.queue_name, chosen.task_path
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
    """What ended in one minute or hour."""

    at: datetime
    completed: int
    failed: int
    retried: int


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
    """Return the statement that adds what a worker counted, by queue and task, and forgets what is old."""
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
    return ADD, {"counted": json.dumps(counted)}


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
