"""
The ledger: what a worker has in its hands, and what became of what it had.

Kept by the dispatcher's thread alone; others may read it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from django_jobs.core.records import (
    Cancelled,
    ClaimedJob,
    Completed,
    Ended,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
)
from django_jobs.store.finish import as_stored
from django_jobs.worker.requests import ASYNC

SHORT_SECONDS = 0.05
"""Jobs that take longer are never claimed ahead of free slots."""

AHEAD_SECONDS = 0.02
"""About how long jobs wait that are claimed ahead: hardly anyone else would have begun them sooner."""

AHEAD_MOST = 800
"""Jobs claimed ahead at the most."""

BATCH_CHARACTERS = 16 * 1024 * 1024
"""Characters of results stored together; PostgreSQL takes no message above a gigabyte."""

REMEMBERED = 1000
"""Failed jobs whose ids are kept for the report of a drain."""


class Ledger:
    """Jobs in flight, outcomes that wait to be stored, and counts of those that are."""

    def __init__(
        self,
        room: Mapping[str, int],
        *,
        kind_of: Callable[[ClaimedJob], str],
        timeout_of: Callable[[ClaimedJob], float | None],
    ) -> None:
        self.room = room
        """Slots by kind."""
        self.kind_of = kind_of
        self.timeout_of = timeout_of
        self.in_flight: dict[int, ClaimedJob] = {}
        """Jobs that this worker claimed and whose outcome isn't stored yet."""
        self.ended: dict[int, Ended] = {}
        """Outcomes that aren't stored yet, by job."""
        self.counts: Counter[str] = Counter()
        """Jobs in flight by kind of slot."""
        self.queue_counts: Counter[str] = Counter()
        """Jobs in flight by queue."""
        self.timed = 0
        """Jobs in flight that have a timeout."""
        self.average = dict.fromkeys(room, 1.0)
        """Sliding length of the runs by kind of slot, in seconds."""
        self.cancel_asked: set[int] = set()
        """Jobs running here that someone asked to cancel."""
        self.tally: Counter[str] = Counter()
        """Outcomes stored so far, by name."""
        self.dead: deque[int] = deque(maxlen=REMEMBERED)
        """The last jobs that failed for good."""

    def take(self, jobs: Sequence[ClaimedJob]) -> None:
        """Enter claimed jobs."""
        for job in jobs:
            kind = self.kind_of(job)
            if job.id in self.in_flight:  # taken over while it ran here, and claimed here again
                self.ended.pop(job.id, None)
                self.strike_out(job.id)
            self.in_flight[job.id] = job
            self.counts[kind] += 1
            self.queue_counts[job.queue_name] += 1
            self.timed += self.timeout_of(job) is not None

    def end(self, ended: Ended) -> None:
        """Enter an outcome; a second one of the same run is void, and so is one of a run that isn't ours."""
        # Not by the attempt: the next run after a crash of the server may have the same (decision 12).
        if self.in_flight.get(ended.job.id) is ended.job:
            self.ended.setdefault(ended.job.id, ended)

    def batch(self, size: int) -> list[Ended]:
        """Return the outcomes to store next: so many, or fewer when their results are large."""
        found: list[Ended] = []
        characters = 0
        for ended in islice(self.ended.values(), size):
            if isinstance(ended.outcome, Completed):
                characters += len(ended.outcome.return_value or "")
            if ended.captured is not None:
                characters += len(ended.captured.lines)
            if found and characters > BATCH_CHARACTERS:
                break
            found.append(ended)
        return found

    def strike_out(self, job_id: int) -> str:
        """Count a job no longer, and return its kind of slot."""
        job = self.in_flight.pop(job_id)
        kind = self.kind_of(job)
        self.counts[kind] -= 1
        self.queue_counts[job.queue_name] -= 1
        if not self.queue_counts[job.queue_name]:
            del self.queue_counts[job.queue_name]  # there may be a queue for each customer
        self.timed -= self.timeout_of(job) is not None
        self.cancel_asked.discard(job_id)
        return kind

    def leave(self, job_id: int) -> tuple[Ended, str]:
        """Strike out a run whose outcome is stored or not ours to store; return it, and its kind of slot."""
        ended = self.ended.pop(job_id)
        kind = self.strike_out(job_id)
        if not isinstance(ended.outcome, Released):
            # Longer runs count for more, so that few jobs are claimed to wait behind them.
            difference = ended.seconds - self.average[kind]
            self.average[kind] += difference * (0.5 if difference > 0 else 0.05)
        return ended, kind

    def conclude(self, ended: Ended, row: Sequence[Any]) -> Ended:
        """Count an outcome that is stored, and return it as it was stored; `row` is what came back."""
        ended = as_stored(ended, row)
        self.tally[name_of(ended.outcome)] += 1
        if isinstance(ended.outcome, Failed):
            self.dead.append(ended.job.id)
        return ended

    def free(self, leaving: Sequence[Ended]) -> dict[str, int]:
        """Return how many jobs may be claimed for each kind of slot, once `leaving` is stored."""
        gone = Counter([self.kind_of(ended.job) for ended in leaving])
        return {
            kind: slots + self.ahead(kind) - (self.counts[kind] - gone[kind])
            for kind, slots in self.room.items()
        }

    def ahead(self, kind: str) -> int:
        """Return how many jobs may be claimed beyond the slots: what these soon get to, if jobs are short."""
        average = max(self.average[kind], 1e-6)
        if average > SHORT_SECONDS:
            return 0
        # One thread runs all async bodies: those that don't wait for anything run one after the other.
        work = SHORT_SECONDS if kind == ASYNC else AHEAD_SECONDS * self.room[kind]
        return min(AHEAD_MOST, int(work / average))


def name_of(outcome: Outcome) -> str:
    """Return the word that an outcome is counted under."""
    match outcome:
        case Completed():
            return "completed"
        case Retried():
            return "retried"
        case Failed():
            return "failed"
        case Snoozed():
            return "snoozed"
        case Cancelled():
            return "cancelled"
        case Released():
            return "released"
