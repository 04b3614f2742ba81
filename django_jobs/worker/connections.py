"""
Django's connections in the threads that run bodies: checked before each job, cleaned after it.

A job must never fail because an idle connection was cut meanwhile, and never see what another one left.
"""

from __future__ import annotations

import ctypes
import re
import select
from collections.abc import Awaitable, Collection
from threading import current_thread, local, main_thread
from time import monotonic
from typing import Any
from weakref import ref

import psycopg
from asgiref.sync import sync_to_async
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.pq import TransactionStatus

from django_jobs.telemetry import logger


class Mine(local):
    """What is known of the connections of one thread."""

    def __init__(self) -> None:
        self.opened: dict[str, BaseDatabaseWrapper] | None = None
        """What was opened here, by alias; `None` where nobody keeps track, so that Django must be asked."""
        self.changed: set[str] = set()
        """Aliases whose sessions the present job has changed."""


mine = Mine()


def keep_track() -> None:
    """Keep track of what this thread opens: asking Django takes 4 µs, also where there is nothing."""
    mine.opened = {connection.alias: connection for connection in connections.all(initialized_only=True)}


def opened() -> Collection[BaseDatabaseWrapper]:
    """Return the connections of this thread."""
    if mine.opened is None:
        return connections.all(initialized_only=True)
    return list(mine.opened.values()) if mine.opened else ()


class Asked(ctypes.Structure):
    """What the C library's `poll` is asked of one file: its `struct pollfd`."""

    _fields_ = (("descriptor", ctypes.c_int), ("events", ctypes.c_short), ("answer", ctypes.c_short))


def check_connections() -> None:
    """Drop this thread's connections that can't be used any more, so that the job opens new ones."""
    for connection in opened():
        if connection.connection is not None and is_unfit(connection):
            drop(connection)


def is_unfit(connection: BaseDatabaseWrapper) -> bool:
    """Whether a connection was cut, is over CONN_MAX_AGE, or had an error that Django would look into."""
    return connection.errors_occurred or is_old(connection) or is_cut(connection)


def is_old(connection: BaseDatabaseWrapper) -> bool:
    """Whether CONN_MAX_AGE is over; a slot that is never idle wouldn't notice. 0 is over once it is idle."""
    age, close_at = connection.settings_dict["CONN_MAX_AGE"], connection.close_at
    return bool(age) and close_at is not None and monotonic() >= close_at


def is_cut(connection: BaseDatabaseWrapper) -> bool:
    """
    Whether an idle connection was cut by its server.

    An idle PostgreSQL session has nothing to say but its last words, so a readable socket means that it is
    over; looking costs a microsecond, where asking the server would cost a round trip. Python's own `poll`
    lets go of the interpreter's lock, which takes long to come back while other threads run bodies.
    """
    raw = connection.connection
    if getattr(raw, "closed", False):
        return True
    try:
        asked = Asked(raw.fileno(), select.POLLIN)
        answers: int = ctypes.pythonapi.poll(ctypes.byref(asked), ctypes.c_ulong(1), 0)
        return answers > 0 or asked.descriptor < 0
    except (OSError, ValueError, AttributeError, psycopg.Error):
        return connection.vendor == "postgresql"


def tidy_connections(task_path: str) -> None:
    """Roll back and drop what a job left open, close sessions that it changed, and forget its queries."""
    spoilt, mine.changed = mine.changed, set()
    for connection in opened():
        connection.queries_log.clear()
        if connection.connection is not None and is_left_open(connection):
            logger.warning(
                "task %s left a transaction open on the database %r; it was rolled back",
                task_path,
                connection.alias,
                extra={"task": task_path},
            )
            drop(connection)
        elif connection.alias in spoilt:
            logger.debug("task %s changed its session on %r; it is closed", task_path, connection.alias)
            drop(connection)


