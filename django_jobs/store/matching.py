"""
Jobs that an operator's filter matches, a page of rows at a time, in order of their ids.

Each statement looks at `PAGE_ROWS` rows at the most and returns those that match, so that none runs long
whatever the table holds, and a walk can be ended between two of them. Failed and cancelled jobs are found
by `django_jobs_dead`, running ones by `django_jobs_running`, those about an object by `django_jobs_about`;
for everything else the walk follows the primary key through the whole table: 3 s for a million rows on two
cores, also without statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django_jobs.core.states import State
from django_jobs.store.cursor import Cursor, Statement, run

PAGE_ROWS = 5_000
"""Rows that one statement looks at."""

LAST_ID = 2**63 - 1
"""No id is above it, and no sum of one and a number of rows may be."""

NEWEST = "SELECT COALESCE(max(id), 0) FROM django_jobs_job"

LABELLED = """
    SELECT job.id, job.queue_name, job.task_path, job.run_after, job.enqueued_at, job.finished_at,
           job.expires_at, job.reason, job.worker, job.priority, job.meta,
           CASE WHEN job.state <> 'READY' THEN lower(job.state)
                WHEN job.run_after <= clock_timestamp() THEN 'ready'
                WHEN job.attempt > job.uncounted THEN 'retrying'
                ELSE 'scheduled' END AS label
      FROM django_jobs_job AS job
"""

MATCHING = """
    SELECT last.id, job.id, job.label, job.queue_name, job.task_path,
           GREATEST(LEAST(COALESCE(job.finished_at, job.run_after), '9999-12-30Z'), '0001-01-03Z'), job.reason
      FROM last
      LEFT JOIN page AS job
        ON job.label = ANY(%(labels)s::text[])
       AND (%(queues)s::text[] IS NULL OR job.queue_name = ANY(%(queues)s::text[]))
       AND (%(tasks)s::text[] IS NULL OR job.task_path = ANY(%(tasks)s::text[])
            OR EXISTS (SELECT FROM unnest(%(prefixes)s::text[]) AS prefix
                        WHERE starts_with(job.task_path, prefix)))
       AND (%(since)s::timestamptz IS NULL OR job.finished_at >= %(since)s::timestamptz)
       AND (%(before)s::timestamptz IS NULL
            OR COALESCE(job.finished_at, job.enqueued_at) < %(before)s::timestamptz)
       AND (NOT %(expired)s OR job.expires_at <= clock_timestamp())
       AND (%(enqueued_since)s::timestamptz IS NULL OR job.enqueued_at >= %(enqueued_since)s::timestamptz)
       AND (%(term)s::text IS NULL OR starts_with(job.task_path, %(term)s::text)
            OR job.queue_name = %(term)s::text)
       AND (%(not_of)s::text IS NULL OR job.task_path <> %(not_of)s::text)
       AND (%(worker)s::bigint IS NULL OR job.worker = %(worker)s::bigint)
       AND (%(least)s::int IS NULL OR job.priority >= %(least)s::int)
       AND (%(most)s::int IS NULL OR job.priority <= %(most)s::int)
       AND (%(tag)s::text IS NULL OR job.meta -> 'tags' @> jsonb_build_array(%(tag)s::text))
       AND (%(about)s::text IS NULL OR job.meta ->> 'about' = %(about)s::text)
       AND (%(exception)s::text IS NULL
            OR EXISTS (SELECT FROM django_jobs_attempt AS attempt   -- django_jobs_attempt_number
                        WHERE attempt.job_id = job.id AND attempt.exception_class = %(exception)s::text))
     ORDER BY job.id
"""

# A range of ids and no LIMIT: without statistics, a LIMIT here is planned as a scan and a sort of the table.
# Where the walk goes on is looked up, so that a gap in the ids costs one look-up however wide it is.
OF_ALL = (
    "WITH page AS ("
    + LABELLED
    + """
     WHERE job.id > %(after)s AND job.id <= %(after)s + %(rows)s AND job.id <= %(upto)s),
    last AS (SELECT min(id) - 1 AS id FROM django_jobs_job WHERE id > %(after)s + %(rows)s)
"""
    + MATCHING
)

# Index django_jobs_dead: state, id.
OF_STATE = (
    "WITH page AS ("
    + LABELLED
    + """
     WHERE job.state = %(state)s AND job.id > %(after)s AND job.id <= %(upto)s
     ORDER BY job.state, job.id LIMIT %(rows)s),
    last AS (SELECT max(id) AS id FROM page)
"""
    + MATCHING
)

# Index django_jobs_about.
OF_OBJECT = (
    "WITH page AS ("
    + LABELLED
    + """
     WHERE job.meta ? 'about' AND job.meta ->> 'about' = %(about)s
       AND job.id > %(after)s AND job.id <= %(upto)s
     ORDER BY job.meta ->> 'about', job.id LIMIT %(rows)s),
    last AS (SELECT max(id) AS id FROM page)
