"""
The worker: one process' dispatcher, listener and slots, started and stopped together.

Started by `runjobs` (in place or under a supervisor), and by whoever embeds one in a process of theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from threading import Event, Thread
from time import monotonic
from typing import Any

import psycopg
from django.db import connections

from django_jobs import conf
from django_jobs.core.records import Asked, ClaimedJob, Ended
from django_jobs.core.states import Wish
from django_jobs.discovery import discover
from django_jobs.store import finish, link, workers
from django_jobs.store.cursor import Statement
from django_jobs.tasks import registry
from django_jobs.telemetry import logger
from django_jobs.worker.announcer import Announcer
from django_jobs.worker.board import Board
from django_jobs.worker.capturing import limits_of
from django_jobs.worker.claiming import Claiming
from django_jobs.worker.dispatcher import Dispatcher
from django_jobs.worker.drain import is_drained
from django_jobs.worker.duties import Duties, write_figures
from django_jobs.worker.event_loop import AsyncSlots
from django_jobs.worker.executor import Executor, Rules
from django_jobs.worker.listener import Heard, Listener
from django_jobs.worker.memory import memory_bytes
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.registering import registration
from django_jobs.worker.requests import ASYNC, SYNC, Served
from django_jobs.worker.slots import ThreadSlots

ANNOUNCE_SECONDS = 5.0
"""How long receivers of signals may take at the end of a worker."""


class Worker:
    """
    Runs jobs in this process until stopped.

    `start()` returns at once; `join()` waits until the worker ended by itself (drained, recycled, broken);
    `stop(grace)` asks it to end and returns whether every job came home. Works in any thread; signals are
    none of its business.
    """

    def __init__(
        self,
        options: WorkerOptions | None = None,
        *,
        on_identity: Callable[[int], None] = lambda worker: None,
        on_asked: Callable[[Asked], None] | None = None,
    ) -> None:
        self.options = options or WorkerOptions()
        self.on_identity = on_identity
        """Called in the dispatcher's thread with each id that this worker gets."""
        self.on_asked = on_asked or self.end_in_time
        """Called when someone asked this worker to end, after it stopped claiming."""
        self.asked: list[Asked] = []
        """What someone asked this worker to do."""
        self.settings = conf.current()
        discover()
        self.alias = self.options.database or conf.database()
        settings, chosen = self.settings, self.options
        self.listens = settings.notify if chosen.listen is None else chosen.listen
        self.rules = rules_of(settings, self.alias)
        self.executor = Executor(
            self.rules,
            worker=lambda: self.dispatcher.worker,
            is_cancelled=lambda job_id: job_id in self.dispatcher.ledger.cancel_asked,
            settle=self.settle,
        )
        self.limit_of = lru_cache(maxsize=1024)(self.find_limit)
        self.board = Board()
        self.announcer = Announcer(self.alias)
        self.threads = ThreadSlots(
            settings.threads if chosen.threads is None else chosen.threads,
            board=self.board,
            executor=self.executor,
            deliver=self.deliver,
            timeout_of=self.timeout_of,
        )
        self.loop_slots = AsyncSlots(
            settings.async_slots if chosen.async_slots is None else chosen.async_slots,
            board=self.board,
            executor=self.executor,
            deliver=self.deliver,
            timeout_of=self.timeout_of,
        )
        tasks = tasks_by_kind()
        self.duties = Duties(
            settings,
            on_new_identity=self.identified,
            on_asked=self.take_in_wish,
            dead_for_certain=list(chosen.dead_for_certain),
        )
        self.dispatcher = Dispatcher(
            connect=self.connect,
            register=self.register,
            claiming=Claiming(
                served_of(chosen),
                kinds=sorted(tasks),
                queues={task.queue_name for task in registry.values()},
                poll_seconds=chosen.poll_seconds or settings.poll_seconds,
            ),
            threads=self.threads,
            loop_slots=self.loop_slots,
            board=self.board,
            tasks=tasks,
            duties=self.duties,
            announce=self.announce,
            timeout_of=self.timeout_of,
            keep_cancelled=settings.keep_failed,
            max_error_chars=settings.max_error_chars,
            is_done=self.is_done,
        )
        self.listener: Listener | None = None
        self.ended = Event()
        self.thread = Thread(target=self.run, name="django_jobs-dispatcher", daemon=True)
        self.ending = "stopped"
        self.finishing = False
        """Whether whoever runs this worker has begun to hand back what still runs."""

    # Life

    def start(self) -> None:
        """Start the worker's threads."""
        self.threads.start()
        if self.listens:
            self.listener = Listener(
                connection_parameters(self.settings.listen_database or self.alias),
                channel=self.settings.channel,
                lock_class=self.settings.lock_class,
                worker=lambda: self.dispatcher.worker,
                tell=self.heard,
            )
        self.thread.start()
        Thread(target=self.watch, name="django_jobs-watch", daemon=True).start()

    def run(self) -> None:
        """The dispatcher's thread: turn the wheel until all is done."""
        self.dispatcher.loop.run()
        error = self.dispatcher.loop.error
        if error is not None:
            self.ending = f"broken: {error!r}"
            logger.critical("the dispatcher broke; the worker ends", exc_info=error)
        self.ended.set()

    def watch(self) -> None:
        """The watching thread: have a dispatcher that waits for an answer for ever connect anew."""
        while not self.ended.wait(WATCH_SECONDS):
            self.dispatcher.cut_if_frozen(FROZEN_SECONDS)

    def join(self, seconds: float | None = None) -> bool:
        """Wait until the worker ended by itself; return whether it did within `seconds`."""
        return self.ended.wait(seconds)

    def stop(self, grace: timedelta | float = 30.0) -> bool:
        """
        End the worker: claim nothing more, let running jobs end within `grace` (timedelta or seconds), and
        hand back those that didn't. Returns whether all ended by themselves.
        """
        seconds = grace.total_seconds() if isinstance(grace, timedelta) else grace
        self.dispatcher.stop()
        if self.thread.ident is None:  # it never began
            self.ended.set()
        self.ended.wait(seconds)
        return self.finish()

    def finish(self) -> bool:
        """End a worker that was told to stop: hand back what still runs. Returns whether nothing did."""
        self.finishing = True
        home = self.ended.is_set()
        if not home:
            self.hand_back()
        self.close()
        return home

    def hand_back(self) -> None:
        """Hand back what still runs, so that another worker can start it at once."""
        for slots in (self.threads, self.loop_slots):
            slots.take_back()  # or one would begin that is about to run elsewhere
        left = list(self.dispatcher.ledger.in_flight.values())
        logger.warning("%d jobs didn't end in time and are handed back", len(left))
        self.loop_slots.release("the worker stops")
        self.dispatcher.hand_back(left, "the worker stopped before it ended", started=True)
        if not self.ended.wait(HAND_BACK_SECONDS):
            logger.error("the database can't be reached; jobs will be taken over once this worker looks dead")
        self.ending = f"{self.ending}, {len(left)} jobs handed back"

    def take_in_wish(self, asked: Asked) -> None:
        """Do what someone asked this worker to, unless it was asked as much before; in any thread."""
        before = list(self.asked)
        if not all(asked.adds_to(other) for other in before):
            return
        self.asked.append(asked)
        did = "stopped" if asked.wish == Wish.STOP else "drained"
        by = asked.by or "somebody"
        if all(asked.wish > other.wish for other in before):
            self.ending = f"{did}, as {by} asked"
        logger.info("worker %s was asked to %s by %s", self.dispatcher.worker, asked.wish.lower(), by)
        self.dispatcher.stop()
        self.on_asked(asked)

    def end_in_time(self, asked: Asked) -> None:
        """Where nobody else does, hand back what hasn't ended after the time that the settings say."""

        def end() -> None:
            if not self.ended.wait(self.settings.shutdown_seconds) and not self.finishing:
                self.hand_back()

        if asked.wish == Wish.STOP:
            Thread(target=end, name="django_jobs-grace", daemon=True).start()

    def announce(self, ended: Ended) -> None:
        """Count an outcome that is stored, and have the world told."""
        self.duties.counting.count(ended)
        self.announcer.tell(ended)

    def close(self) -> None:
        """Close what `start` opened."""
        self.announcer.stop(ANNOUNCE_SECONDS)
        if self.listener is not None:
            self.listener.stop(2.0)
        self.threads.stop(JOIN_SECONDS)
        self.loop_slots.stop(JOIN_SECONDS)
        if self.dispatcher.connection is not None:
            with suppress(psycopg.Error):  # closing tells of it
                write_figures(self.duties, self.dispatcher)
        self.dispatcher.close(self.ending)
        self.board.close()

    @property
    def is_healthy(self) -> bool:
        """Whether the worker can make progress: its loops move, its database and listener answer."""
        return (
            self.thread.is_alive()
            and self.dispatcher.connection is not None
            and monotonic() - self.dispatcher.moved_on_at < STILL_SECONDS
            and (self.listener is None or self.listener.is_connected)
        )

    @property
    def tally(self) -> Counter[str]:
        """Outcomes so far, by name."""
        return self.dispatcher.ledger.tally

    # What the parts ask of each other

    def identified(self) -> None:
        """Take in that the worker has an id, or a new one: the listener may take the lock for it."""
        self.on_identity(self.dispatcher.worker)
        if self.listener is None:
            return
        if self.listener.thread.ident is None:
            self.listener.start()
        else:
            self.listener.poke()

    def deliver(self, ended: Ended) -> None:
        """Hand the end of a run to the dispatcher."""
        self.dispatcher.events.put(ended)

    def heard(self, event: Heard) -> None:
        """Hand what the listener heard to the dispatcher."""
        self.dispatcher.events.put(event)

    def settle(self, ended: Ended) -> bool:
        """Write an outcome in the open transaction of a transactional body."""
        with connections[self.alias].cursor() as cursor:
            return finish.finish_here(cursor, self.dispatcher.worker, ended)

    def timeout_of(self, job: ClaimedJob) -> float | None:
        """Return the seconds that a run of `job` may take."""
        return self.limit_of(job.task_path, job.queue_name)

    def find_limit(self, task_path: str, queue_name: str) -> float | None:
        """Return the seconds that a run of a task may take from a queue."""
        task = registry.get(task_path)
        limit = None if task is None else self.executor.timeout_of(task, queue_name)
        return None if limit is None else limit.total_seconds()

    def connect(self) -> psycopg.Connection[Any]:
        """Open the dispatcher's connection."""
        return link.connect(
            connection_parameters(self.alias),
            prepare=self.settings.prepared_statements,
            role=connections.settings[self.alias]["OPTIONS"].get("assume_role"),
        )

    def register(self) -> Statement:
        """Return the statement that enters this worker in the database."""
        me = registration(self.options, threads=self.threads.count, async_slots=self.loop_slots.count)
        return workers.register(me, before=self.dispatcher.worker)

    def is_done(self) -> bool:
        """Whether the worker should end by itself: drained, or due to be recycled."""
        chosen = self.options
        if self.listener is not None and self.listener.loop.error is not None:
            raise RuntimeError("the listener broke") from self.listener.loop.error
        if chosen.max_jobs is not None and self.tally.total() >= chosen.max_jobs:
            self.ending = f"recycled after {self.tally.total()} jobs"
            return True
        # Not before it has run a job: with a limit that is too low, processes would do nothing but start.
        worked = bool(self.tally)
        if worked and chosen.max_memory_bytes is not None and memory_bytes() > chosen.max_memory_bytes:
            self.ending = f"recycled at {memory_bytes() // 2**20} MB"
            return True
        stuck = len(self.threads.stuck) + len(self.loop_slots.stuck)
        if chosen.recyclable and stuck:
            self.ending = f"recycled with {stuck} stuck bodies"
            return True
        if chosen.drain and is_drained(self.dispatcher):
            self.ending = "drained"
            return True
        return False


