"""
The dispatcher: one thread that owns the worker's connection to the queue and turns the wheel.

Each cycle writes what ended since the last one and claims for the slots that are free, in one round trip
and one commit. Batches form by themselves: whatever ends while one commit is under way is in the next. Where
another batch is at hand, the server gets it first, and what the last one brought is dealt with meanwhile.

A failing database ends neither the worker nor a running job: outcomes wait here, the connection is made
anew, and what was claimed by a commit whose answer got lost is handed back (`take_stock`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR, socket
from time import monotonic
from typing import Any

import psycopg

from django_jobs.core.records import ClaimedJob, Ended, Released, Retried, Snoozed
from django_jobs.store import finish, workers
from django_jobs.store.cursor import Statement
from django_jobs.store.link import run_together
from django_jobs.telemetry import fields, logger
from django_jobs.worker import asking, storing
from django_jobs.worker.board import Board, path_of
from django_jobs.worker.claiming import Claiming
from django_jobs.worker.duties import Duties, pass_on, wake_of
from django_jobs.worker.event_loop import AsyncSlots
from django_jobs.worker.ledger import SHORT_SECONDS, Ledger
from django_jobs.worker.listener import Connected, Disconnected, Greeted, Heard, Steered, Woken
from django_jobs.worker.loop import Loop, one_line
from django_jobs.worker.requests import ASYNC, SYNC
from django_jobs.worker.slots import Run, ThreadSlots

STOPS = "the worker stops"
"""Why jobs that haven't begun are handed back."""

WATCH_SECONDS = 0.25
"""How often runs with a timeout are looked at, since one may have begun after the last look."""

AHEAD_PATIENCE = 1.0
"""Seconds after which jobs that were claimed ahead and found no slot are handed back."""

BATCH = 500
"""Outcomes written in one cycle."""

