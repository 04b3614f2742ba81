"""
The listener: one connection of its own, on which notifications arrive and the worker's lock is held.

It never runs anything but LISTEN, its lock and a heartbeat, so the socket is always being read: by a plain
`poll` (`select` takes no descriptor above 1023), which a stop can wake, and with a deadline for every
answer, so that a peer that vanished without closing is noticed. What arrives goes to the dispatcher as
`Woken`; bursts are merged there.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Thread
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.types.json import Json

from django_jobs.core.records import Wake
from django_jobs.store.link import KEEPALIVE, SET
from django_jobs.store.notify import asked, greeted, parse
from django_jobs.store.workers import LOCK
from django_jobs.telemetry import logger
from django_jobs.worker.loop import Loop

HEARTBEAT_SECONDS = 15.0
"""How long the session may be silent before it is asked for a sign of life."""

ANSWER_SECONDS = 10.0
"""How long an answer may take before the connection is given up."""

SESSION = {"client_connection_check_interval": "2s", "idle_session_timeout": "0"}
"""So that the server notices soon that this process is gone, and doesn't mind that the session is idle."""


@dataclass(frozen=True, slots=True)
class Woken:
    """One notification: what is there, and for how many seconds its sender may keep silent."""

    wakes: list[Wake]
    silence: float


@dataclass(frozen=True, slots=True)
class Connected:
    """The listener has a session: notifications were missed before, and the lock is held or not."""

    holds_lock: bool


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The listener lost its session, and with it the lock."""


@dataclass(frozen=True, slots=True)
class Greeted:
    """
    A worker's hello arrived. If it is our own, this session is really ours, and no pooler's; if not, another
    worker has started.
    """

    worker: int


@dataclass(frozen=True, slots=True)
class Steered:
    """Someone asked something of these workers; it stands in their rows."""

    workers: list[int]


Heard = Woken | Connected | Disconnected | Greeted | Steered


class Silent(psycopg.OperationalError):
    """The server didn't answer in time."""


class Listener:
    """Listens on `channel` and holds the lock of `worker()`, reconnecting for ever."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        channel: str,
        lock_class: int,
        worker: Callable[[], int],
        tell: Callable[[Heard], None],
    ) -> None:
        self.parameters = parameters
        self.channel = channel
        self.lock_class = lock_class
        self.worker = worker
        self.tell = tell
        self.connection: psycopg.Connection[Any] | None = None
        self.locked_for: int | None = None
        """The worker whose lock the session holds."""
        self.asked_at: float | None = None
        """When the server was last asked for a sign of life; `None` once it answered."""
        self.heard_at = 0.0
        self.stopping = False
        self.wakeup, self.waker = os.pipe()
        self.loop = Loop(
            "listener", tick=self.tick, wait=self.wait, passing=(psycopg.Error, OSError), reset=self.reset
        )
        self.thread = Thread(target=self.loop.run, name="django_jobs-listener", daemon=True)

    def start(self) -> None:
        """Start listening, in a thread."""
        self.thread.start()

    def stop(self, seconds: float) -> None:
        """Close the session, and with it give up the lock."""
        if self.wakeup < 0:
            return  # a second time does nothing
        self.stopping = True
        os.write(self.waker, b"x")
        if self.thread.ident is not None:  # it begins once the worker is registered
            self.thread.join(seconds)
        if not self.thread.is_alive():
            self.close()  # also where the thread broke
            os.close(self.wakeup)
            os.close(self.waker)
            self.wakeup = self.waker = -1

    @property
    def is_connected(self) -> bool:
        """Whether the session is up and answered lately."""
        return (
            self.loop.error is None
            and self.connection is not None
            and (self.asked_at is None or monotonic() - self.asked_at < ANSWER_SECONDS)
        )

    def tick(self) -> float | None:
        """Read what arrived; return how long the socket may be silent."""
        if self.stopping:
            self.close()
            return None
        if self.connection is None:
            self.connect()
        elif self.locked_for != self.worker():
            self.close()  # registered anew: the session goes, and with it the old lock
            self.connect()
        self.read()
        now = monotonic()
        if self.asked_at is not None:
            if now - self.asked_at > ANSWER_SECONDS:
                raise Silent(f"no answer for {ANSWER_SECONDS:.0f} s")
            return ANSWER_SECONDS - (now - self.asked_at)
        if now - self.heard_at >= HEARTBEAT_SECONDS:
            self.ask()
            return ANSWER_SECONDS
        return HEARTBEAT_SECONDS - (now - self.heard_at)

    def wait(self, seconds: float) -> None:
        """Wait until something arrives, the loop is stopped, or the time is over."""
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        if self.connection is not None:
            poll.register(self.connection.fileno(), select.POLLIN)
        readable = dict(poll.poll(max(0.0, seconds) * 1000))
        if self.wakeup in readable:
            os.read(self.wakeup, 100)

    def poke(self) -> None:
        """Have the loop look at once whether the worker has a new registration."""
        os.write(self.waker, b"x")

    def connect(self) -> None:
        """Open the session, listen, take the lock, and tell the dispatcher that it may have missed some."""
        chosen = {**KEEPALIVE, **self.parameters, "autocommit": True, "prepare_threshold": None}
        connection = psycopg.connect(**chosen)
        try:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
            connection.execute(SET, {"settings": Json(SESSION)})
            worker = self.worker()
            row = connection.execute(LOCK, {"lock_class": self.lock_class, "worker": worker}).fetchone()
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        self.locked_for = worker
        self.asked_at = None
        self.heard_at = monotonic()
        self.tell(Connected(holds_lock=bool(row and row[0])))

    def read(self) -> None:
        """Take in what arrived, without waiting. Raises OperationalError when the session is over."""
        assert self.connection is not None
        raw = self.connection.pgconn
        raw.consume_input()
        if raw.status != ConnStatus.OK:
            raise psycopg.OperationalError("the server closed the listener's session")
        while (notification := raw.notifies()) is not None:
            self.heard_at = monotonic()
            text = notification.extra.decode("utf-8", "replace")
            worker, steered = greeted(text), asked(text)
            if worker is not None:
                self.tell(Greeted(worker))
            elif steered is not None:
                self.tell(Steered(steered))
            else:
                self.tell(Woken(*parse(text)))
        while self.asked_at is not None and not raw.is_busy():
            result = raw.get_result()
            if result is None:
                self.asked_at = None
                self.heard_at = monotonic()
            elif result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.OperationalError(result.error_message.decode("utf-8", "replace").strip())

    def ask(self) -> None:
        """Ask the server for a sign of life."""
        assert self.connection is not None
        raw = self.connection.pgconn
        raw.send_query(b"SELECT 1")
        raw.flush()
        self.asked_at = monotonic()

    def reset(self) -> None:
        """Drop the session after a failure."""
        was_connected = self.connection is not None
        self.close()
        if was_connected:
            logger.debug("the listener lost its session")
            self.tell(Disconnected())

    def close(self) -> None:
        """Close the session if there is one."""
        connection, self.connection = self.connection, None
        self.locked_for = None
        if connection is not None:
            connection.close()
