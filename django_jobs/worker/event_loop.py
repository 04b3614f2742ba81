"""
The event loop on which async bodies run, in a thread of its own: the async counterpart of `slots`.

All but `submit`, `take_back`, `cancel`, `release`, `watch` and `stop` runs on the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from time import monotonic
from typing import Any

from django_jobs.core.records import Cancelled, ClaimedJob, Ended, Outcome, Released
from django_jobs.telemetry import logger
from django_jobs.worker.board import Board
from django_jobs.worker.connections import check_bridged_connections, leave_bridged_connections_idle
from django_jobs.worker.executor import Executor
from django_jobs.worker.slots import IDLE_SECONDS, STUCK_SECONDS, Run

BLOCKED_SECONDS = 1.0
"""How long the event loop may stand still before the body that holds it is named in a warning."""


class AsyncSlots:
    """The event loop of a worker. `count` bodies run on it at once."""

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
        self.inbox: deque[ClaimedJob] = deque()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.tasks: dict[int, tuple[asyncio.Task[None], Run]] = {}
        self.ending: dict[int, Outcome] = {}
        """What a run that is being interrupted comes to, by job."""
        self.stuck: dict[Run, asyncio.Task[None]] = {}
        """Runs that ignore their timeout; they go on until they end by themselves."""
        self.idle: asyncio.TimerHandle | None = None
        """When to let go of what is kept for a next job."""
        self.leaving: asyncio.Task[None] | None = None
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
        """Hand over jobs; they begin in order, `count` at once."""
        self.inbox.extend(jobs)
        self.running_loop().call_soon_threadsafe(self.fill)

    def has_waiting(self) -> bool:
        """Whether jobs wait for a free slot."""
        return bool(self.inbox)

    def take_back(self) -> list[ClaimedJob]:
        """Return the jobs that haven't begun, and forget them."""
        jobs = []
        while self.inbox:
            with suppress(IndexError):  # the loop took the last one
                jobs.append(self.inbox.popleft())
        return jobs

    def fill(self) -> None:
        """On the loop: begin jobs while slots are free; each becomes an asyncio task."""
        while self.loop is not None and self.inbox and len(self.tasks) < self.count:
            try:
                job = self.inbox.popleft()
            except IndexError:  # the dispatcher took them back
                return
            if self.executor.is_cancelled(job.id):
                self.deliver(Ended(job, self.cancelled("cancelled before it began")))
                continue
            limit = self.timeout_of(job)
            self.board.begin(job.id)
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
            ended = replace(ended, outcome=outcome, exception=None)
        if self.tasks.get(run.job.id, (None, None))[1] is run:
            self.tasks.pop(run.job.id, None)
        self.stuck.pop(run, None)
        self.deliver(ended)
        self.fill()
        if not self.tasks and self.loop is not None:
            if self.idle is not None:
                self.idle.cancel()
            self.idle = self.loop.call_later(IDLE_SECONDS, self.leave_idle)

    def leave_idle(self) -> None:
        """On the loop: close what CONN_MAX_AGE says, unless there are new jobs."""
        if not self.tasks and self.loop is not None:
            self.leaving = self.loop.create_task(leave_bridged_connections_idle())

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
        """End a run whose job someone cancelled; one that waits ends when its turn comes."""
        if self.loop is not None and job_id in self.tasks:
            self.loop.call_soon_threadsafe(self.interrupt, job_id, self.cancelled(reason))

    def cancelled(self, reason: str) -> Cancelled:
        """Return the outcome of a run that is over because of its job's cancellation."""
        return Cancelled(reason=reason, keep=self.executor.rules.keep_failed)

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
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.fill)
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
            with suppress(TimeoutError, asyncio.CancelledError):
                asyncio.run_coroutine_threadsafe(leave_bridged_connections_idle(), loop).result(seconds)
            loop.call_soon_threadsafe(loop.stop)
            self.thread.join(seconds)