JOIN_SECONDS = 1.0
"""How long threads may take to close their sessions at the end of a worker."""

HAND_BACK_SECONDS = 5.0
"""How long the database may take to store that jobs were handed back."""

STILL_SECONDS = 30.0
"""How long the dispatcher may be busy with one turn before the worker counts as stuck."""

WATCH_SECONDS = 5.0
"""How often the dispatcher is looked at."""

FROZEN_SECONDS = 65.0
"""How long the dispatcher may wait for an answer: longer than the limit of its statements (store/link.py). A
connection may be open at both ends and carry nothing; TCP can't tell when something in between answers."""


def rules_of(settings: conf.Settings, alias: str) -> Rules:
    """Return the executor's part of the settings."""
    return Rules(
        database=alias,
        backoff=settings.backoff,
        timeout=settings.timeout,
        queue_timeouts=settings.queue_timeouts,
        transactional_timeout=settings.transactional_timeout,
        keep_successful=settings.keep_successful,
        keep_failed=settings.keep_failed,
        max_error_chars=settings.max_error_chars,
        max_argument_bytes=settings.max_argument_bytes,
        capture=limits_of(settings),
    )


def served_of(options: WorkerOptions) -> Served:
    """Return which queues the options name."""
    names = None if options.queues is None else frozenset(options.queues)
    return Served(names, frozenset(options.excluded_queues), options.limits)


def tasks_by_kind() -> dict[str, list[str]]:
    """Return the dotted paths of all registered tasks, by the kind of slot that runs them."""
    found: dict[str, list[str]] = {SYNC: [], ASYNC: []}
    for path, task in sorted(registry.items()):
        found[ASYNC if task.is_async else SYNC].append(path)
    return {kind: paths for kind, paths in found.items() if paths} or {SYNC: []}


def connection_parameters(alias: str) -> dict[str, Any]:
    """Return how Django would connect to `alias`, as psycopg takes it, without what is Django's own."""
    wrapper = connections.create_connection(alias)
    parameters: dict[str, Any] = dict(wrapper.get_connection_params())
    for name in ("cursor_factory", "context", "prepare_threshold", "pool"):
        parameters.pop(name, None)
    return parameters
