"""
Slots: where bodies run. Threads for sync tasks, one event loop in a thread of its own for async ones.

Jobs come in through `submit`, what they came to leaves through the worker's `events` queue as `Ended`. Both
are `SimpleQueue`s, at 1.7 million hand-overs a second forty times as fast as an executor's futures.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread, get_ident
from time import monotonic
from typing import Any

from django_jobs.core.records import Cancelled, ClaimedJob, Ended, Outcome, Released
from django_jobs.exceptions import JobTimeout
from django_jobs.telemetry import logger
from django_jobs.worker.connections import (
    check_bridged_connections,
    check_connections,
    leave_bridged_connections_idle,
    leave_idle,
    tidy_connections,
)
from django_jobs.worker.executor import Executor

STUCK_SECONDS = 5.0
"""How long a body may ignore its timeout before its slot is replaced."""

BLOCKED_SECONDS = 1.0
"""How long the event loop may stand still before the body that holds it is named in a warning."""


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
        inbox = self.slots.inbox
        while not self.abandoned:
            try:
                job = inbox.get_nowait()
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
        executor: Executor,
        deliver: Callable[[Ended], None],
        timeout_of: Callable[[ClaimedJob], float | None],
    ) -> None:
        self.count = count
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


class AsyncSlots:
    """The event loop on which async bodies run, in a thread of its own."""

    def __init__(
        self,
        *,
        executor: Executor,
        deliver: Callable[[Ended], None],
        timeout_of: Callable[[ClaimedJob], float | None],
    ) -> None:
        self.executor = executor
        self.deliver = deliver
        self.timeout_of = timeout_of
        self.loop: asyncio.AbstractEventLoop | None = None
        self.tasks: dict[int, tuple[asyncio.Task[None], Run]] = {}
        self.ending: dict[int, Outcome] = {}
        """What a run that is being interrupted comes to, by job."""
        self.stuck: dict[Run, asyncio.Task[None]] = {}
        """Runs that ignore their timeout; they go on until they end by themselves."""
        self.thread: Thread | None = None
        self.pinged_at: float | None = None
        self.warned = False

    def start(self) -> None:
        """Nothing to do: the loop is started with the first job, since many projects have none."""

    def running_loop(self) -> asyncio.AbstractEventLoop:
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            self.thread = Thread(target=self.serve, args=(self.loop,), name="django_jobs-loop", daemon=True)
            self.thread.start()
        return self.loop

    def serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the event loop until we stop it; what a body's own callbacks do to it doesn't end it."""
        asyncio.set_event_loop(loop)
        while self.loop is loop:
            try:
                loop.run_forever()
            except BaseException:  # noqa: BLE001  (SystemExit and the like; other errors stay inside)
                logger.exception("a callback of some async job broke out of the event loop; it goes on")
        loop.close()

    def submit(self, jobs: Sequence[ClaimedJob]) -> None:
        """Hand over jobs; each becomes an asyncio task at once."""
        self.running_loop().call_soon_threadsafe(self.begin, jobs)

    def begin(self, jobs: Sequence[ClaimedJob]) -> None:
        """On the loop: start the jobs."""
        assert self.loop is not None
        for job in jobs:
            limit = self.timeout_of(job)
            run = Run(job, monotonic(), None if limit is None else monotonic() + limit)
            task = self.loop.create_task(self.run_one(run))
            self.tasks[job.id] = (task, run)
            if limit is not None:
                self.loop.call_later(limit, self.expire, run)

    async def run_one(self, run: Run) -> None:
        """Run one job and hand on what it came to."""
        ended = await self.executor.run_async(run.job, prepare=check_bridged_connections)
        outcome = self.ending.pop(run.job.id, None)
        if outcome is not None and isinstance(ended.exception, asyncio.CancelledError):
            ended = Ended(run.job, outcome, None, False, ended.seconds, ended.result)
        if self.tasks.get(run.job.id, (None, None))[1] is run:
            self.tasks.pop(run.job.id, None)
        self.stuck.pop(run, None)
        self.deliver(ended)
        if not self.tasks:
            await leave_bridged_connections_idle()

    def expire(self, run: Run) -> None:
        """On the loop: cancel a body that is over its time."""
        if self.tasks.get(run.job.id, (None, None))[1] is run:
            run.expired = True
            self.interrupt(run.job.id, self.executor.timed_out(run.job))

    def interrupt(self, job_id: int, outcome: Outcome) -> None:
        """On the loop: cancel a body, and have its run end as `outcome` if the body lets it."""
        if job_id in self.tasks:
            self.ending.setdefault(job_id, outcome)
            self.tasks[job_id][0].cancel()

    def cancel(self, job_id: int, reason: str) -> None:
        """End a run whose job someone cancelled."""
        if self.loop is not None and job_id in self.tasks:
            outcome = Cancelled(reason=reason, keep=self.executor.rules.keep_failed)
            self.loop.call_soon_threadsafe(self.interrupt, job_id, outcome)

    def release(self, reason: str) -> None:
        """End all runs, for their jobs to be handed back."""
        if self.loop is not None:
            for job_id in list(self.tasks):
                outcome = Released(started=True, reason=reason)
                self.loop.call_soon_threadsafe(self.interrupt, job_id, outcome)

    def runs(self) -> list[Run]:
        """Return what runs now."""
        return [run for _, run in list(self.tasks.values())]

    def watch(self) -> float | None:
        """Warn once when a body holds the event loop. Returns the seconds until this is worth doing again."""
        if self.loop is None or not self.tasks:
            return None
        now = monotonic()
        for task, run in list(self.tasks.values()):
            if run.deadline is not None and now > run.deadline + STUCK_SECONDS:
                self.give_up(task, run)
        if self.pinged_at is None:
            self.pinged_at = now
            self.loop.call_soon_threadsafe(self.answer)
        elif now - self.pinged_at > BLOCKED_SECONDS and not self.warned:
            self.warned = True
            self.name_the_blocker()
        return BLOCKED_SECONDS

    def give_up(self, task: asyncio.Task[None], run: Run) -> None:
        """Record a run that ignores its timeout as timed out, and let others have its place."""
        logger.error(
            "job %s %s ignores its timeout; it goes on beside others until it ends",
            run.job.id,
            run.job.task_path,
            extra={"job_id": run.job.id, "task": run.job.task_path},
        )
        self.stuck[run] = task
        self.tasks.pop(run.job.id, None)
        self.deliver(Ended(run.job, self.executor.timed_out(run.job), seconds=monotonic() - run.began))

    def answer(self) -> None:
        """On the loop: show that it moves."""
        self.pinged_at = None
        self.warned = False

    def name_the_blocker(self) -> None:
        """Log which job's body holds the event loop."""
        current: Any = asyncio.current_task(self.loop)
        for task, run in list(self.tasks.values()):
            if task is current:
                logger.warning(
                    "job %s %s blocks the event loop: every async job of this worker waits for it",
                    run.job.id,
                    run.job.task_path,
                    extra={"job_id": run.job.id, "task": run.job.task_path},
                )

    def stop(self, seconds: float) -> None:
        """Stop the event loop, and wait up to `seconds` for its end; a second time does nothing."""
        loop, self.loop = self.loop, None
        if loop is not None and self.thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self.thread.join(seconds)
