"""The load, and what is done to those who work on it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
from django.db import Error as DatabaseError
from django.db import connections, transaction

from benchmarks.soak import tasks
from benchmarks.soak.accounting import violations
from tests.eventually import eventually
from tests.scenarios.harness import Process, Processes, members
from tests.scenarios.servers import OwnServer

SETTINGS = {
    "heartbeat_seconds": 0.5,
    "dead_after_seconds": 4.0,
    "rescue_seconds": 0.3,
    "poll_seconds": 2.0,
    "keep_successful": None,
    "keep_failed": None,
    "shutdown_seconds": 2.0,
}
BACKLOG = 150
"""Unfinished jobs that are kept in the queue."""
CALM_SECONDS = 120.0
"""How long all may take to come to its end once nothing is broken any more."""


class Soak:
    """Workers under attack. What may end them, ends them; every command that is gone is started again."""

    commands = (
        ("--processes", "2", "--threads", "4", "--async-slots", "4"),
        ("--processes", "2", "--threads", "2", "--async-slots", "2"),
        ("--threads", "4", "--async-slots", "4"),
    )

    def __init__(self, server: OwnServer, folder: Path, chance: random.Random) -> None:
        self.server = server
        self.url = server.url
        self.chance = chance
        self.choices = random.Random(chance.random())
        """The load's own, since it is made by another thread."""
        self.starter = Processes(folder, {"DATABASE_URL": server.url})
        self.running: list[Process] = []
        self.acked: list[int] = []
        self.did: Counter[str] = Counter()
        self.over = threading.Event()
        self.stopped: dict[int, float] = {}
        """Processes that are stopped, and when they may go on."""

    def run(self, seconds: float) -> int:
        """Soak, account, and return the exit status."""
        for words in self.commands:
            self.running.append(self.start(words))
        load = threading.Thread(target=self.load, name="load", daemon=True)
        load.start()
        deadline = time.monotonic() + seconds
        crash_at = time.monotonic() + self.chance.uniform(10, 40)
        while time.monotonic() < deadline:
            time.sleep(self.chance.uniform(0.05, 0.6))
            self.tend()
            if time.monotonic() >= crash_at:
                self.crash_server()
                crash_at = time.monotonic() + self.chance.uniform(30, 90)
            else:
                self.chance.choices(*zip(*self.troubles(), strict=True))[0]()
        self.over.set()
        load.join(30)
        return self.account(seconds)

    def start(self, words: tuple[str, ...]) -> Process:
        self.did["commands started"] += 1
        return self.starter(*words, settings=SETTINGS, variables={"PYTHONWARNINGS": "default"})

    def troubles(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self.kill_child, 60),
            (self.kill_command, 5),
            (self.kill_parent, 3),
            (self.end_command, 5),
            (self.stop_process, 5),
            (self.cut_session, 10),
            (self.cut_all_sessions, 3),
        ]

    def tend(self) -> None:
        """Let stopped processes go on whose time is over, and start what has ended."""
        for pid, until in list(self.stopped.items()):
            if time.monotonic() >= until:
                del self.stopped[pid]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        for number, process in enumerate(self.running):
            if process.status is not None:
                # -15: told to end before Python had come as far as to listen.
                if process.status not in (0, 3, -signal.SIGKILL, -signal.SIGTERM):
                    self.did[f"ended with status {process.status}"] += 1
                    print(
                        f"a command ended with status {process.status}:\n{process.said()[-1500:]}", flush=True
                    )
                self.running[number] = self.start(self.commands[number])

    # Troubles

    def pids(self, process: Process) -> list[int]:
        return process.children() or [process.pid]

    def kill(self, pid: int, kind: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.did["kills"] += 1
            self.did[kind] += 1

    def kill_child(self) -> None:
        self.kill(self.chance.choice(self.pids(self.chance.choice(self.running[:2]))), "children killed")

    def kill_parent(self) -> None:
        self.kill(self.chance.choice(self.running).pid, "parents killed")

    def kill_command(self) -> None:
        process = self.chance.choice(self.running)
        for pid in members(process.pid):
            self.kill(pid, "killed with their whole command")

    def end_command(self) -> None:
        self.did["SIGTERMs"] += 1
        process = self.chance.choice(self.running)
        with suppress(ProcessLookupError):
            process.tell(signal.SIGTERM, group=self.chance.random() < 0.5)

    def stop_process(self) -> None:
        pid = self.chance.choice(self.pids(self.chance.choice(self.running)))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self.did["SIGSTOPs"] += 1
            self.stopped[pid] = time.monotonic() + self.chance.uniform(0.5, 8.0)

    def cut_session(self) -> None:
        self.cut("ORDER BY random() LIMIT 1", "single sessions cut")

    def cut_all_sessions(self) -> None:
        self.cut("", "all sessions cut")

    def cut(self, which: str, kind: str) -> None:
        with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                f" AND backend_type = 'client backend' {which}) AS session"
            )
            self.did[kind] += 1

    def crash_server(self) -> None:
        self.server.crash()
        time.sleep(self.chance.uniform(0, 4))
        self.server.start()
        self.did["crashes of the server"] += 1

    # Load

    def load(self) -> None:
        """Keep the queue filled; only what was answered is acknowledged."""
        while not self.over.is_set():
            try:
                self.fill()
            except (DatabaseError, psycopg.Error):
                self.did["enqueues that failed"] += 1
                connections["default"].close()
            time.sleep(0.05)
        connections.close_all()

    def fill(self) -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT count(*) FROM django_jobs_job WHERE state IN ('READY', 'RUNNING')")
            missing = BACKLOG - int(cursor.fetchone()[0])
        chance = self.choices
        for _ in range(min(missing, 20)):
            kind = chance.random()
            seconds = chance.choice([0, 0.001, 0.01, 0.05, 0.2])
            if kind < 0.4:
                made = [tasks.work.enqueue(seconds)]
            elif kind < 0.55:
                made = [tasks.work_async.enqueue(seconds)]
            elif kind < 0.75:
                made = [tasks.transfer.enqueue(seconds)]
            elif kind < 0.8:
                made = [tasks.fail_sometimes.enqueue(chance.randint(0, 3))]
            elif kind < 0.802:
                made = [tasks.deadly.enqueue(chance.randint(1, 5))]
            else:
                with transaction.atomic():
                    made = [tasks.work.enqueue(seconds) for _ in range(chance.randint(1, 5))]
            self.acked += [int(result.id) for result in made]

    # Accounting

    def account(self, seconds: float) -> int:
        """Let all come to its end, and check what must hold."""
        for pid in list(self.stopped):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        broken: list[str] = []
        connections["default"].close()  # this thread's was cut with all others
        with psycopg.connect(self.url, autocommit=True) as connection:

            def calm() -> bool:
                self.tend()
                row = connection.execute(
                    "SELECT count(*) FROM django_jobs_job WHERE finished_at IS NULL"
                ).fetchone()
                return row is not None and row[0] == 0

            began = time.monotonic()
            with suppress(AssertionError):
                eventually(calm, CALM_SECONDS)
            self.did["seconds until all had ended"] = round(time.monotonic() - began)
            broken += violations(connection, self.acked)
            broken += self.strength(connection)
            for state, count in connection.execute("SELECT state, count(*) FROM soak_ending GROUP BY state"):
                self.did[f"jobs {state.lower()}"] = count
            for kind, count in connection.execute(
                "SELECT kind, count(*) FROM django_jobs_attempt GROUP BY kind"
            ):
                self.did[f"attempts {kind.lower()}"] = count
        for process in self.running:
            process.tell(signal.SIGTERM)
        for process in self.running:
            if process.ends(30) not in (0, 3):
                broken.append(f"{process} ended with status {process.status} on SIGTERM")
        self.starter.close()
        for name, number in sorted(self.did.items()):
            print(f"  {number:8}  {name}")
        print(f"{len(self.acked)} jobs acknowledged, {self.did['kills']} kills in {seconds / 60:g} minutes")
        lost = sum("gone" in text or "no end" in text for text in broken)
        twice = sum("twice" in text for text in broken)
        print(f"lost: {lost or 'none'}, ended twice: {twice or 'none'}")
        for text in broken:
            print(f"BROKEN: {text}")
        return 1 if broken else 0

    def strength(self, connection: psycopg.Connection[tuple[object, ...]]) -> list[str]:
        """Return what isn't as it was: processes, sessions, zombies."""
        broken = []
        for process, count in zip(self.running, (2, 2, 1), strict=True):
            try:
                process.is_ready(count)
            except AssertionError as error:
                broken.append(f"not at full strength: {error}")
            zombies = zombies_of(process.pid)
            broken += [f"{zombies} zombies under {process}"] if zombies else []
        most = sum(2 * (2 + t + 1 + 1) for t in (4, 2)) + 2 + 4 + 1 + 1  # docs/how-to/deploy.md
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
        if row is None or int(str(row[0])) > most:
            broken.append(f"{row} sessions, and at most {most} are documented")
        return broken


def zombies_of(group: int) -> int:
    """Return how many processes of a group have ended and were not reaped."""
    stats = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just gone
            stats.append(path.read_text().rpartition(")")[2].split())
    return sum(stat[0] == "Z" and int(stat[2]) == group for stat in stats)
