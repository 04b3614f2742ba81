"""
The only loop: tick, wait for a wake-up or a deadline, and back off when a tick fails.

The dispatcher, the listener and the supervisor each are one `Loop` with a tick of their own.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from time import sleep

logger = logging.getLogger("django_jobs")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds of the first and of the longest wait after a tick that failed."""


class Loop:
    """
    Calls `tick` until it returns `None` or the loop is stopped.

    A tick returns the seconds until it wants to be called again; `wait` may return sooner. When either raises
    one of `passing`, the error is logged once for each streak of failures, and the next tick comes after a
    pause that doubles, with jitter, up to two seconds; `reset` is called to drop what may be broken. Any
    other error ends the loop: it is a fault of ours, and going on might lose jobs.
    """

    def __init__(
        self,
        name: str,
        *,
        tick: Callable[[], float | None],
        wait: Callable[[float], None],
        passing: tuple[type[BaseException], ...],
        reset: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.tick = tick
        self.wait = wait
        self.passing = passing
        self.reset = reset
        self.failures = 0
        self.error: BaseException | None = None
        """What ended the loop, if it wasn't asked to stop."""

    def run(self) -> None:
        """Run until the tick says that there is nothing more to do."""
        try:
            while self.turn():
                pass
        except BaseException as error:  # noqa: BLE001  (kept for whoever waits for this loop)
            self.error = error

    def turn(self) -> bool:
        """Tick and wait once; return whether to go on. Raises what ends the loop."""
        try:
            pause = self.tick()
            if pause is not None:
                self.wait(0.0 if self.failures else pause)  # after a streak, its end is told at once
        except self.passing as error:
            self.rest(self.pause_after(error))
            return True
        if self.failures:
            logger.info("%s works again after %d failures", self.name, self.failures)
        self.failures = 0
        return pause is not None

    def rest(self, seconds: float) -> None:
        """Wait after a failure, also where waiting is what fails."""
        try:
            self.wait(seconds)
        except self.passing as error:
            logger.debug("%s: could not wait: %s", self.name, one_line(error))
            sleep(seconds)

    def pause_after(self, error: BaseException) -> float:
        """Log the first failure of a streak, drop what may be broken, and return how long to wait."""
        self.failures += 1
        if self.failures == 1:
            logger.warning("%s: %s; trying again", self.name, one_line(error))
        else:
            logger.debug("%s: failure %d: %s", self.name, self.failures, one_line(error))
        try:
            self.reset()
        except self.passing as worse:
            logger.debug("%s: what failed could not be dropped: %s", self.name, one_line(worse))
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self.failures - 1, 10))
        return random.uniform(longest / 2, longest)  # noqa: S311  (no secret)


def one_line(error: BaseException) -> str:
    """Return an error as one line for a log: a server's without its details, which quote rows and values."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    text = " ".join(str(primary or error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
