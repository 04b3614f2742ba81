"""Telling the demo: chapters and sentences, what is expected of the product, and waiting for facts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from example_project.demo.processes import Processes

T = TypeVar("T")

PAUSE_SECONDS = 0.05
"""Between two looks at a fact."""

PATIENCE_SECONDS = 90.0
"""Longest wait for one fact: far more than it takes, for slow machines."""

LOG_LINES = 15
"""How much of each process' log a failure shows."""


class Unmet(Exception):
    """Something the demo expects isn't so; the message names it."""


class Story:
    """Writes the story, and stops it at the first expectation that isn't met."""

    def __init__(self, write: Callable[[str], Any], processes: Processes) -> None:
        self.write = write
        self.processes = processes
        self.met = 0
        self.started = time.monotonic()

    def chapter(self, title: str) -> None:
        self.write(f"\n{title}")

    def say(self, *lines: str) -> None:
        for line in lines:
            self.write(f"  {line}")

    def expect(self, fact: object, expectation: str) -> None:
        """Raise Unmet unless `fact` is true."""
        if not fact:
            raise Unmet(expectation)
        self.met += 1

    def wait_for(self, fact: Callable[[], T], expectation: str, seconds: float = PATIENCE_SECONDS) -> T:
        """Return what `fact` gives once it is true. Raises Unmet if it takes too long or a process ends."""
        deadline = time.monotonic() + seconds
        while not (found := fact()):
            for process in self.processes.ended():
                raise Unmet(f"{process.name} runs on (it ended with status {process.status})")
            if time.monotonic() > deadline:
                raise Unmet(f"{expectation} (within {seconds:.0f} s)")
            time.sleep(PAUSE_SECONDS)
        self.met += 1
        return found

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def logs(self) -> str:
        """Return the end of what each process printed, for a failure."""
        return "".join(
            f"\n--- {process.name}: manage.py {' '.join(process.command)}\n"
            + "\n".join(process.said().splitlines()[-LOG_LINES:])
            for process in self.processes.started
        )
