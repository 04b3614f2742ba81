"""
The values that cross a layer or a thread: what is enqueued, what is claimed, what a run came to.

Everything here is a small dataclass that nobody changes. `Outcome` is a closed union: `match` on it, so that
a new case shows every place that must answer it. Those that are made for each job or run aren't frozen, since
Python takes 7 µs to make a frozen one of 14 fields, and half a microsecond to make the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django_jobs.core.states import Kind, Wish


@dataclass(slots=True, kw_only=True)
class NewJob:
    """One job to insert. `args`, `kwargs` and `meta` are JSON text."""

    queue_name: str
    task_path: str
    args: str
    kwargs: str
    priority: int
    run_after: datetime | timedelta | None
    """An instant, a delay from now by the database's clock, or `None` for at once."""
    max_attempts: int | None
    """Runs that may fail before the job does; `None` for no limit."""
    meta: str


@dataclass(slots=True)
class Inserted:
    """What the database made of a `NewJob`; both times are its own."""

    id: int
    enqueued_at: datetime
    run_after: datetime


@dataclass(slots=True)
class ClaimedJob:
    """One job as its worker gets it. Fields are in the order in which the claim returns its columns."""

    id: int
    queue_name: str
    task_path: str
    call: str
    """JSON text `[args, kwargs]`, decoded once, just before the body runs."""
    attempt: int
    """Number of this claim; the fence that a later write must name."""
    uncounted: int
    """Claims before this one that don't count against `max_attempts`."""
    max_attempts: int | None
    priority: int
    run_after: datetime
    enqueued_at: datetime
    started_at: datetime
    """Start of the first run."""
    last_attempted_at: datetime
    """Start of this run."""
    meta: str | None
    """JSON text of the free-form facts; `None` for none."""
    past: list[dict[str, Any]] | None
    """Earlier runs, oldest first, as `store.claim` brings them; `None` on the first."""

    @property
    def counted_attempt(self) -> int:
        """The attempt number that users see: 1 on the first run, whatever was handed back before."""
        return self.attempt - self.uncounted


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """An exception as text: dotted class path, message and traceback, each cut to the limit in force."""

    exception_class: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The body returned. `return_value` is JSON text, `None` for nothing worth storing."""

    return_value: str | None
    keep: timedelta | None
    """How long the finished row stays; zero deletes it at once, `None` keeps it for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """The run failed and another attempt is due after `after`."""

    kind: Kind
    trace: Trace
    after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run failed and the job with it: it waits for a person."""

    kind: Kind
    trace: Trace
    keep: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """The body asked to run again later; the run doesn't count."""

    after: timedelta
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The run gave up because the job was cancelled, or the body cancelled it."""

    reason: str
    keep: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The worker hands the job back; the run doesn't count. `started` says whether its body had begun."""

    started: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What a run logged and asked of databases. `lines` is JSON text, a list of lists."""

    lines: str
    """Time in seconds since 1970, level, logger and text of each."""
    cut: int
    """Lines that are missing, after the first `cut_at`."""
    cut_at: int
    queries: int | None
    """`None` where they weren't counted."""
    query_seconds: float | None


Outcome = Completed | Retried | Failed | Snoozed | Cancelled | Released


@dataclass(slots=True)
class Ended:
    """A run that ended: the job, its outcome, and the exception behind it for the signals' receivers."""

    job: ClaimedJob
    outcome: Outcome
    exception: BaseException | None = None
    stored: bool = False
    """True when the outcome was committed together with the body's own writes (`transactional=True`)."""
    seconds: float = 0.0
    """How long the body ran."""
    result: Any = field(default=None, compare=False)
    """The `TaskResult` that was built when the run started, where anyone needed one."""
    captured: Captured | None = None
    """What the run logged and asked of databases, where its task wants that kept."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A place in the order of one queue and priority: rows after it are due later or were inserted later."""

    run_after: datetime
    id: int


@dataclass(frozen=True, slots=True)
class Wake:
    """One entry of a notification: jobs of this queue and priority are there from `run_after` on."""

    queue_name: str
    priority: int
    run_after: datetime
    is_async: bool | None = None
    """Whether they run on the event loop or in threads; `None` when that isn't known."""

    @property
    def place(self) -> tuple[str, int, bool | None]:
        """What is told of once, with the earliest due time."""
        return self.queue_name, self.priority, self.is_async


@dataclass(frozen=True, slots=True)
class Asked:
    """What someone asked a worker to do, as its row says."""

    wish: Wish
    all_processes: bool
    """Whether all processes of its `runjobs` are meant, which then ends with them; otherwise its supervisor
    replaces the one."""
    by: str

    def adds_to(self, before: Asked) -> bool:
        """Whether it asks for more than what was asked `before`."""
        return self.wish > before.wish or (self.all_processes and not before.all_processes)
