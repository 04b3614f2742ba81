"""
The states of a job and the moves between them.

`MOVES` is the one table that says which state may follow which. The database's check constraint, the
tests and the diagram in the docs are made from it.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What `Job.state` holds. `BLOCKED` is kept for work that waits for other work."""

    BLOCKED = "BLOCKED"
    READY = "READY"
    RUNNING = "RUNNING"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINAL = frozenset({State.SUCCESSFUL, State.FAILED, State.CANCELLED})
"""States that nothing leaves by itself; only a person moves a job on from here."""

RETRYABLE = frozenset({State.FAILED, State.CANCELLED})
"""Final states from which a person may send a job round again."""

MOVES: dict[State | None, frozenset[State]] = {
    None: frozenset({State.READY, State.BLOCKED}),
    State.BLOCKED: frozenset({State.READY, State.CANCELLED}),
    State.READY: frozenset({State.RUNNING, State.CANCELLED, State.FAILED}),
    State.RUNNING: frozenset({State.READY, State.SUCCESSFUL, State.FAILED, State.CANCELLED}),
    State.SUCCESSFUL: frozenset(),
    State.FAILED: frozenset({State.READY}),
    State.CANCELLED: frozenset({State.READY}),
}
"""Legal moves: from a state (`None` is enqueueing) to the states that may follow it."""


class Kind(StrEnum):
    """What ended a run that did not simply succeed: `Attempt.kind`."""

    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"
    LOST = "LOST"
    SNOOZED = "SNOOZED"
    CANCELLED = "CANCELLED"
    RELEASED = "RELEASED"
    UNKNOWN_TASK = "UNKNOWN_TASK"


class Decision(StrEnum):
    """What was decided when a run ended: `Attempt.decision`."""

    SUCCEEDED = "SUCCEEDED"
    RETRY = "RETRY"
    FAILED = "FAILED"
    SNOOZE = "SNOOZE"
    CANCELLED = "CANCELLED"
    RELEASED = "RELEASED"


FAILURES = frozenset({Kind.ERROR, Kind.TIMEOUT, Kind.LOST, Kind.UNKNOWN_TASK})
"""Kinds that count as a failure of the job; the others are not its fault."""

UNCOUNTED = frozenset({Kind.SNOOZED, Kind.RELEASED})
"""Kinds of runs that are no attempts: neither to `max_attempts` nor to Django's framework."""


class Wish(StrEnum):
    """What a worker can be asked to do: `Worker.asked_to`. In the order of letters, the later one is more."""

    DRAIN = "DRAIN"
    """Claim nothing more, run to their ends what runs, and end."""
    STOP = "STOP"
    """As SIGTERM: the same within the time of grace, then hand back what still runs."""
