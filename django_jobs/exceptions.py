"""
What a body may raise to speak to the queue, and what callers may have to catch.

The first four are a body's words to its worker; raising one is not an error. The rest are errors of ours,
all of them `JobsError`s.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from difflib import get_close_matches

from django_jobs.core.backoff import LONGEST


class Signal(Exception):
    """Base of what a body raises to tell its worker how the run ended. Don't raise it directly."""


def seconds_or_delta(after: timedelta | float | None, name: str) -> timedelta | None:
    """Return `after` as a timedelta; a bare number counts seconds. Raises TypeError or ValueError."""
    delta: timedelta | None
    if after is None or isinstance(after, timedelta):
        delta = after
    elif type(after) in (int, float):
        try:
            delta = timedelta(seconds=after)
        except (OverflowError, ValueError):
            delta = timedelta.max
    else:
        raise TypeError(f"{name}(after=…) takes a timedelta or seconds, not {after!r}.")
    if delta is not None and not timedelta(0) <= delta <= LONGEST:
        raise ValueError(f"{name}(after=…) takes a delay from zero to {LONGEST.days} days, not {after!r}.")
    return delta


class Retry(Signal):
    """This run failed: try again after `after` (timedelta or seconds; `None` for the task's backoff)."""

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        self.after = seconds_or_delta(after, "Retry")
        self.reason = reason
        super().__init__(reason or "The task asked for another attempt.")


class Fail(Signal):
    """This run failed and no other attempt can help: the job waits for a person."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task failed itself.")


class Snooze(Signal):
    """Not now: run again after `after` (timedelta or seconds). The run doesn't count as an attempt."""

    def __init__(self, after: timedelta | float, reason: str = "") -> None:
        delta = seconds_or_delta(after, "Snooze")
        if delta is None:
            raise TypeError("Snooze(after=…) takes a timedelta or seconds, not None.")
        self.after = delta
        self.reason = reason
        super().__init__(reason or f"The task asked to run again in {delta}.")


class Cancel(Signal):
    """The work is no longer wanted: the job ends as cancelled and isn't retried."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task cancelled itself.")


class JobsError(Exception):
    """Base class of the errors that django_jobs raises."""


class JobTimeout(JobsError):
    """Raised inside a body that ran past its timeout."""


class WorkerLost(JobsError):
    """The worker of a run died or lost its connection for too long; recorded, never raised into a body."""


class UnknownTask(JobsError):
    """A job names a task that no worker's code has; recorded, never raised into a body."""


class ClaimLost(JobsError):
    """The job was taken over by another worker while its transactional body ran; all of it is rolled back."""


class UnknownQueue(JobsError):
    """A name that no queue can have."""


class UnknownSetting(JobsError):
    """A key of DJANGO_JOBS or of a backend's OPTIONS that doesn't exist, or a value it can't take."""


class UnloadableTasks(JobsError):
    """A module with tasks ended the process while it was imported, by `sys.exit` for instance."""

    def __init__(self, module: str, code: object) -> None:
        super().__init__(
            f"The module {module!r} called sys.exit({code!r}) while its tasks were loaded. "
            "Move what ends the process into a function."
        )


def suggestion(name: str, known: Collection[str]) -> str:
    """Return ` Did you mean 'x'?`, or the list of what is known, ready to end an error message."""
    close = get_close_matches(name, known, n=1) or get_close_matches(name.lower(), known, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    if not known:
        return ""
    return f" Known are: {', '.join(sorted(known))}."
