"""
One worker in the foreground: started, watched, and stopped by signals in stages.

Used by `runjobs` when it runs in place, and in each child of the supervisor. The first SIGTERM or SIGINT
stops claiming and lets running jobs end; when the grace is over, or a second one comes, what still runs is
handed back.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType
from typing import Any

from django_jobs.core.records import Asked
from django_jobs.core.states import Wish
from django_jobs.telemetry import logger
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker

LOOK_SECONDS = 1.0
"""How often a worker in the foreground is looked at."""

LEAVE_SECONDS = 5.0
"""How long hooks of `atexit` and log handlers may take at the end of a process."""

EXIT_OK = 0
EXIT_BROKEN = 1
"""The worker could not start, or a part of it broke."""
EXIT_HANDED_BACK = 3
"""The grace time ended before the jobs did."""
EXIT_FAILED_JOBS = 4
"""A drain met jobs that failed for good."""
EXIT_NOT_DRAINED = 5
"""A drain ran out of time."""
EXIT_DYING = 6
"""Child processes kept dying."""


Handler = Callable[[int, FrameType | None], Any] | signal.Handlers


@dataclass
class StopSignals:
    """
    Counts the requests to stop, and wakes who waits for one.

    Requests come from signal handlers, which interrupt the thread that waits wherever it is: inside an
    `Event` they would wait for a lock that this thread holds. A `SimpleQueue` may be interrupted anywhere.
    """

    count: int = 0
    news: SimpleQueue[None] = field(default_factory=SimpleQueue)
    poke: Callable[[], None] = lambda: None
    """Called as well, for who waits for something else."""

    def install(self, handlers: Mapping[signal.Signals, Handler]) -> None:
        """Handle signals, where this thread may; elsewhere (embedded, autoreloader) they are not ours."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def ask(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ask to stop; each further time asks to be quicker."""
        self.count += 1
        self.wake()

    def ask_once(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ask to stop; further times change nothing."""
        self.count = max(self.count, 1)
        self.wake()

    def wake(self) -> None:
        """Wake who waits."""
        self.news.put(None)
        self.poke()

    def wait(self, seconds: float) -> None:
        """Wait until something happens, or the time is over."""
        with suppress(Empty):
            self.news.get(timeout=seconds)


def run_worker(
    options: WorkerOptions,
    *,
    stop: StopSignals,
    shutdown_seconds: float,
    look: Callable[[Worker], None],
    started: Callable[[Worker], None] = lambda worker: None,
    identified: Callable[[int], None] = lambda worker: None,
    asked: Callable[[Asked], None] = lambda asked: None,
    timeout: float | None = None,
) -> int:
    """
    Run a worker until it ended by itself or was asked to stop; return the exit status.

    `look` is called every second, `started` once the threads run, `identified` with each id that the worker
    gets, `asked` when someone asked it to end; `timeout` in seconds limits a drain.
    """

    def take_in(wish: Asked) -> None:
        asked(wish)
        if wish.wish == Wish.STOP:
            stop.ask_once()

    worker = Worker(options, on_identity=identified, on_asked=take_in)
    threading.Thread(target=wake_when_over, args=(worker, stop), daemon=True).start()
    worker.start()
    started(worker)
    began = monotonic()
    timed_out = False
    while not worker.ended.is_set() and not stop.count and not timed_out:
        stop.wait(LOOK_SECONDS)
        look(worker)
        timed_out = timeout is not None and monotonic() - began > timeout
    home = finish_worker(worker, stop, shutdown_seconds)
    if worker.dispatcher.loop.error is not None:
        return EXIT_BROKEN
    if timed_out:
        return EXIT_NOT_DRAINED
    if not home:
        return EXIT_HANDED_BACK
    if options.drain and worker.tally["failed"]:
        return EXIT_FAILED_JOBS
    return EXIT_OK


def wake_when_over(worker: Worker, stop: StopSignals) -> None:
    """Wake the foreground when the worker ended by itself."""
    worker.join()
    stop.wake()


def finish_worker(worker: Worker, stop: StopSignals, shutdown_seconds: float) -> bool:
    """Stop the worker; a second request to stop ends the grace. Returns whether all jobs came home."""
    worker.dispatcher.stop()
    deadline = monotonic() + shutdown_seconds
    asked = max(1, stop.count)
    if not worker.ended.is_set():
        logger.info("the worker stops; %d jobs are still running", len(worker.dispatcher.ledger.in_flight))
    while not worker.ended.is_set() and monotonic() < deadline and stop.count <= asked:
        stop.wait(min(LOOK_SECONDS, max(0.0, deadline - monotonic())))
    return worker.finish()


def leave(status: int) -> None:
    """
    End the process now: threads whose bodies never end must not keep it.

    Otherwise as Python ends one: hooks of `atexit` run (error trackers send what is left in theirs), log
    handlers are flushed and closed, and so are the streams. All of it has LEAVE_SECONDS, since a body that
    hangs may hold the lock of a handler.
    """
    last = threading.Timer(LEAVE_SECONDS, os._exit, [status])
    last.daemon = True
    last.start()
    with suppress(Exception):  # each hook's error is printed; the process ends all the same
        atexit._run_exitfuncs()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(status)
