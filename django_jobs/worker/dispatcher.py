"""
The dispatcher: one thread that owns the worker's connection to the queue and turns the wheel.

Each cycle writes what ended since the last one and claims for the slots that are free, in one round trip
and one commit. Batches form by themselves: whatever ends while one commit is under way is in the next.

A failing database ends neither the worker nor a running job: outcomes wait here, the connection is made
anew, and what was claimed by a commit whose answer got lost is handed back (`take_stock`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import psycopg

from django_jobs.core.records import (
    Cancelled,
    ClaimedJob,
    Completed,
    Ended,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
)
from django_jobs.core.states import Kind
from django_jobs.store import claim, finish, workers
from django_jobs.store.cursor import Rows, Statement
from django_jobs.store.link import run_together
from django_jobs.telemetry import fields, logger
from django_jobs.worker.claiming import Claiming
from django_jobs.worker.duties import Duties
from django_jobs.worker.listener import Connected, Disconnected, Heard, Woken
from django_jobs.worker.loop import Loop, one_line
from django_jobs.worker.slots import AsyncSlots, Run, ThreadSlots
from django_jobs.worker.traces import trace_of

SYNC, ASYNC = "sync", "async"

AHEAD_SECONDS = 0.05
"""How much work may be claimed ahead of free slots: so little that nobody else would have begun it sooner."""

AHEAD_MOST = 400
"""Jobs claimed ahead at the most."""

WATCH_SECONDS = 0.25
"""How often runs with a timeout are looked at, since one may have begun after the last look."""

AHEAD_PATIENCE = 1.0
"""Seconds after which jobs that were claimed ahead and found no slot are handed back."""

BATCH = 500
"""Outcomes written in one cycle."""

REMEMBERED = 1000
"""Failed jobs whose ids are kept for the report of a drain."""

REFUSALS = (psycopg.DataError, psycopg.IntegrityError, psycopg.NotSupportedError)
"""Errors that a value causes, and that come again however often it is sent."""


class Nudge:
    """An event without news: the loop is to look again."""


class Dispatcher:
    """Claims jobs, hands them to the slots, and writes what they came to."""

    def __init__(
        self,
        *,
        connect: Callable[[], psycopg.Connection[Any]],
        register: Callable[[], Statement],
        claiming: Claiming,
        threads: ThreadSlots,
        loop_slots: AsyncSlots,
        async_slots: int,
        tasks: Mapping[str, Sequence[str]],
        duties: Duties,
        announce: Callable[[Ended], None],
        timeout_of: Callable[[ClaimedJob], float | None],
        keep_cancelled: timedelta | None,
        max_error_chars: int,
        is_done: Callable[[], bool],
    ) -> None:
        self.connect = connect
        self.register = register
        self.claiming = claiming
        self.threads = threads
        self.loop_slots = loop_slots
        self.room = {SYNC: threads.count, ASYNC: async_slots}
        self.tasks = tasks
        """Dotted paths of the tasks that are claimed, by kind of slot."""
        self.async_tasks = frozenset(tasks.get(ASYNC, ()))
        self.duties = duties
        self.announce = announce
        self.timeout_of = timeout_of
        self.keep_cancelled = keep_cancelled
        self.max_error_chars = max_error_chars
        self.is_done = is_done

        self.events: SimpleQueue[Ended | Heard | Nudge] = SimpleQueue()
        self.connection: psycopg.Connection[Any] | None = None
        self.worker = 0
        """This worker's id; a new one after it was declared dead."""
        self.in_flight: dict[int, ClaimedJob] = {}
        """Jobs that this worker claimed and whose outcome isn't stored yet."""
        self.counts: Counter[str] = Counter()
        """Jobs in flight by kind of slot."""
        self.queue_counts: Counter[str] = Counter()
        self.ended: dict[int, Ended] = {}
        """Outcomes that aren't stored yet, by job."""
        self.average = {SYNC: 1.0, ASYNC: 1.0}
        """Sliding length of the runs, in seconds."""
        self.moved_at = monotonic()
        """When a job was last handed over or ended."""
        self.moved_on_at = monotonic()
        """When the wheel last turned without an error."""
        self.holds_lock = False
        self.others = 0
        """Other workers that live."""
        self.stopping = False
        self.stocktaking = False
        self.cancel_asked: set[int] = set()
        """Jobs running here that someone asked to cancel."""
        self.timed = 0
        """Jobs in flight that have a timeout."""
        self.opened_at = 0.0
        self.dead: deque[int] = deque(maxlen=REMEMBERED)
        """The last jobs that failed for good."""
        self.tally: Counter[str] = Counter()
        """Outcomes stored so far, by name."""
        self.loop = Loop(
            "dispatcher",
            tick=self.tick,
            wait=self.wait,
            passing=(psycopg.Error,),
            reset=self.reset,
        )

    # Events

    def wait(self, seconds: float) -> None:
        """Wait for an event, and take in all that are there."""
        try:
            event = self.events.get(timeout=seconds) if seconds > 0 else self.events.get_nowait()
        except Empty:
            return
        while True:
            self.take_in(event)
            try:
                event = self.events.get_nowait()
            except Empty:
                return

    def take_in(self, event: Ended | Heard | Nudge) -> None:
        """Take in one event."""
        match event:
            case Ended(job=job):
                known = self.in_flight.get(job.id)
                if known is not None and known.attempt == job.attempt:
                    self.ended.setdefault(job.id, event)
            case Woken(wakes=wakes, again=again):
                self.claiming.woken(wakes, monotonic(), again=again)
            case Connected(holds_lock=held):
                self.holds_lock = held
                self.claiming.look_everywhere()
                self.duties.hurry("heartbeat")
            case Disconnected():
                self.holds_lock = False
                self.duties.hurry("heartbeat")

    def nudge(self) -> None:
        """Have the loop look again, from any thread."""
        self.events.put(Nudge())

    # The wheel

    def tick(self) -> float | None:
        """Turn the wheel once; return how long there is nothing to do, or `None` when all is done."""
        if self.connection is None:
            self.open()
        self.watch_slots()
        self.cycle()
        self.duties.run_due(self)
        self.moved_on_at = monotonic()
        if not self.stopping and self.is_done():
            self.stop()
        if self.stopping and not self.in_flight:
            return None
        return self.seconds_left()

    def cycle(self) -> None:
        """Write what ended and claim for free slots, in one round trip."""
        now = monotonic()
        ended = list(islice(self.ended.values(), BATCH))
        finishing = self.finishing([end for end in ended if not end.stored])
        requests = [] if self.stopping else self.claiming.requests(now, self.free(ended), self.queue_counts)
        statements = [*finishing]
        for request in requests:
            make = claim.claim if request.plain else claim.claim_after
            statements.append(make(self.worker, request.rooms, self.tasks[request.kind], request.limit))
        surveying = not self.stopping and self.claiming.is_survey_due(now)
        if surveying:
            statements.append(claim.survey())
        answers = self.run(statements, ended) if statements else []
        took = monotonic() - now
        self.stored(ended, {row[0]: row for rows in answers[: len(finishing)] for row in rows})
        for request, rows in zip(requests, answers[len(finishing) :], strict=False):
            jobs = claim.claimed(rows)
            self.claiming.took(request, jobs, monotonic(), took)
            self.start(jobs)
        if surveying:
            self.claiming.surveyed(claim.surveyed(answers[-1]), monotonic(), took)

    def finishing(self, ended: Sequence[Ended]) -> list[Statement]:
        """Return the statements that write `ended`."""
        return finish.finish(self.worker, ended, keep_cancelled=self.keep_cancelled) if ended else []

    def run(self, statements: Sequence[Statement], ended: Sequence[Ended]) -> list[Rows]:
        """
        Run `statements` together.

        When the database refuses what one of the outcomes would store, each is written by itself, the
        refused one as a failure that says so; then the rest of the cycle is run.
        """
        assert self.connection is not None
        try:
            return run_together(self.connection, statements)
        except REFUSALS as error:
            logger.error("outcomes could not be written together: %s", one_line(error))
        rest = [statement for statement in statements if statement[0] not in finish.STATEMENTS]
        singly = self.write_singly([end for end in ended if not end.stored])
        answers: list[Rows] = [singly] + [[]] * (len(statements) - len(rest) - 1)
        return answers + (run_together(self.connection, rest) if rest else [])

    def write_singly(self, ended: Sequence[Ended]) -> Rows:
        """Write outcomes one by one; one that the database refuses becomes a failure that says so."""
        assert self.connection is not None
        rows: list[Sequence[Any]] = []
        for end in ended:
            try:
                [written] = run_together(self.connection, self.finishing([end]))
            except REFUSALS as error:
                trace = trace_of(error, max_chars=self.max_error_chars)
                failed = Failed(kind=Kind.ERROR, trace=trace, keep=self.keep_cancelled)
                self.ended[end.job.id] = replace(end, outcome=failed, exception=error)
                [written] = run_together(self.connection, self.finishing([self.ended[end.job.id]]))
            rows += written
        return rows

    def stored(self, ended: Sequence[Ended], written: Mapping[int, Sequence[Any]]) -> None:
        """
        Forget runs whose outcome is stored, or was no longer ours to store, and have them announced.

        `written` are the rows that came back, by job: its id, and where that was decided there, its state.
        """
        for job_id in [end.job.id for end in ended]:
            end = self.ended.pop(job_id)
            job = self.in_flight.pop(job_id)
            self.moved_at = monotonic()
            kind = self.kind_of(job)
            self.counts[kind] -= 1
            self.queue_counts[job.queue_name] -= 1
            self.timed -= self.timeout_of(job) is not None
            self.claiming.freed(job.queue_name)
            self.cancel_asked.discard(job_id)
            self.learn(kind, end)
            if end.stored or job_id in written:
                self.conclude(end, written.get(job_id, (job_id,)))
            else:
                self.tally["lost"] += 1
                logger.warning(
                    "job %s %s was taken over while attempt %s ran here; what it came to is dropped",
                    job_id,
                    job.task_path,
                    job.counted_attempt,
                    extra=fields(job),
                )

    def conclude(self, end: Ended, row: Sequence[Any]) -> None:
        """Count and announce an outcome as it was stored."""
        if row[1:] == ("CANCELLED",) and not isinstance(end.outcome, Cancelled):
            end = replace(end, outcome=Cancelled(reason="cancelled while it ran", keep=None))
        self.tally[name_of(end.outcome)] += 1
        if isinstance(end.outcome, Retried | Snoozed):
            self.claiming.due_in(end.outcome.after.total_seconds(), self.moved_at)
        if isinstance(end.outcome, Failed):
            self.dead.append(end.job.id)
        self.announce(end)

    def learn(self, kind: str, end: Ended) -> None:
        """Take in how long a run took; longer ones count for more, so that few jobs wait behind them."""
        if not isinstance(end.outcome, Released):
            longer = end.seconds > self.average[kind]
            self.average[kind] += (end.seconds - self.average[kind]) * (0.5 if longer else 0.05)

    def start(self, jobs: Sequence[ClaimedJob]) -> None:
        """Hand claimed jobs to their slots."""
        if not jobs:
            return
        self.moved_at = monotonic()
        by_kind: dict[str, list[ClaimedJob]] = {SYNC: [], ASYNC: []}
        for job in jobs:
            self.in_flight[job.id] = job
            self.queue_counts[job.queue_name] += 1
            self.timed += self.timeout_of(job) is not None
            by_kind[self.kind_of(job)].append(job)
        for kind, slots in ((SYNC, self.threads), (ASYNC, self.loop_slots)):
            if by_kind[kind]:
                self.counts[kind] += len(by_kind[kind])
                slots.submit(by_kind[kind])

    def kind_of(self, job: ClaimedJob) -> str:
        return ASYNC if job.task_path in self.async_tasks else SYNC

    def free(self, ended: Sequence[Ended]) -> dict[str, int]:
        """Return how many jobs may be claimed for each kind of slot, once `ended` is written."""
        leaving = Counter(self.kind_of(end.job) for end in ended if end.job.id in self.in_flight)
        return {
            kind: self.room[kind] + self.ahead(kind) - (self.counts[kind] - leaving[kind])
            for kind in self.tasks
        }

    def ahead(self, kind: str) -> int:
        """Return how many jobs may be claimed beyond the slots: little work, while jobs are short."""
        return min(AHEAD_MOST, int(AHEAD_SECONDS / max(self.average[kind], 1e-6)))

    def seconds_left(self) -> float:
        """Return how long to wait for events."""
        if self.ended:
            return 0.0
        left = [self.duties.seconds_left()]
        if not self.stopping:
            left.append(self.claiming.seconds_left(monotonic(), self.free(())))
        left += [
            seconds for seconds in (self.threads.watch(), self.loop_slots.watch()) if seconds is not None
        ]
        if self.timed:
            left.append(WATCH_SECONDS)
        if not self.threads.inbox.empty():
            left.append(AHEAD_PATIENCE)
        return max(0.0, min(left))

    def watch_slots(self) -> None:
        """Hand back what was claimed ahead and found no slot for long."""
        if monotonic() - self.moved_at > AHEAD_PATIENCE and not self.threads.inbox.empty():
            self.hand_back(self.threads.take_back(), "claimed ahead, but every slot stayed busy")
            self.average[SYNC] = max(self.average[SYNC], AHEAD_SECONDS)

    def runs(self) -> list[Run]:
        """Return what runs now, in all slots."""
        return self.threads.runs() + self.loop_slots.runs()

    def cancel(self, job_id: int) -> None:
        """Tell a running body that its job is to be cancelled."""
        if job_id not in self.cancel_asked:
            self.cancel_asked.add(job_id)
            self.loop_slots.cancel(job_id, "cancelled while it ran")

    # Stopping

    def stop(self) -> None:
        """Claim nothing more, hand back what hasn't begun, and end once the rest is over."""
        self.stopping = True
        self.nudge()
        self.hand_back(self.threads.take_back(), "the worker stops")

    def hand_back(self, jobs: Sequence[ClaimedJob], reason: str, *, started: bool = False) -> None:
        """Put jobs back into their queue; the claim doesn't count."""
        for job in jobs:
            self.events.put(Ended(job, Released(started=started, reason=reason)))

    # The connection

    def open(self) -> None:
        """Connect, register, and take stock of what is running under this worker's name."""
        connection = self.connect()
        try:
            if not self.worker:
                self.sign_on(connection)
            self.connection = connection
            if self.stocktaking:
                self.take_stock()
        except BaseException:
            self.connection = None
            connection.close()
            raise
        self.opened_at = monotonic()
        self.claiming.look_everywhere()

    def connected_for(self) -> float:
        """Return how many seconds the connection has stood."""
        return monotonic() - self.opened_at

    def sign_on(self, connection: psycopg.Connection[Any]) -> None:
        """Enter this worker in the database, under a new id."""
        [(self.worker, now)] = connection.execute(*self.register()).fetchall()
        self.claiming.set_clock(now, monotonic())
        self.duties.on_new_identity()

    def sign_on_again(self) -> None:
        """Go on under a new id: this worker was declared dead, and what ran here is taken over."""
        assert self.connection is not None
        logger.warning("worker %s was declared dead; it registers anew and goes on", self.worker)
        self.holds_lock = False
        self.sign_on(self.connection)

    def take_stock(self) -> None:
        """Hand back jobs that run under this worker's name unknown to it: a claim's answer was lost."""
        assert self.connection is not None
        [rows] = run_together(self.connection, [workers.strays(self.worker, list(self.in_flight))])
        if rows:
            [released] = run_together(self.connection, [finish.release(self.worker, rows)])
            logger.info("%d jobs whose claim got lost with a connection were handed back", len(released))
        self.stocktaking = False

    def reset(self) -> None:
        """Drop the connection after a failure."""
        connection, self.connection = self.connection, None
        self.stocktaking = True
        if connection is not None:
            connection.close()

    def close(self, ending: str) -> None:
        """Say that this worker ended, and close the connection."""
        if self.connection is not None:
            try:
                run_together(self.connection, [workers.sign_off(self.worker, ending)])
            except psycopg.Error as error:
                logger.info("worker %s could not sign off: %s", self.worker, one_line(error))
            self.connection.close()
            self.connection = None


def name_of(outcome: Outcome) -> str:
    """Return the word that an outcome is counted under."""
    match outcome:
        case Completed():
            return "completed"
        case Retried():
            return "retried"
        case Failed():
            return "failed"
        case Snoozed():
            return "snoozed"
        case Cancelled():
            return "cancelled"
        case Released():
            return "released"
