"""
The supervisor: keeps a number of worker processes alive, and takes them down in stages.

It never touches the database, so that no connection can cross into a child. A child that dies is replaced
at once, with growing pauses when children die right after their start; the next one is told who died, so
that it takes over that worker's jobs without waiting.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any
from uuid import uuid4

import django

from django_jobs.core.records import Asked
from django_jobs.core.states import Wish
from django_jobs.telemetry import logger
from django_jobs.worker.connections import close_all
from django_jobs.worker.foreground import (
    EXIT_BROKEN,
    EXIT_DYING,
    EXIT_HANDED_BACK,
    EXIT_OK,
    LOOK_SECONDS,
    StopSignals,
    leave,
    run_worker,
)
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker

YOUNG_SECONDS = 5.0
"""A child that breaks younger than this counts as dying at its start, as one does that never registered."""

SILENT_SECONDS = 5 * LOOK_SECONDS
"""How long a child may say nothing of its health, on a busy machine, before it doesn't count as well."""

MOST_EARLY_DEATHS = 10
"""So many such deaths in a row end the command; once all children have registered, it starts anew."""

REMEMBERED = 100
"""Dead workers that each new child is told of: it may die itself before it has taken over their jobs."""

ENDED, BROKEN = -1, -2
"""What a child leaves in place of its worker's id when it ends by itself: well, or not."""

LONGEST_PAUSE = 10.0
"""Seconds between two starts at the most."""

WISHES = (Wish.DRAIN, Wish.STOP)
"""The later one is more."""

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""Signals that ask a child to stop."""

LAST_SECONDS = 10.0
"""How long a child may take to hand back its jobs before it is killed."""


@dataclass(slots=True)
class Child:
    """One worker process and what it shares with its parent."""

    number: int
    process: BaseProcess
    worker: Any
    """Its worker's id, a shared integer; 0 until it has registered, then ENDED or BROKEN once it is over."""
    healthy_at: Any
    """When it last found itself healthy, a shared `time.monotonic()`; 0 while it isn't."""
    asked: Any
    """What all processes were asked to do, a shared integer: 0, or its place in `WISHES`, counted from 1. The
    child says so when its row does, and its parent has the others do the same."""
    started_at: float


