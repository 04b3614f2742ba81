"""What is asked of the tables: claims and scouts, for the queues that a worker serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django_jobs.store.claim import Room, Span

SYNC, ASYNC = "sync", "async"
"""The kinds of slots: threads, and the event loop."""

PORTION = 10_000
"""Rows up to the next edge, of all queues together: a walk of some milliseconds."""

SMALLEST_PORTION = 500
"""Rows up to the next edge of each queue, when there are many."""


@dataclass(frozen=True, slots=True)
class Served:
    """Which queues a worker serves, and how many jobs of each it runs at once."""

    names: frozenset[str] | None
    """`None` for all."""
    excluded: frozenset[str]
    limits: Mapping[str, int]

    def __contains__(self, queue_name: str) -> bool:
        return queue_name not in self.excluded and (self.names is None or queue_name in self.names)


@dataclass(frozen=True, slots=True)
class Request:
    """One claim to make: plain or after points, from these queues."""

    kind: str
    plain: bool
    rooms: Sequence[Room]
    limit: int
    partial: bool
    """Whether it leaves room in some queue to a claim of another kind of slot in the same cycle."""


@dataclass(frozen=True, slots=True)
class Search:
    """A scout to send: over older rows that no claim of this kind has seen."""

    kind: str
    spans: Mapping[str, Sequence[Span]]
    """By queue."""

    @property
    def walk(self) -> int:
        """How many rows of each queue it goes over."""
        return max(SMALLEST_PORTION, PORTION // len(self.spans))