def is_left_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether a job that is over left a transaction open, or autocommit other than it was."""
    if connection.in_atomic_block or connection.get_autocommit() != connection.settings_dict["AUTOCOMMIT"]:
        return True
    info = getattr(connection.connection, "info", None)
    return info is not None and info.transaction_status not in (
        TransactionStatus.IDLE,
        TransactionStatus.UNKNOWN,
    )


def drop(connection: BaseDatabaseWrapper) -> None:
    """Close a connection and forget its wrapper, whose state can't be trusted any more."""
    alias = connection.alias
    connection.in_atomic_block = False
    try:
        connection.close()
    except Error as error:  # it is gone either way
        logger.debug("closing a connection to %r: %s", alias, error)
    if mine.opened is not None:
        mine.opened.pop(alias, None)
    if connections[alias] is connection:
        del connections[alias]


def leave_idle(*, close: bool = False) -> None:
    """Before a thread waits for work: close what CONN_MAX_AGE says, or with `close` all it has."""
    for connection in connections.all(initialized_only=True):
        try:
            if close:
                connection.close()
            else:
                connection.close_if_unusable_or_obsolete()
        except Error:
            drop(connection)


LASTING = re.compile(
    r"\s*(?:SET\s+(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b)|RESET\b|LISTEN\b|PREPARE\s+(?!TRANSACTION\b)"
    r"|CREATE\s+(?:LOCAL\s+|GLOBAL\s+)?TEMP)",
    re.IGNORECASE,
)
"""Statements whose effect stays with the session, beyond their transaction."""


def is_lasting(sql: str) -> bool:
    """Whether a statement changes the session beyond its transaction. Cheap: bodies may run very many."""
    if "advisory_lock" in sql or "set_config(" in sql:
        return True
    return LASTING.match(sql) is not None


def watch_session(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
    """Around each statement of a body: note that it changes the session, which no other job may then use."""
    if is_lasting(sql if isinstance(sql, str) else str(sql)):
        mine.changed.add(context["connection"].alias)
    return execute(sql, params, many, context)


def close_all() -> None:
    """Close every connection and pool of this thread: before a fork none may be open."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        close_pool = getattr(connection, "close_pool", None)
        if close_pool is not None:
            close_pool()


def open_transactions() -> list[str]:
    """Return the aliases on which this thread is inside a transaction."""
    return [
        connection.alias
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block or (connection.connection is not None and is_left_open(connection))
    ]


def is_djangos(connection: BaseDatabaseWrapper) -> bool:
    """Whether it is the one that Django has for its alias, and no copy, which is for its maker to close."""
    return any(known is connection for known in connections.all(initialized_only=True))


bridged: list[ref[BaseDatabaseWrapper]] = []
"""Connections that others than our threads opened: async bodies, in the thread that `sync_to_async` keeps."""


def note_bridged(sender: Any, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Remember a connection that was opened in a thread that isn't ours."""
    thread = current_thread()
    if mine.opened is not None and is_djangos(connection):
        mine.opened[connection.alias] = connection
    if thread is not main_thread() and not thread.name.startswith("django_jobs-"):
        bridged[:] = [known for known in bridged if known() not in (None, connection)]
        bridged.append(ref(connection))
    elif thread.name.startswith("django_jobs-") and watch_session not in connection.execute_wrappers:
        connection.execute_wrappers.append(watch_session)


connection_created.connect(note_bridged, dispatch_uid="django_jobs.worker.connections.note_bridged")


def check_bridged_connections() -> Awaitable[None] | None:
    """
    `check_connections` for what async bodies use: return what to await, if anything.

    A hop into the thread of those connections takes as long as many a body, so it is made only when one of
    them looks unfit from here: it may just be in use.
    """
    for known in bridged:
        connection = known()
        if connection is not None and connection.connection is not None and is_unfit(connection):
            return sync_to_async(check_connections)()
    return None


async def leave_bridged_connections_idle() -> None:
    """`leave_idle`, in the thread in which async bodies use the database, if they ever did."""
    if bridged:
        await sync_to_async(leave_idle)()
