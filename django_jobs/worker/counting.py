"""
Counting: what a worker writes down of its own work, once a minute, for the admin's charts.

Filled on the dispatcher's thread as outcomes are stored; a duty adds it to the table of all workers.
"""

from __future__ import annotations

from django_jobs.core.records import Cancelled, Completed, Ended, Failed, Released, Retried, Snoozed
from django_jobs.core.states import Kind
from django_jobs.store.cursor import Statement
from django_jobs.store.statistics import Tally, add

MOST = 200
"""Pairs of queue and task that are told apart in a minute; what is over is counted without a name."""

OTHERS = ("", "")


class Counting:
    """What ended since it was last written down, by queue and task."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str], Tally] = {}

    def count(self, ended: Ended) -> None:
        """Count a run whose outcome is stored."""
        job = ended.job
        key = (job.queue_name, job.task_path)
        tally = self.tallies.get(key) or self.begin(key)
        match ended.outcome:
            case Completed():
                tally.completed += 1
            case Retried(kind=kind):
                tally.retried += 1
                if kind is Kind.LOST:
                    return  # nobody knows how long it ran
            case Failed(kind=kind):
                tally.failed += 1
                if kind in (Kind.LOST, Kind.UNKNOWN_TASK):
                    return
            case Cancelled():
                tally.cancelled += 1
            case Released() | Snoozed():
                return
        tally.took((job.last_attempted_at - job.run_after).total_seconds(), ended.seconds)

    def begin(self, key: tuple[str, str]) -> Tally:
        """Return the tally for what has none yet."""
        return self.tallies.setdefault(key if len(self.tallies) < MOST else OTHERS, Tally())

    def written(self) -> Statement:
        """Return the statement that writes down what was counted, and has new jobs counted."""
        return add({key: tally for key, tally in self.tallies.items() if tally != Tally()})

    def forget(self) -> None:
        """Begin anew, once it is written."""
        self.tallies = {}
