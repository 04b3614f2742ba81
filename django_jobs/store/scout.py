"""
The scout: how far claims may walk over older rows, and whether anything is there for them.

There may be millions of waiting rows of tasks that a claim may not take: those of the other kind of slot,
or unknown to its worker. A walk over all of them takes seconds, and what ended meanwhile waits to be stored.
So claims go on from **edge** to edge, some thousand rows each, and where a scout finds nothing up to the next
edge they don't even look.

The edge is found in the index `django_jobs_ready` alone; rows are read until the first one that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django_jobs.core.records import Point
from django_jobs.store.claim import SPANS, Span, span_parameters
from django_jobs.store.cursor import Rows, Statement

READY = f"""
                  FROM {SPANS}
                 CROSS JOIN LATERAL (
                       SELECT job.priority, job.run_after, job.id, job.task_path
                         FROM django_jobs_job AS job
                        WHERE job.queue_name = queue.name AND job.state = 'READY'
                          AND job.priority = span.priority
                          AND (job.run_after, job.id) > (span.run_after, span.id)
                          AND (job.run_after, job.id) <= (span.until_run_after, span.until_id)
                        ORDER BY job.run_after, job.id) AS ready
"""

# A subquery as LIMIT and OFFSET: with a number the planner knows more than `store/link.py` wants it to.
SCOUT = f"""
    SELECT queue.name, edge.priority, edge.run_after, edge.id,
           EXISTS (
                SELECT FROM (
                       SELECT ready.task_path {READY} LIMIT (SELECT %(walk)s::int)) AS near
                 WHERE near.task_path = ANY(%(tasks)s::text[]))
      FROM unnest(%(queues)s::text[], %(firsts)s::int[], %(lasts)s::int[]) AS queue (name, first, last)
      LEFT JOIN LATERAL (
                SELECT ready.priority, ready.run_after, ready.id {READY}
                OFFSET (SELECT %(walk)s::int - 1) LIMIT 1) AS edge ON true
"""


@dataclass(frozen=True, slots=True)
class Edge:
    """A row in the order of its queue: by priority, the highest first, then by point."""

    priority: int
    point: Point


@dataclass(frozen=True, slots=True)
class Scouted:
    """What a scout found in a queue."""

    queue_name: str
    edge: Edge | None
    """`None` when no more rows are there than it was to walk over."""
    found: bool
    """Whether a row of the tasks waits up to the edge."""


def scout(queues: Mapping[str, Sequence[Span]], tasks: Iterable[str], walk: int) -> Statement:
    """Return the scout that goes `walk` rows far into the spans of each queue."""
    return SCOUT, {
        "queues": list(queues),
        **span_parameters(queues.values()),
        "tasks": list(tasks),
        "walk": walk,
    }


def scouted(rows: Rows) -> list[Scouted]:
    """Return what a scout found."""
    return [
        Scouted(name, None if priority is None else Edge(priority, Point(run_after, job_id)), found)
        for name, priority, run_after, job_id, found in rows
    ]
