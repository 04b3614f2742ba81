"""The figures of docs/reliability.md: how long it takes until all is as it was."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from django.db import connections
from django.utils import timezone

from django_jobs.models import Job, StateChoices
from tests.eventually import eventually
from tests.scenarios import facts, tasks
from tests.scenarios.harness import Process, Processes
from tests.scenarios.marks import TABLE
from tests.scenarios.proxy import Proxy
from tests.scenarios.servers import OwnServer

TWO = ("--processes", "2", "--threads", "2")
PATIENT = ("--poll-interval", "600")


class Bench:
    """Workers for one figure at a time."""

    def __init__(self, server: OwnServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.starter = Processes(folder, {"DATABASE_URL": server.url})
        facts.rows(TABLE)

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Begin with empty tables and end what was started."""
        facts.rows("TRUNCATE django_jobs_job, django_jobs_attempt, django_jobs_worker, scenario_mark")
        for gate in self.folder.glob("gate-*"):
            gate.unlink()
        self.starter.started.clear()
        try:
            yield
        finally:
            self.starter.close()
            connections["default"].close()

    def start(self, *words: str, count: int = 1, listening: bool = True, **settings: Any) -> Process:
        return self.starter(*words, settings=settings).is_ready(count, listening=listening)

    # Figures, each in seconds

    def killed_machine(self) -> float:
        """From SIGKILL of a whole command to its jobs' bodies beginning elsewhere."""
        victim = self.start(*TWO, count=2)
        self.start("--threads", "4")
        results = [tasks.held.enqueue("a") for _ in range(3)]
        facts.begun("a", 3)
        mine = {mark.job for mark in facts.marks("begin", "a") if mark.pid in victim.children()}
        return (
            self.until_begun_again(lambda: victim.tell(signal.SIGKILL, group=True), mine)
            if mine
            else (self.again(results))
        )

    def again(self, results: list[Any]) -> float:
        raise RuntimeError(f"none of {len(results)} jobs was claimed by the victim; run it again")

    def killed_newcomers_neighbour(self) -> float:
        """The same, where the other worker started a second before."""
        victim = self.start("--exclude-queue", "default")
        tasks.send.enqueue("a")
        facts.begun("a")
        self.start("--threads", "4")
        [mark] = facts.marks("begin", "a")
        return self.until_begun_again(lambda: victim.tell(signal.SIGKILL), {mark.job})

    def killed_without_locks(self) -> float:
        """The same without a listener, with the default `dead_after_seconds` of 30."""
        victim = self.start("--no-listen", "--poll-interval", "0.5", listening=False)
        tasks.held.enqueue("a")
        [mark] = facts.begun("a")
        self.start("--no-listen", "--poll-interval", "0.5", listening=False)
        return self.until_begun_again(lambda: victim.tell(signal.SIGKILL), {mark.job}, 60)

    def killed_child(self) -> float:
        """From SIGKILL of one of two processes to its jobs beginning again, its successor being there."""
        command = self.start(*TWO, count=2)
        for _ in range(2):
            tasks.held.enqueue("a")
        [mark, *_] = facts.begun("a", 2)
        victim = mark.pid
        mine = {mark.job for mark in facts.marks("begin", "a") if mark.pid == victim}
        seconds = self.until_begun_again(lambda: os.kill(victim, signal.SIGKILL), mine)
        command.is_ready(2)
        return seconds

    def until_begun_again(self, kill: Callable[[], Any], jobs: set[Any], patience: float = 20) -> float:
        count = len(facts.marks("begin", "a"))
        began = timezone.now()
        kill()
        again = eventually(
            lambda: (
                {m.job: m.at for m in facts.marks("begin", "a")[count:] if m.job in jobs}.keys() >= jobs
                and facts.marks("begin", "a")[count:]
            ),
            patience,
        )
        return float((max(mark.at for mark in again) - began).total_seconds())

    def cut_listener(self) -> float:
        """From the end of the listener's session to a job starting at once again."""
        self.start(*PATIENT)
        began = time.monotonic()
        holders = facts.lock_holders()
        facts.terminate(holders)
        eventually(lambda: facts.lock_holders() - holders)
        facts.is_done(tasks.quick.enqueue())
        return time.monotonic() - began

    def half_open_listener(self) -> float:
        """From the moment that the network swallows all to a new session."""
        proxy = Proxy(connections["default"].settings_dict)
        try:
            self.starter(*PATIENT, variables={"SCENARIO_PORT": str(proxy.port)}).is_ready()
            for line in proxy.choose(lambda line: line.listens):
                line.frozen = True
            began = time.monotonic()
            eventually(lambda: proxy.choose(lambda line: line.listens and not line.frozen), 60)
            return time.monotonic() - began
        finally:
            self.starter.close()
            proxy.close()

    def database_back(self) -> float:
        """From the server taking connections after 20 s away to stored outcomes and a new job done."""
        self.start(*PATIENT)
        result = tasks.held.enqueue("a", end=False)
        facts.begun("a")
        self.server.crash()
        self.starter.open("a")
        time.sleep(20)
        self.server.start()
        began = time.monotonic()
        facts.is_done(result, tasks.quick.enqueue())
        assert len(facts.marks("begin", "a")) == 1
        return time.monotonic() - began

    def stop_idle(self) -> float:
        """From SIGTERM to the end of an idle command."""
        command = self.start()
        began = command.tell(signal.SIGTERM)
        assert command.ends() == 0
        return time.monotonic() - began

    def stop_busy(self) -> float:
        """From the end of the last job after SIGTERM to the end of the command."""
        command = self.start()
        tasks.held.enqueue("a")
        facts.begun("a")
        command.tell(signal.SIGTERM)
        time.sleep(0.5)
        self.starter.open("a")
        began = time.monotonic()
        assert command.ends() == 0
        return time.monotonic() - began

    def grace_over(self) -> float:
        """From the end of the grace time to the job being back in its queue; the status is 3."""
        command = self.start("--shutdown-timeout", "1")
        result = tasks.held.enqueue("a")
        facts.begun("a")
        began = command.tell(signal.SIGTERM) + 1
        eventually(lambda: Job.objects.filter(pk=result.id, state=StateChoices.READY).exists())
        seconds = time.monotonic() - began
        assert command.ends() == 3
        return seconds


FIGURES: tuple[tuple[str, Callable[[Bench], float], int], ...] = (
    ("a whole command killed → its jobs running elsewhere", Bench.killed_machine, 3),
    ("the same, the other worker being a second old", Bench.killed_newcomers_neighbour, 3),
    ("the same without session locks", Bench.killed_without_locks, 1),
    ("a child killed → its jobs running again", Bench.killed_child, 3),
    ("the listener's session cut → jobs start at once again", Bench.cut_listener, 3),
    ("a half-open listener → a new session", Bench.half_open_listener, 1),
    ("the database back after 20 s → outcomes stored, a new job done", Bench.database_back, 2),
    ("SIGTERM → the end of an idle command", Bench.stop_idle, 3),
    ("the last job's end after SIGTERM → the end of the command", Bench.stop_busy, 3),
    ("the grace time's end → the job back in its queue", Bench.grace_over, 3),
)


def run_figures(server: OwnServer, folder: Path) -> int:
    """Measure and print all figures."""
    bench = Bench(server, folder)
    for name, measure, runs in FIGURES:
        seconds = []
        for _ in range(runs):
            with bench.afresh():
                seconds.append(measure(bench))
        shown = ", ".join(f"{figure:.2f}" for figure in sorted(seconds))
        print(f"  {median(seconds):6.2f} s  {name} ({shown})", flush=True)
    return 0
