"""
Running jobs in a test: in its thread, on its connection, in its transaction.

A job takes the way it takes in a worker: the claim's and the finish's statements, the `Executor`, signals and
log lines. What a test has no use for is left out: threads, heartbeats, notifications. So nothing is
committed that the test doesn't commit, and no database session is left over.

A call takes place at one moment, by default the database's time at its start. Everything in it happens at
that moment: a job that is due a microsecond later doesn't run, however slow the machine.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from types import TracebackType

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from django.utils import timezone

from django_jobs import conf
from django_jobs.core.records import ClaimedJob, Ended, Failed, Retried
from django_jobs.discovery import discover
from django_jobs.exceptions import Cancel, Retry, Snooze
from django_jobs.store import claim, finish, moment, workers
from django_jobs.store.cursor import Rows, Statement, run
from django_jobs.tasks import QUERIES, registry
from django_jobs.testing.sheltering import is_aborted, leave, take_shelter
from django_jobs.worker import capturing
from django_jobs.worker.announcer import announce
from django_jobs.worker.executor import Executor
from django_jobs.worker.process import rules_of

MOST_RUNS = 10_000
"""Runs after which a call without a limit is given up: some job comes back for ever."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a call ran, in order. True when it ran anything; `len()` is the number of runs."""

    runs: tuple[Ended, ...]
    """One for each run: `job`, `outcome` (see `core.records.Outcome`), `exception`."""
    moment: datetime
    """When all this was, as far as the queue can tell; after a `drain`, the moment of its last runs."""

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def counts(self) -> Counter[str]:
        """Runs by outcome: completed, retried, failed, snoozed, cancelled, released."""
        return Counter(type(ended.outcome).__name__.lower() for ended in self.runs)

    @property
    def completed(self) -> int:
        return self.counts["completed"]

    @property
    def retried(self) -> int:
        """Runs that failed and are followed by another."""
        return self.counts["retried"]

    @property
    def failed(self) -> int:
        """Runs after which the job failed for good."""
        return self.counts["failed"]

    @property
    def snoozed(self) -> int:
        return self.counts["snoozed"]

    @property
    def cancelled(self) -> int:
        return self.counts["cancelled"]

    @property
    def failures(self) -> list[Ended]:
        """The runs that failed, retried or not, each with its `exception`."""
        return [ended for ended in self.runs if isinstance(ended.outcome, Failed | Retried)]

    def __str__(self) -> str:
        counts = ", ".join(f"{number} {name}" for name, number in sorted(self.counts.items()))
        lines = [f"{len(self)} runs: {counts}" if self.runs else "nothing ran"]
        for ended in self.failures:
            lines.append(f"  job {ended.job.id} {ended.job.task_path}: {ended.exception!r}")
        return "\n".join(lines)


class TooManyRuns(AssertionError):
    """A call ran more jobs than any test means to."""


def run_due(
    at: datetime | timedelta | None = None,
    *,
    queue: str | Iterable[str] | None = None,
    limit: int | None = None,
    raise_errors: bool = False,
    using: str | None = None,
) -> Ran:
    """
    Run the jobs that are due, those that they enqueue to run at once included, and return what they came to.

    `at` is the moment at which this happens, or how far from now: jobs scheduled until then run, and a retry
    counts its delay from there. A retry is due again in a later call, with an `at` that says so. `queue` is
    one name or several, `limit` the most runs. With `raise_errors` the first exception of a body ends the
    call and is raised, once its outcome is stored; what a body says with Retry, Snooze or Cancel is no error.

    Timeouts aren't enforced: let a body raise `JobTimeout` to see what follows from one.
    """
    with Session(using, queue, limit) as session:
        session.begin(at)
        error = session.run(raise_errors=raise_errors)
    if error is not None:
        raise error
    return session.ran


def drain(
    at: datetime | timedelta | None = None,
    *,
    queue: str | Iterable[str] | None = None,
    limit: int | None = None,
    scheduled: bool = False,
    raise_errors: bool = False,
    using: str | None = None,
) -> Ran:
    """
    Run the jobs that are due, then their retries, moving time forward to each, until none waits.

    Nothing is waited for. Snoozed jobs run again too; what was scheduled for later runs with
    `scheduled=True`. The other arguments are those of `run_due`.
    """
    with Session(using, queue, limit) as session:
        session.begin(at)
        error = session.run(raise_errors=raise_errors)
        while error is None and session.move_on(scheduled=scheduled):
            error = session.run(raise_errors=raise_errors)
    if error is not None:
        raise error
    return session.ran


arun_due = sync_to_async(run_due, thread_sensitive=True)
"""`run_due` for async tests."""

adrain = sync_to_async(drain, thread_sensitive=True)
"""`drain` for async tests."""