FEW = 10
"""So few jobs that were claimed begin at once, whatever else is at hand."""


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
        board: Board,
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
        self.board = board
        self.slots: dict[str, ThreadSlots | AsyncSlots] = {SYNC: threads, ASYNC: loop_slots}
        self.tasks = tasks
        """Dotted paths of the tasks that are claimed, by kind of slot."""
        self.async_tasks = frozenset(tasks.get(ASYNC, ()))
        self.duties = duties
        self.announce = announce
        self.keep_cancelled = keep_cancelled
        self.max_error_chars = max_error_chars
        self.is_done = is_done

        self.events: SimpleQueue[Ended | Heard | Nudge] = SimpleQueue()
        self.connection: psycopg.Connection[Any] | None = None
        self.worker = 0
        """This worker's id; a new one after it was declared dead."""
        room = {kind: self.slots[kind].count for kind in tasks}
        self.ledger = Ledger(room, kind_of=self.kind_of, timeout_of=timeout_of)
        self.moved_at = dict.fromkeys(self.slots, monotonic())
        """When a job was last handed to the slots of a kind, or a short one ended in one."""
        self.moved_on_at = monotonic()
        """When the wheel last turned without an error."""
        self.turning_since: float | None = None
        """When the turn of the wheel under way began."""
        self.lock_taken = False
        """Whether the listener's session took this worker's lock."""
        self.greeted = False
        """Whether the listener heard this worker's own hello, so that its session is no pooler's."""
        self.unstarted: list[ClaimedJob] = []
        """Jobs that were claimed and are not yet handed to their slots."""
        self.untold: list[tuple[Ended, Sequence[Any]]] = []
        """Runs whose outcome is stored but not announced, each with the row that came back for it."""
        self.aside: dict[int, tuple[float, Ended]] = {}
        """Outcomes that the database refuses in any form, and when to try again."""
        self.flush_at: float | None = None
        """When claims that didn't wait for the disk are flushed, unless an outcome is stored before."""
        self.stopping = False
        self.stocktaking = False
        self.opened_at = 0.0
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
            case Ended():
                self.ledger.end(event)
            case Woken(wakes=wakes, silence=silence):
                self.claiming.woken(wakes, monotonic(), silence=silence)
            case Connected(holds_lock=held):
                self.lock_taken, self.greeted = held, False
                self.claiming.woken((), monotonic(), silence=0)  # what was told before is lost
                self.duties.hello_said = False  # one said to an earlier session won't be heard
                self.duties.hurry("greet")
            case Greeted(worker=worker):
                self.greeted |= worker == self.worker
                self.duties.hurry("heartbeat")
            case Steered(workers=workers):
                if self.worker in workers:
                    self.duties.hurry("heartbeat")
            case Disconnected():
                self.lock_taken = self.greeted = False
                self.duties.hurry("heartbeat")

    @property
    def holds_lock(self) -> bool:
        """Whether the lock may be taken as a sign that this worker lives."""
        return self.lock_taken and self.greeted

    def nudge(self) -> None:
        """Have the loop look again, from any thread."""
        self.events.put(Nudge())

    # The wheel

    def tick(self) -> float | None:
        """Turn the wheel once; return how long there is nothing to do, or `None` when all is done."""
        if self.stopping and not self.ledger.in_flight:
            return None  # also while the database is away
        self.turning_since = monotonic()
        if self.connection is None:
            self.open()
        self.watch_slots()
        self.cycle()
        self.duties.run_due(self)
        self.moved_on_at = monotonic()
        self.turning_since = None
        if not self.stopping and self.is_done():
            self.stop()
        if self.stopping and not self.ledger.in_flight:
            self.catch_up()
            return None
        return self.seconds_left()

    def cycle(self) -> None:
        """Write what ended and claim for free slots, in one round trip."""
        now = monotonic()
        storing.bring_back(self)
        ended = self.ledger.batch(BATCH)
        finishing = storing.finishing(self, [end for end in ended if not end.stored])
        questions = [] if self.stopping else asking.questions(self, now, ended)
        statements = [*finishing, *(question.statement for question in questions)]
        answers = storing.run(self, statements, ended) if statements else []
        took = monotonic() - now
        ended = [end for end in ended if end.job.id not in self.aside]
        written = {row[0]: row for rows in answers[: len(finishing)] for row in rows}
        self.stored(ended, {**written, **storing.stored_before(self, ended, written)})
        for question, rows in zip(questions, answers[len(finishing) :], strict=True):
            question.take_in(rows, monotonic(), took)
        if not statements or (self.events.empty() and not self.ledger.ended):
            self.catch_up()  # or it is done while the server is at the next batch
        elif len(self.unstarted) <= FEW:
            self.start()

    def stored(self, ended: Sequence[Ended], written: Mapping[int, Sequence[Any]]) -> None:
        """
        Forget runs whose outcome is stored, or was no longer ours to store, and remember to announce them.

        `written` are the rows that came back, by job: its id, and where that was decided there, its state.
        """
        now = monotonic()
        if written:  # by a commit of ours, so after all claims; a transactional body's may be older than some
            self.flush_at = None
        self.board.forget([end.job.id for end in ended])
        for job_id in [end.job.id for end in ended]:
            end, kind = self.ledger.leave(job_id)
            self.moved_at[kind] = now if end.seconds <= SHORT_SECONDS else self.moved_at[kind]
            if end.stored or job_id in written:
                if isinstance(end.outcome, Retried | Snoozed):
                    self.claiming.due_in(end.outcome.after.total_seconds(), now)
                self.untold.append((end, written.get(job_id, (job_id,))))
            else:
                self.ledger.tally["lost"] += 1
                logger.warning(
                    "job %s %s was taken over while attempt %s ran here; what it came to is dropped",
                    job_id,
                    end.job.task_path,
                    end.job.counted_attempt,
                    extra=fields(end.job),
                )
        pass_on(self, [wake_of(e.job, e.job.run_after) for e in ended if isinstance(e.outcome, Released)])

    def catch_up(self) -> None:
        """Hand what was claimed to the slots, and tell what was stored."""
        # While the server is at work, if it can be: slots that begin take turns with this thread, and the
        # server would wait for what is sent next.
        self.start()
        self.tell()

    def tell(self) -> None:
        """Count the outcomes that were stored lately, and have them announced."""
        untold, self.untold = self.untold, []
        for end, row in untold:
            self.announce(self.ledger.conclude(end, row))

    def take(self, jobs: Sequence[ClaimedJob]) -> None:
        """Enter claimed jobs in the books; they begin soon."""
        self.ledger.take(jobs)
        self.unstarted += jobs

    def start(self) -> None:
        """Hand claimed jobs to their slots, or back when the worker was asked to stop in the meantime."""
        jobs, self.unstarted = self.unstarted, []
        if self.stopping:
            self.hand_back(jobs, STOPS)
            return
        for kind in self.tasks if jobs else ():
            if claimed := [job for job in jobs if self.kind_of(job) == kind]:
                self.moved_at[kind] = monotonic()
                self.slots[kind].submit(claimed)

    def kind_of(self, job: ClaimedJob) -> str:
        """Return the kind of slot that runs `job`."""
        return ASYNC if job.task_path in self.async_tasks else SYNC

    def seconds_left(self) -> float:
        """Return how long to wait for events."""
        if self.ledger.ended:
            return 0.0
        left = [self.duties.seconds_left(), *(at - monotonic() for at, _ in self.aside.values())]
        if not self.stopping:
            ledger = self.ledger
            left.append(self.claiming.seconds_left(monotonic(), ledger.free(()), ledger.queue_counts))
            left += [self.flush_at - monotonic()] if self.flush_at is not None else []
        left += [wait for wait in (self.threads.watch(), self.loop_slots.watch()) if wait is not None]
        if self.ledger.timed:
            left.append(WATCH_SECONDS)
        if any(slots.has_waiting() for slots in self.slots.values()):
            left.append(AHEAD_PATIENCE)
        return max(0.0, min(left))

    def watch_slots(self) -> None:
        """Hand back what was claimed ahead and found no slot for long."""
        for kind, slots in self.slots.items():
            if monotonic() - self.moved_at[kind] > AHEAD_PATIENCE and slots.has_waiting():
                self.hand_back(slots.take_back(), "claimed ahead, but every slot stayed busy")
                self.ledger.average[kind] = max(self.ledger.average[kind], 2 * SHORT_SECONDS)

    def runs(self) -> list[Run]:
        """Return what runs now, in all slots."""
        return self.threads.runs() + self.loop_slots.runs()

    def cancel(self, job_id: int) -> None:
        """Tell a running body that its job is to be cancelled."""
        if job_id in self.ledger.in_flight and job_id not in self.ledger.cancel_asked:
            self.ledger.cancel_asked.add(job_id)
            self.loop_slots.cancel(job_id, "cancelled while it ran")

    # Stopping

    def stop(self) -> None:
        """Claim nothing more, hand back what hasn't begun, and end once the rest is over."""
        self.stopping = True
        self.nudge()
        for slots in self.slots.values():
            self.hand_back(slots.take_back(), STOPS)

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
        self.board.publish(path_of(connection.info.dbname, self.worker, now))
        self.duties.on_new_identity()

    def sign_on_again(self) -> None:
        """Go on under a new id: this worker was declared dead, and what ran here is taken over."""
        assert self.connection is not None
        logger.warning("worker %s was declared dead; it registers anew and goes on", self.worker)
        self.lock_taken = self.greeted = False
        self.sign_on(self.connection)

    def take_stock(self) -> None:
        """Hand back jobs that run under this worker's name unknown to it: a claim's answer was lost."""
        assert self.connection is not None
        [rows] = run_together(self.connection, [workers.strays(self.worker, list(self.ledger.in_flight))])
        if rows:
            handing_back = finish.release(self.worker, rows, keep_cancelled=self.keep_cancelled)
            [released] = run_together(self.connection, [handing_back])
            logger.info("%d jobs whose claim got lost with a connection were handed back", len(released))
        self.stocktaking = False

    def reset(self) -> None:
        """Drop the connection after a failure; what it stored and claimed is dealt with before the next."""
        self.catch_up()
        connection, self.connection = self.connection, None
        self.stocktaking, self.turning_since = True, None
        if connection is not None:
            connection.close()

    def cut_if_frozen(self, seconds: float) -> None:
        """Called by another thread: end the connection when a turn of the wheel has taken so long."""
        connection, since = self.connection, self.turning_since
        if connection is None or since is None or monotonic() - since < seconds:
            return
        logger.warning("the database hasn't answered for %.0f s; the dispatcher connects anew", seconds)
        self.turning_since = None  # once is enough
        with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(SHUT_RDWR)

    def close(self, ending: str) -> None:
        """Say that this worker ended, and close the connection."""
        self.tell()
        if self.connection is not None:
            try:
                run_together(self.connection, [workers.sign_off(self.worker, ending)])
            except psycopg.Error as error:
                logger.info("worker %s could not sign off: %s", self.worker, one_line(error))
            self.connection.close()
            self.connection = None