"""
    + MATCHING
)

OF_IDS = (
    "WITH page AS ("
    + LABELLED
    + """
     WHERE job.id = ANY(%(ids)s::bigint[])),
    last AS (SELECT max(id) AS id FROM page)
"""
    + MATCHING
)

LABELS = ("ready", "scheduled", "retrying", "blocked", "running", "successful", "failed", "cancelled")
"""What a filter may ask for: states, with those that wait for a time apart."""

SHORT = frozenset({State.FAILED, State.CANCELLED, State.RUNNING})
"""States whose jobs are found without a walk through the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs are meant. `None` means any."""

    labels: Sequence[str] = LABELS
    ids: Sequence[int] | None = None
    queues: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    """Dotted paths; one that ends in `*` stands for all that begin like it."""
    since: datetime | str | None = None
    """Finished then or later."""
    before: datetime | str | None = None
    """Finished earlier or, when they haven't, enqueued earlier."""
    expired: bool = False
    """Only those that pruning would delete by itself."""
    enqueued_since: datetime | str | None = None
    """Enqueued then or later."""
    term: str | None = None
    """The name of their queue, or how the path of their task begins."""
    not_of: str | None = None
    """A task whose jobs are left out."""
    worker: int | None = None
    """The last worker that had them."""
    least_priority: int | None = None
    most_priority: int | None = None
    tag: str | None = None
    """A text in the list `tags` of their meta."""
    exception: str | None = None
    """The class of an exception that any of their runs raised."""
    about: str | None = None
    """The object that they are about, such as "shop.order/17"."""


@dataclass(frozen=True, slots=True)
class Match:
    """One job that matched."""

    id: int
    label: str
    queue_name: str
    task_path: str
    at: datetime
    """When it finished, or is due."""
    reason: str | None


def pages(cursor: Cursor, wanted: Filter) -> Iterator[list[Match]]:
    """
    Yield what matches, one list for each page of rows looked at, which may be empty.

    Jobs that are enqueued meanwhile are not looked at.
    """
    [[upto]] = run(cursor, (NEWEST, {}))
    if wanted.ids is not None:
        for first in range(0, len(wanted.ids), PAGE_ROWS):
            chunk = list(wanted.ids[first : first + PAGE_ROWS])
            yield matches(cursor, (OF_IDS, parameters(wanted) | {"ids": chunk}))[1]
        return
    place: Place | None = Place()
    while place is not None:
        place, found = look(cursor, wanted, place, upto)
        yield found


@dataclass(frozen=True, slots=True)
class Place:
    """How far a walk has come: in which of its parts, and the last id that was looked at there."""

    part: int = 0
    after: int = 0


def parts(wanted: Filter) -> list[tuple[str, str]]:
    """Return the statements of a walk, each with the state that it follows, if it is one."""
    if wanted.about is not None:
        return [(OF_OBJECT, "")]
    if set(wanted.labels) <= {state.lower() for state in SHORT}:
        return [(OF_STATE, label.upper()) for label in sorted(set(wanted.labels))]
    return [(OF_ALL, "")]


def look(
    cursor: Cursor, wanted: Filter, place: Place, upto: int, rows: int | None = None
) -> tuple[Place | None, list[Match]]:
    """
    Look at the next rows of a walk that ends with the id `upto`, and return what of them matched.

    Also returns the place where it goes on, `None` at the end of all.
    """
    walk = parts(wanted)
    if place.part >= len(walk):
        return None, []
    text, state = walk[place.part]
    rows = min(rows or PAGE_ROWS, LAST_ID - place.after)
    params = {"after": place.after, "upto": upto, "rows": rows, "state": state}
    after, found = matches(cursor, (text, parameters(wanted) | params))
    if after is not None and after < upto:
        return Place(place.part, after), found
    return (Place(place.part + 1) if place.part + 1 < len(walk) else None), found


def matches(cursor: Cursor, statement: Statement) -> tuple[int | None, list[Match]]:
    """Return the last id that was looked at, `None` at the end, and what matched."""
    rows = run(cursor, statement)
    return rows[0][0], [Match(*row[1:]) for row in rows if row[1] is not None]


def parameters(wanted: Filter) -> dict[str, object]:
    """Return a filter's parameters."""
    tasks = wanted.tasks
    return {
        "labels": list(wanted.labels),
        "queues": None if wanted.queues is None else list(wanted.queues),
        "tasks": None if tasks is None else [task for task in tasks if not task.endswith("*")],
        "prefixes": [task.removesuffix("*") for task in tasks or () if task.endswith("*")],
        "since": wanted.since,
        "before": wanted.before,
        "expired": wanted.expired,
        "enqueued_since": wanted.enqueued_since,
        "term": wanted.term,
        "not_of": wanted.not_of,
        "worker": wanted.worker,
        "least": wanted.least_priority,
        "most": wanted.most_priority,
        "tag": wanted.tag,
        "exception": wanted.exception,
        "about": wanted.about,
    }