class Supervisor:
    """Runs `processes` workers with the same options until it is asked to stop."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        processes: int,
        start_method: str,
        shutdown_seconds: float,
        look: Callable[[bool], None],
        stop: StopSignals,
    ) -> None:
        self.options = options
        self.processes = processes
        self.context: BaseContext = multiprocessing.get_context(start_method)
        self.start_method = start_method
        self.shutdown_seconds = shutdown_seconds
        self.look = look
        """Called every second with whether all children are healthy."""
        self.children: dict[int, Child] = {}
        self.start_at: dict[int, float] = {}
        """When the missing children may be started."""
        self.dead_workers: deque[int] = deque(maxlen=REMEMBERED)
        self.early_deaths = 0
        self.key = uuid4().hex
        """What the rows of the children have in common, and no other's."""
        self.asked = 0
        """What all processes were asked to do; see `Child.asked`."""
        self.handed_back = False
        """Whether some child ended with jobs that it had to hand back."""
        self.wakeup = self.waker = -1
        self.stop = stop
        """How a stop is asked for. No thread may run here: a fork would copy whatever lock it holds."""

    def run(self) -> int:
        """Supervise until asked to stop; return the exit status."""
        self.wakeup, self.waker = os.pipe()
        self.stop.poke = self.poke
        try:
            return self.supervise()
        finally:
            self.stop.poke = lambda: None  # first, since a signal may come in between
            os.close(self.wakeup)
            os.close(self.waker)

    def supervise(self) -> int:
        """Start all children, and replace those that end; return the exit status."""
        if self.start_method != "fork":
            resource_tracker.ensure_running()  # now: its start lets the signals through that `start` holds
        for number in range(1, self.processes + 1):
            self.start(number)
        while not self.is_ending:
            self.watch(LOOK_SECONDS)
            for number, at in list(self.start_at.items()):
                if monotonic() >= at:
                    self.start(number)
            if self.is_complete() and all(child.worker.value > 0 for child in self.children.values()):
                self.early_deaths = 0
            self.look(self.is_healthy())
            if self.early_deaths >= MOST_EARLY_DEATHS:
                logger.critical(
                    "%d worker processes in a row died right after their start; giving up", self.early_deaths
                )
                self.take_down()
                return EXIT_DYING
        if self.asked:
            logger.info(
                "all processes were asked to %s; runjobs ends with them", WISHES[self.asked - 1].lower()
            )
        if not self.is_stopping:
            self.drain()
        return self.take_down()

    @property
    def is_ending(self) -> bool:
        """Whether no child is to be started any more."""
        return bool(self.stop.count or self.asked)

    @property
    def is_stopping(self) -> bool:
        """Whether the children have no more than their time of grace."""
        return bool(self.stop.count) or self.asked == 1 + WISHES.index(Wish.STOP)

    def drain(self) -> None:
        """Wait until all children have run to its end what they run, or are to be stopped."""
        while self.children and not self.is_stopping:
            for child in self.children.values():  # also one that registered while they were asked
                child.asked.value = max(child.asked.value, self.asked)
            self.watch(LOOK_SECONDS)
            self.look(self.are_well())

    def poke(self) -> None:
        """Wake the loop, which waits for processes."""
        os.write(self.waker, b"x")

    def start(self, number: int) -> None:
        """Start the child with this number."""
        close_all()  # none may be open while a child is made
        self.start_at.pop(number, None)
        worker, healthy_at, asked = (self.context.Value(kind, 0) for kind in "qdb")
        name = f"{self.options.name}-{number}" if self.options.name else ""
        options = replace(
            self.options,
            name=name,
            dead_for_certain=tuple(self.dead_workers),
            supervisor=self.key,
            supervisor_pid=os.getpid(),
            recyclable=True,
        )
        process = self.context.Process(  # type: ignore[attr-defined]  # every real context has it
            target=child_main,
            args=(options, self.shutdown_seconds, worker, healthy_at, asked, self.start_method, os.getpid()),
            name=f"runjobs-{number}",
        )
        # A stop that comes while the child is made waits until it can be heard. A forkserver keeps it out for
        # good, so that a signal to the whole process group doesn't end it before its children.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.children[number] = Child(number, process, worker, healthy_at, asked, monotonic())

    def watch(self, seconds: float) -> None:
        """Wait for a child to end, a signal, or the time to be over; take in those that ended."""
        sentinels = [child.process.sentinel for child in self.children.values()]
        for ready in wait([*sentinels, self.wakeup], max(0.0, seconds)):
            if ready == self.wakeup:
                os.read(self.wakeup, 100)
        for child in list(self.children.values()):
            over = not child.process.is_alive()
            self.asked = max(self.asked, child.asked.value)
            if over:
                self.take_in(child)

    def take_in(self, child: Child) -> None:
        """Record how a child ended, and plan its replacement."""
        child.process.join()
        del self.children[child.number]
        pid, status, worker = child.process.pid, child.process.exitcode or 0, child.worker.value
        if worker == ENDED:
            logger.info("worker process %d ended", pid)
            self.handed_back |= status == EXIT_HANDED_BACK and self.is_ending
        elif worker == BROKEN:
            logger.error("worker process %d died: a part of it broke; see above", pid)
        else:
            logger.error("worker process %d died: %s", pid, died_of(status))
        if worker > 0:
            self.dead_workers.append(worker)
        # One that came as far as to register most likely died of a job, whose attempts are limited.
        broke_young = worker == BROKEN and monotonic() - child.started_at < YOUNG_SECONDS
        self.early_deaths = self.early_deaths + 1 if worker == 0 or broke_young else 0
        pause = 0.0 if not self.early_deaths else min(LONGEST_PAUSE, 0.05 * 2**self.early_deaths)
        if not self.is_ending:
            self.start_at[child.number] = monotonic() + pause
        child.process.close()

    def is_complete(self) -> bool:
        """Whether all children are there."""
        return len(self.children) == self.processes

    def is_healthy(self) -> bool:
        """Whether all children are there and well."""
        return self.is_complete() and self.are_well()

    def are_well(self) -> bool:
        """Whether those children that are there are well."""
        now = monotonic()
        return all(
            child.healthy_at.value and now - child.healthy_at.value < SILENT_SECONDS
            for child in self.children.values()
        )

    def take_down(self) -> int:
        """Stop all children: gracefully, then by having them hand back their jobs, then by force."""
        self.tell(signal.SIGTERM)
        asked = self.stop.count
        deadline = monotonic() + self.shutdown_seconds + LAST_SECONDS
        hurried = False
        while self.children:
            self.watch(min(LOOK_SECONDS, max(0.0, deadline - monotonic())))
            if self.stop.count > asked and not hurried:
                hurried = True
                deadline = monotonic() + LAST_SECONDS
                self.tell(signal.SIGUSR1)
            if monotonic() > deadline:
                self.tell(signal.SIGKILL)
        return EXIT_HANDED_BACK if self.handed_back else EXIT_OK

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to all children."""
        for child in self.children.values():
            if child.process.pid is not None and child.process.is_alive():
                os.kill(child.process.pid, number)


def died_of(status: int) -> str:
    """Return in words what an exit status of a process means."""
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def child_main(
    options: WorkerOptions,
    shutdown_seconds: float,
    worker_id: Any,
    healthy_at: Any,
    asked_all: Any,
    start_method: str,
    parent: int,
) -> None:
    """The main function of a child process."""
    if start_method == "fork":
        atexit._clear()  # what the parent had registered is for the parent's end
    else:
        django.setup()
    stop = StopSignals()
    stop.install({signal.SIGTERM: stop.ask_once, signal.SIGUSR1: stop.ask, signal.SIGINT: signal.SIG_IGN})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

    def identified(worker: int) -> None:
        worker_id.value = worker

    def was_asked(asked: Asked) -> None:
        if asked.all_processes:
            asked_all.value = 1 + WISHES.index(asked.wish)

    def look(worker: Worker) -> None:
        if asked_all.value:
            worker.take_in_wish(Asked(WISHES[asked_all.value - 1], all_processes=True, by=""))
        healthy_at.value = monotonic() if worker.is_healthy else 0.0
        if is_orphan(start_method, parent):
            logger.warning("the parent of worker process %d is gone; it stops", os.getpid())
            stop.ask_once()

    status = run_worker(
        options,
        stop=stop,
        shutdown_seconds=shutdown_seconds,
        look=look,
        identified=identified,
        asked=was_asked,
    )
    worker_id.value = BROKEN if status == EXIT_BROKEN else ENDED
    leave(status)


def is_orphan(start_method: str, parent: int) -> bool:
    """Whether the supervisor is gone."""
    if start_method == "forkserver":  # whose server is the parent that the system knows of
        supervisor = multiprocessing.parent_process()
        return supervisor is not None and not supervisor.is_alive()
    return os.getppid() != parent
