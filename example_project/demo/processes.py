"""The shop's own processes, as one would start them by hand: the web server and the workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

SECONDS_TO_END = 15.0
"""How long a process may take to end by itself when it was asked to."""


class Process:
    """A `manage.py` command that runs beside us and ends with us, however that happens."""

    def __init__(self, name: str, *command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.command = command
        self.log = folder / f"{command[0]}.log"
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        tether = [sys.executable, "-m", "example_project.demo.tether", str(SECONDS_TO_END)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*tether, sys.executable, str(settings.BASE_DIR / "manage.py"), *self.command],
                cwd=settings.BASE_DIR,
                env={**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the terminal's Ctrl-C is for us alone
            )

    @property
    def status(self) -> int | None:
        """The exit status, or `None` while it runs."""
        return self.process.poll() if self.process else None

    def said(self) -> str:
        """Return all it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def found(self, pattern: str) -> str:
        """Return the first group of `pattern` in what it has printed, or nothing."""
        found = re.search(pattern, self.said())
        return found[1] if found else ""

    def stop(self) -> int | None:
        """Have it end by itself, or end it after a while, and return its status."""
        if self.process is None:
            return None
        if self.process.stdin:
            self.process.stdin.close()
        try:
            return self.process.wait(SECONDS_TO_END + 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Processes:
    """Processes that are stopped together, the last one first."""

    def __init__(self) -> None:
        self.started: list[Process] = []

    def start(self, process: Process) -> Process:
        self.started.append(process)
        process.start()
        return process

    def ended(self) -> list[Process]:
        """Return those that don't run any more."""
        return [process for process in self.started if process.status is not None]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: Any) -> None:
        for process in reversed(self.started):
            process.stop()
