"""
Slots: the threads in which sync bodies run. `event_loop` has those of async ones.

Jobs come in through `submit`, what they came to leaves through the worker's `events` queue as `Ended`. Both
are `SimpleQueue`s, at 1.7 million hand-overs a second forty times as fast as an executor's futures.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread, get_ident
from time import monotonic

from django_jobs.core.records import ClaimedJob, Ended
from django_jobs.exceptions import JobTimeout
from django_jobs.telemetry import logger
from django_jobs.worker.board import Board
from django_jobs.worker.connections import check_connections, keep_track, leave_idle, tidy_connections
from django_jobs.worker.executor import Executor

IDLE_SECONDS = 1.0
"""How long a slot keeps its connections for a next job when CONN_MAX_AGE says to close them."""

STUCK_SECONDS = 5.0
"""How long a body may ignore its timeout before its slot is replaced."""


@dataclass(eq=False, slots=True)
class Run:
    """One run under way in a slot."""

    job: ClaimedJob
    began: float
    """By `time.monotonic()`."""
    deadline: float | None
    expired: bool = False
    """Whether the body was told that its time is over."""


class Slot:
    """One thread that runs sync bodies, one at a time."""

    def __init__(self, slots: ThreadSlots, number: int) -> None:
        self.slots = slots
        self.run: Run | None = None
        self.lock = Lock()
        """Held to aim a timeout at the thread, and to say that its run is over."""
        self.abandoned = False
        self.ident = 0
        self.thread = Thread(target=self.serve, name=f"django_jobs-slot-{number}", daemon=True)

    def serve(self) -> None:
        """Run jobs until told to stop."""
        self.ident = get_ident()
        keep_track()
        inbox = self.slots.inbox
        while not self.abandoned:
            try:
                job = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                leave_idle()
                job = inbox.get()
            if job is None:
                break
            self.run_one(job)
        leave_idle(close=True)

    def run_one(self, job: ClaimedJob) -> None:
        """Run one job and hand on what it came to, unless its slot was given up meanwhile."""
        executor = self.slots.executor
        ended: Ended | None = None
        self.slots.board.begin(job.id)
        run = Run(job, monotonic(), self.slots.deadline_of(job))
        try:
            self.run = run
            check_connections()
            ended = executor.run(job)
        except JobTimeout:  # aimed at the body, but it was just over
            pass
        except Exception as error:  # noqa: BLE001  (a fault around the body ends its run, not the slot)
            ended = Ended(job, executor.outcome_of(job, error), error, seconds=monotonic() - run.began)
        self.settle(run)
        if ended is None:
            ended = Ended(job, executor.timed_out(job), seconds=monotonic() - run.began)
        try:
            tidy_connections(job.task_path)
        except Exception:  # noqa: BLE001  (the job is over, whatever its connections do)
            logger.exception("after job %s: its connections could not be tidied", job.id)
        if not self.abandoned:
            self.slots.deliver(ended)

    def settle(self, run: Run) -> None:
        """Say that the run is over, and take in a timeout that is still on its way to this thread."""
        if run.deadline is None:
            self.run = None
            return
        while self.run is not None:
            try:
                with self.lock:
                    self.run = None
            except JobTimeout:
                continue
        try:
            for _ in range(1000 if run.expired else 0):
                pass
        except JobTimeout:
            pass

    def expire(self, run: Run) -> None:
        """Raise JobTimeout in the body of `run`, if it is still that run."""
        with self.lock:
            if self.run is run:
                run.expired = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self.ident), ctypes.py_object(JobTimeout)
                )


class ThreadSlots:
    """All threads of a worker. `count` of them take jobs; those given up on are replaced."""

    def __init__(
        self,
        count: int,
        *,
        board: Board,
        executor: Executor,
        deliver: Callable[[Ended], None],
        timeout_of: Callable[[ClaimedJob], float | None],
    ) -> None:
        self.count = count
        self.board = board
        self.executor = executor
        self.deliver = deliver
        self.timeout_of = timeout_of
        self.inbox: SimpleQueue[ClaimedJob | None] = SimpleQueue()
        self.slots: list[Slot] = []
        self.stuck: list[Slot] = []
        """Slots whose body ignored its timeout; their threads are lost until it returns."""
        self.made = 0

    def start(self) -> None:
        """Start the threads."""
        while len(self.slots) < self.count:
            self.add()

    def add(self) -> None:
        self.made += 1
        slot = Slot(self, self.made)
        self.slots.append(slot)
        slot.thread.start()

    def submit(self, jobs: Sequence[ClaimedJob]) -> None:
        """Hand over jobs; threads take them in order."""
        for job in jobs:
            self.inbox.put(job)

    def deadline_of(self, job: ClaimedJob) -> float | None:
        limit = self.timeout_of(job)
        return None if limit is None else monotonic() + limit

    def has_waiting(self) -> bool:
        """Whether jobs wait for a free thread."""
        return not self.inbox.empty()

    def take_back(self) -> list[ClaimedJob]:
        """Return the jobs that no thread has begun, and forget them."""
        jobs: list[ClaimedJob] = []
        while True:
            try:
                job = self.inbox.get_nowait()
            except Empty:
                return jobs
            if job is not None:
                jobs.append(job)

    def runs(self) -> list[Run]:
        """Return what runs now."""
        return [run for slot in self.slots if (run := slot.run) is not None]

    def watch(self) -> float | None:
        """
        Tell bodies that are over their time, and give up on those that don't listen.

        Returns the seconds until this is worth doing again; `None` when no run has a deadline.
        """
        now = monotonic()
        soonest: float | None = None
        for slot in list(self.slots):
            run = slot.run
            if run is None or run.deadline is None:
                continue
            left = run.deadline - now
            if run.expired:
                left += STUCK_SECONDS
            if left <= 0 and not run.expired:
                slot.expire(run)
                left = STUCK_SECONDS
            elif left <= 0:
                self.give_up(slot, run)
                continue
            soonest = left if soonest is None else min(soonest, left)
        return soonest

    def give_up(self, slot: Slot, run: Run) -> None:
        """Record a run that ignores its timeout as timed out, and put a new thread in its place."""
        with slot.lock:
            if slot.run is not run:
                return
            slot.abandoned = True
        logger.error(
            "job %s %s ignores its timeout; its slot is replaced, its thread is lost until it returns",
            run.job.id,
            run.job.task_path,
            extra={"job_id": run.job.id, "task": run.job.task_path},
        )
        self.slots.remove(slot)
        self.stuck.append(slot)
        self.add()
        self.deliver(Ended(run.job, self.executor.timed_out(run.job), seconds=monotonic() - run.began))

    def stop(self, seconds: float) -> None:
        """Let every thread end after its run, and wait up to `seconds` for those that have none."""
        for _ in self.slots:
            self.inbox.put(None)
        deadline = monotonic() + seconds
        for slot in self.slots:
            if slot.run is None:
                slot.thread.join(max(0.0, deadline - monotonic()))
