"""When older rows are looked at from the first one on, though claims have passed them."""

from __future__ import annotations

from dataclasses import dataclass

AGAIN_SECONDS = 60.0
"""
How often that is, as far as there are older rows: what was locked when a claim passed it, or came back
without a word, is behind the points.
"""

RESTART_SECONDS = 2.0
"""How often at most a look that is under way begins anew, or it might never come to its end."""

AGAIN_SHARE = 100.0
"""A look waits this many times the duration of a scout of the last one: under 1 % of the time for each."""


@dataclass(slots=True)
class Again:
    """Such looks are due once a minute, and after a notification that names no job: a queue was resumed."""

    at: float | None = None
    asked: bool = False
    restart_not_before: float = 0.0

    def is_due(self, now: float) -> bool:
        """Whether a look is due; then the next one is a minute later."""
        due = self.at is not None and now >= self.at
        if due or self.at is None:
            self.at = now + AGAIN_SECONDS
        return due

    def scouted(self, now: float, seconds: float) -> None:
        """Put the next look off after a scout that took long: it may walk over all that was claimed."""
        if self.at is not None:
            self.at = max(self.at, now + AGAIN_SHARE * seconds)

    def is_restart_due(self, now: float) -> bool:
        """Whether a look under way is to begin anew, since claims found a queue paused meanwhile."""
        due = self.asked and now >= self.restart_not_before
        if due:
            self.asked, self.restart_not_before = False, now + RESTART_SECONDS
        return due
