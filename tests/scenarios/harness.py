"""Real `manage.py` processes, started, watched, and ended with the test, whatever happens to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from django_jobs.models import Worker, WorkerState
from tests.eventually import eventually

CHECKOUT = Path(__file__).resolve().parent.parent.parent

START_SECONDS = 20.0
"""How long a process may take to be ready: about one second on an idle machine."""


class Process:
    """One `manage.py` command in a session, and so a process group, of its own."""

    def __init__(
        self, words: tuple[str, ...], environment: Mapping[str, str], log: Path, prefix: Sequence[str] = ()
    ) -> None:
        self.words = words
        self.log = log
        self.started_at = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "manage.py", *words],
                cwd=CHECKOUT,
                env={**environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def status(self) -> int | None:
        """The exit status; `None` while it runs."""
        return self.process.poll()

    def said(self) -> str:
        """Return all that it and its children have printed."""
        return self.log.read_text(errors="replace")

    def tell(self, number: signal.Signals, *, group: bool = False) -> float:
        """Send a signal to the process, or to all of its group; return when."""
        (os.killpg if group else os.kill)(self.pid, number)
        return time.monotonic()

    def ends(self, within: float = 15.0) -> int:
        """Wait for the end of the process and return its exit status."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} still runs after {within} s") from None

    def is_ready(self, workers: int = 1, *, listening: bool = True) -> Process:
        """Wait until its workers are registered, and listen; return the process itself."""

        def ready() -> bool:
            assert self.status is None, f"{self} ended with status {self.status}:\n{self.said()}"
            found = self.workers()
            return len(found) == workers and all(w.holds_lock or not listening for w in found)

        eventually(ready, START_SECONDS)
        return self

    def workers(self) -> list[Worker]:
        """Return the rows of its workers that live."""
        pids = [self.pid, *self.children()]
        return list(Worker.objects.filter(pid__in=pids, state=WorkerState.RUNNING).order_by("pk"))

    def children(self) -> list[int]:
        """Return the ids of its worker processes that run."""
        return [pid for pid in members(self.pid) if pid != self.pid]

    def kill(self) -> None:
        """End the process and all of its group, by force."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        eventually(lambda: not members(self.pid))

    def __str__(self) -> str:
        return f"manage.py {' '.join(self.words)} (process {self.pid})"


def members(group: int) -> list[int]:
    """Return the ids of the processes of a group, without those that have ended and wait to be reaped."""
    shown = subprocess.run(
        ["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    rows = [line.split() for line in shown if line.strip()]
    return [int(pid) for pid, pgid, stat in rows if int(pgid) == group and not stat.startswith("Z")]


class Processes:
    """Starts `manage.py` commands on one database, and ends them."""

    def __init__(self, folder: Path, database: Mapping[str, str]) -> None:
        self.folder = folder
        self.database = dict(database)
        self.started: list[Process] = []

    def environment(self, settings: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process: the scenarios' settings, changed by `settings`."""
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.scenarios.settings",
            "PYTHONUNBUFFERED": "1",
            "PYTHONWARNINGS": "error",
            "SCENARIO_FOLDER": str(self.folder),
            "SCENARIO_JOBS": json.dumps(settings),
            **self.database,
            **variables,
        }

    def manage(
        self,
        *words: str,
        settings: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> Process:
        """Start a `manage.py` command, run by the command `prefix` where one is given."""
        log = self.folder / f"{len(self.started)}.log"
        process = Process(words, self.environment(settings or {}, variables or {}), log, prefix)
        self.started.append(process)
        return process

    def __call__(self, *words: str, **options: Any) -> Process:
        """Start `runjobs` with INFO logs."""
        return self.manage("runjobs", "--verbosity=2", *words, **options)

    def open(self, key: str) -> None:
        """Open a gate that bodies wait for."""
        (self.folder / f"gate-{key}").touch()

    def close(self) -> None:
        """End all that was started."""
        for process in self.started:
            process.kill()

    def told(self) -> list[tuple[str, str]]:
        """Return for each process what it is, and what it said."""
        return [
            (f"{process}, status {process.status}", process.said()[-6000:] or "(nothing)")
            for process in self.started
        ]