class Session:
    """One call's stay in the database: a worker that lives as long as the call."""

    def __init__(
        self, using: str | None = None, queue: str | Iterable[str] | None = None, limit: int | None = None
    ) -> None:
        discover_tasks()
        self.settings = conf.current()
        self.alias = using or conf.database()
        self.queues = None if queue is None else [queue] if isinstance(queue, str) else list(queue)
        self.limit = limit
        self.runs: list[Ended] = []
        self.newest = 0
        self.connection = connections[self.alias]
        self.executor = Executor(
            rules_of(self.settings, self.alias),
            worker=lambda: self.worker,
            is_cancelled=self.is_cancelled,
            settle=self.settle,
        )

    def __enter__(self) -> Session:
        from django_jobs.models import (
            clock,  # not at import: test backends are made before the apps are loaded
        )

        self.moment = clock(self.alias)
        [[self.worker, _]] = self.ask(workers.register(registration()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not (self.connection.needs_rollback or is_aborted(self.connection)):
            self.ask(workers.sign_off(self.worker, "the test's call ended"))
        if capturing.running.get() is None:
            capturing.stop_listening()

    @property
    def ran(self) -> Ran:
        return Ran(tuple(self.runs), self.moment)

    # Time

    def begin(self, at: datetime | timedelta | None) -> None:
        """Move to the moment of the call."""
        if isinstance(at, timedelta):
            self.moment += at
        elif at is not None:
            if timezone.is_naive(at) and timezone.is_aware(self.moment):
                raise ValueError(f"at={at!r} has no time zone, but USE_TZ is on: make it aware.")
            self.moment = at
        [[self.newest]] = self.ask(moment.newest())

    def move_on(self, *, scheduled: bool) -> bool:
        """Move to the moment at which the next job is due; return whether there is one."""
        [[due]] = self.ask(moment.next_due(self.queues, list(registry), scheduled=scheduled))
        if due is None or self.is_full:
            return False
        self.moment = due
        return True

    # Running

    @property
    def is_full(self) -> bool:
        return self.limit is not None and len(self.runs) >= self.limit

    def run(self, *, raise_errors: bool) -> BaseException | None:
        """Run what is due; return the error that is to be raised."""
        while not self.is_full:
            jobs = self.claim_next()
            if not jobs:
                break
            if len(self.runs) >= MOST_RUNS:
                raise TooManyRuns(
                    f"{MOST_RUNS} runs, and job {jobs[0].id} {jobs[0].task_path} is due: does it retry, "
                    "snooze or enqueue itself for ever? Say limit=… to run so many."
                )
            error = self.run_one(jobs[0]).exception
            if isinstance(error, KeyboardInterrupt):
                return error  # the one who runs the tests wants them to end
            if raise_errors and error is not None and not isinstance(error, Retry | Snooze | Cancel):
                return error
        return None

    def claim_next(self) -> list[ClaimedJob]:
        """Claim the best job that is due, as a worker with one slot would."""
        self.ask(moment.bring_up(self.newest))
        places = [
            place
            for place in claim.surveyed(self.ask(claim.survey()))
            if place.due_in <= 0 and (self.queues is None or place.queue_name in self.queues)
        ]
        places.sort(key=lambda place: (-place.priority, place.due_in))
        names = dict.fromkeys(place.queue_name for place in places)
        if not names:
            return []
        rooms = [claim.Room(name, 1) for name in names]
        return claim.claimed(self.ask(claim.claim(self.worker, rooms, registry, 1)))

    def claim_one(self, id: int) -> list[ClaimedJob]:  # noqa: A002  (as the model has it)
        """Claim one job if it is due."""
        return claim.claimed(self.ask(moment.claim_one(self.worker, id)))

    def run_one(self, job: ClaimedJob) -> Ended:
        """Run one claimed job, write what it came to, and have it announced."""
        shelters = take_shelter()
        if registry[job.task_path].is_async:
            counts = QUERIES in registry[job.task_path].captures
            with capturing.counting() if counts else nullcontext():  # in the thread of its connections
                ended = async_to_sync(self.executor.run_async)(job)
        else:
            ended = self.executor.run(job)
        try:
            leave(shelters)
        except Exception as error:  # noqa: BLE001  (an on_commit function's; in a worker, the body's own)
            if not ended.stored:
                ended = replace(ended, outcome=self.executor.outcome_of(job, error), exception=error)
        ended = self.conclude(ended)
        self.runs.append(ended)
        return ended

    def conclude(self, ended: Ended) -> Ended:
        """Write an outcome and have it announced; return it as it was stored."""
        rows: list[Sequence[object]] = [(ended.job.id,)] if ended.stored else self.finish(ended)
        if not rows:
            return ended  # the body deleted its own row, or changed its state: there is nothing to tell
        ended = finish.as_stored(ended, rows[-1])
        shelters = take_shelter()
        announce(ended, self.alias)
        leave(shelters)
        return ended

    def finish(self, ended: Ended) -> list[Sequence[object]]:
        """Write an outcome; return the rows that were written."""
        statements = finish.finish(self.worker, [ended], keep_cancelled=self.settings.keep_failed)
        return [row for statement in statements for row in self.ask(statement)]

    def settle(self, ended: Ended) -> bool:
        """Write an outcome in the open transaction of a transactional body."""
        return bool(self.finish(ended))

    def is_cancelled(self, job_id: int) -> bool:
        """
        Whether someone asked to cancel a running job.

        Asked past Django's wrapper, since an async body is on another thread than the test's connection.
        """
        if is_aborted(self.connection):
            return False
        with self.connection.connection.cursor() as cursor:
            return bool(run(cursor, moment.cancel_requested(job_id))[0][0])

    def ask(self, statement: Statement) -> Rows:
        """Run one statement at the call's moment, in the test's transaction or one of its own."""
        with transaction.atomic(using=self.alias), self.connection.cursor() as cursor:
            return run(cursor, moment.at(statement, self.moment))


@cache
def discover_tasks() -> None:
    """Import the tasks of all apps, as a worker does."""
    discover()


def registration() -> workers.Registration:
    """Return what the worker of a call says of itself."""
    return workers.Registration(
        name="test",
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=None,
        excluded_queues=(),
        tasks=(),
        threads=1,
        async_slots=1,
        versions={},
    )
