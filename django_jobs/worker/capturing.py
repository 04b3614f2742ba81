"""
Capturing: the log lines and the queries of one run, for tasks with the option `capture`.

A run is told from others by a context variable, which follows a body through `await`, `sync_to_async` and
`asyncio.to_thread`, and not into threads that it starts itself. Log records come by one handler, put on the
root logger and on loggers that don't hand on to it, when the first such task runs; what it does with a record
of any other run is to look at that variable. Nothing here may change what a body or another handler does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from json import dumps
from threading import current_thread, main_thread
from time import perf_counter
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_jobs.conf import Settings
from django_jobs.core.records import Captured
from django_jobs.exceptions import JobTimeout
from django_jobs.tasks import LOGS, QUERIES, registry
from django_jobs.worker.traces import storable

LINE_SHARE = 4
"""No line may take more than this part of all bytes."""

FORMATTER = logging.Formatter()
"""Writes the tracebacks of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of one run's log is kept."""

    lines: int = 200
    size_bytes: int = 32_768
    level: int = logging.DEBUG


def limits_of(settings: Settings) -> Limits:
    """Return the part of the settings that is about captures."""
    level = logging.getLevelNamesMapping()[settings.capture_level]
    return Limits(lines=settings.capture_lines, size_bytes=settings.capture_bytes, level=level)


class Capture:
    """What is captured of one run."""

    def __init__(self, parts: Collection[str], limits: Limits) -> None:
        self.logs, self.counts = LOGS in parts, QUERIES in parts
        self.limits = limits
        self.is_open = True
        self.first: list[tuple[float, str, str, str]] = []
        self.last: deque[tuple[int, tuple[float, str, str, str]]] = deque()
        """Lines after the first ones, each with its size in bytes."""
        self.first_bytes = self.last_bytes = self.cut = 0
        self.queries, self.seconds = 0, 0.0

    def around(self, body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a sync body in this thread's present context, and capture what it does."""
        before = running.get()
        running.set(self)
        try:
            if self.logs:
                listen()
            if not self.counts:
                return body(*args, **kwargs)
            with counting():
                return body(*args, **kwargs)
        finally:
            running.set(before)
            self.is_open = False

    async def around_async(self, body: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """`around` for an async body; its queries are counted where `note_connection` sees them."""
        before = running.get()
        running.set(self)
        try:
            if self.logs:
                listen()
            return await body(*args, **kwargs)
        finally:
            running.set(before)
            self.is_open = False

    def take(self, record: logging.LogRecord) -> None:
        """Keep a log record as text: the first ones and the last ones, each up to half of what is allowed."""
        if record.levelno < self.limits.level:
            return
        text = storable(text_of(record), max(1, self.limits.size_bytes // LINE_SHARE))
        line = (round(record.created, 3), storable(record.levelname, 50), storable(record.name, 200), text)
        size = len(text.encode()) + len(line[1]) + len(line[2])
        half = self.limits.size_bytes // 2
        if not self.last and len(self.first) * 2 < self.limits.lines and self.first_bytes + size <= half:
            self.first.append(line)
            self.first_bytes += size
            return
        self.last.append((size, line))
        self.last_bytes += size
        while len(self.first) + len(self.last) > self.limits.lines or self.last_bytes > half:
            self.last_bytes -= self.last.popleft()[0]
            self.cut += 1

    def result(self) -> Captured | None:
        """Return what was captured; `None` when that is nothing."""
        last = list(self.last)  # at once: a thread that the body left behind may be about to add one
        lines = [*self.first, *(line for _, line in last)]
        if not (lines or self.cut or self.counts):
            return None
        return Captured(
            lines=dumps(lines, ensure_ascii=False),
            cut=self.cut,
            cut_at=len(self.first),
            queries=self.queries if self.counts else None,
            query_seconds=self.seconds if self.counts else None,
        )


running: ContextVar[Capture | None] = ContextVar("django_jobs_capture", default=None)
"""What captures the run that the present code belongs to."""


def text_of(record: logging.LogRecord) -> str:
    """Return a record's message, with its traceback; or what went wrong when it was asked for them."""
    try:
        parts = [record.getMessage()]
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(FORMATTER.formatException(record.exc_info))
        if record.stack_info:
            parts.append(record.stack_info)
        return "\n".join(parts)
    except JobTimeout:  # aimed at the body, which just happens to be here
        raise
    except Exception as error:  # noqa: BLE001  (a stranger's object may raise anything)
        plain = record.msg if isinstance(record.msg, str) else ""
        return f"<the record could not be written: {type(error).__name__}> {plain}".rstrip()


class Tap(logging.Handler):
    """Hands records to the capture of the run that they belong to."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Take a record, without the lock that handlers hold: what a run captures is its own."""
        capture = running.get()
        if capture is not None and capture.is_open and capture.logs:
            try:
                capture.take(record)
            except JobTimeout:  # aimed at the body, which just happens to be here
                raise
            except Exception:  # noqa: BLE001  (a record that makes no sense costs its line, not the job)
                capture.cut += 1
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not has_other_handlers(record.name):
            last.handle(record)  # which logging does where there is no handler, and this one is none
        return True


tap = Tap()


def has_other_handlers(name: str) -> bool:
    """Whether records of a logger reach another handler than ours."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(handler is not tap for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def listen() -> None:
    """See that every record reaches our handler; the project may have configured logging anew."""
    known = [
        found for found in list(logging.root.manager.loggerDict.values()) if isinstance(found, logging.Logger)
    ]
    for logger in (logging.root, *(found for found in known if not found.propagate)):
        if tap not in logger.handlers:
            logger.addHandler(tap)


def stop_listening() -> None:
    """Take our handler off all loggers, if it is on them."""
    if tap not in logging.root.handlers:
        return
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.removeHandler(tap)


def count_query(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
    """Around each statement: count it and its time for the run that it belongs to."""
    capture = running.get()
    if capture is None or not (capture.is_open and capture.counts):
        return execute(sql, params, many, context)
    began = perf_counter()
    try:
        return execute(sql, params, many, context)
    finally:
        capture.queries += 1
        capture.seconds += perf_counter() - began


@contextmanager
def counting() -> Iterator[None]:
    """Count the queries of this thread's connections, those to come included; see `note_connection`."""
    there = connections.all(initialized_only=True)
    counted = [connection for connection in there if count_query in connection.execute_wrappers]
    for connection in there:
        count_on(connection)
    try:
        yield
    finally:
        for connection in connections.all(initialized_only=True):
            if connection not in counted and count_query in connection.execute_wrappers:
                connection.execute_wrappers.remove(count_query)


def count_on(connection: BaseDatabaseWrapper) -> None:
    """Have the queries of a connection counted. First of all: `execute_wrapper` takes back the last one."""
    if count_query not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, count_query)


def note_connection(sender: Any, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """
    Have the queries of a new connection counted, if a run that counts opened it.

    Those that async bodies share count for as long as they stand, where any such body is to be captured.
    """
    if running.get() is not None or (is_shared() and counts_async()):
        count_on(connection)


def is_shared() -> bool:
    """Whether this is a thread such as the one that `sync_to_async` keeps, and none of ours."""
    thread = current_thread()
    return thread is not main_thread() and not thread.name.startswith("django_jobs-")


def counts_async() -> bool:
    """Whether there is an async task whose queries are counted."""
    return any(task.is_async and QUERIES in task.captures for task in registry.values())


connection_created.connect(note_connection, dispatch_uid="django_jobs.worker.capturing.note_connection")
