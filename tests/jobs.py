"""Tasks for the tests: each does one thing. Those with something to tell put it into `told`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from threading import Event
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from django_jobs import Cancel, Constant, Fail, Retry, Snooze, task
from django_jobs.models import Queue

told: SimpleQueue[Any] = SimpleQueue()
"""What bodies tell the test that runs in their process."""

gates: dict[str, Event] = {}
"""Events that bodies wait for, by name; a test opens them."""


class Unwell(Exception):
    """What bodies here fail with."""


class Mute(Exception):
    """An exception that doesn't say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def gate(name: str) -> Event:
    return gates.setdefault(name, Event())


@task
def ok(*args: Any, **kwargs: Any) -> None:
    """Accept anything."""


@task
def give(value: Any) -> Any:
    return value


@task
def tell(value: Any = None) -> None:
    told.put(value)


@task(max_attempts=3, backoff=Constant(timedelta(0)))
def fail(message: str = "unwell") -> None:
    raise Unwell(message)


@task(max_attempts=1)
def fail_once() -> None:
    raise Unwell("unwell")


RAISED: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "Mute": Mute,
    "LookupError": lambda: LookupError("elsewhere"),
    "KeyError": lambda: KeyError("key"),
    "enormous": lambda: Unwell("x" * 1_000_000 + "end"),
    "NUL": lambda: Unwell("a\0b\ud800c"),
    "unpicklable": lambda: Unwell(lambda: None),
    "Retry": lambda: Retry("not yet", after=timedelta(minutes=7)),
    "Retry by backoff": Retry,
    "Fail": lambda: Fail("hopeless"),
    "Snooze": lambda: Snooze(timedelta(hours=1), "too early"),
    "Snooze in odd words": lambda: Snooze(60, "a\0b\ud800c"),
    "Snooze with a number": lambda: Snooze(60, 7),  # type: ignore[arg-type]
    "Cancel": lambda: Cancel("not wanted"),
    "Cancel in odd words": lambda: Cancel("a\0b\ud800c"),
    "half-made Snooze": lambda: HalfMade(),
}


class HalfMade(Snooze):
    """A Snooze that was never told for how long."""

    def __init__(self) -> None:
        pass


@task(max_attempts=5)
def raising(name: str) -> None:
    raise RAISED[name]()


@task(max_attempts=5)
async def araising(name: str) -> None:
    await asyncio.sleep(0)
    raise RAISED[name]()


@task(retry_on=(LookupError,), fail_on=(KeyError,), max_attempts=5)
def choosy(name: str) -> None:
    raise RAISED[name]()


asked: list[tuple[int, BaseException | None]] = []


def watched_backoff(attempt: int, exception: BaseException | None) -> int:
    asked.append((attempt, exception))
    return 60 * attempt


def broken_backoff(attempt: int, exception: BaseException | None) -> int:
    raise ZeroDivisionError("broken")


@task(backoff=watched_backoff, max_attempts=None)
def backing_off() -> None:
    raise Unwell("unwell")


@task(backoff=broken_backoff)
def badly_backing_off() -> None:
    raise Unwell("unwell")


@task(takes_context=True)
def look(context: Any, *args: Any, **kwargs: Any) -> None:
    """Tell the context."""
    told.put(context)


@task(takes_context=True)
async def alook(context: Any) -> None:
    told.put(context)


@task
async def agive(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


@task(timeout=timedelta(seconds=30))
def timed() -> None:
    """Have a timeout of its own."""


@task(queue_name="slow")
def in_slow_queue() -> None:
    """Have the timeout of its queue."""


@task(transactional=True)
def write_queue(name: str, then: str = "") -> None:
    """Write to the database, then do as told."""
    Queue.objects.create(name=name)
    if then:
        raise RAISED[then]()


@task(transactional=True)
def write_and_wait(name: str, gate_name: str) -> None:
    Queue.objects.create(name=name)
    told.put(name)
    gate(gate_name).wait(20)


@task
def leave_transaction_open() -> None:
    connection.set_autocommit(False)
    Queue.objects.create(name="left open")


@task
def backend_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid: int = cursor.fetchone()[0]
    return pid


@task
def wait_for(name: str) -> str:
    """Wait in short steps, so that a timeout can be raised in between, until the gate opens."""
    told.put(name)
    deadline = time.monotonic() + 20
    while not gate(name).wait(0.01) and time.monotonic() < deadline:
        pass
    return name


@task(timeout=timedelta(milliseconds=50), max_attempts=1)
def overrun(name: str) -> None:
    """Run past the timeout, as `wait_for` does."""
    wait_for.func(name)


@task(timeout=timedelta(milliseconds=50), max_attempts=1)
def swallow_timeout(name: str) -> str:
    """Run past the timeout, and go on as if nothing had happened."""
    try:
        wait_for.func(name)
    except BaseException as error:  # noqa: BLE001  (that is the point)
        told.put(type(error).__name__)
    return "swallowed"


@task(timeout=timedelta(milliseconds=50), max_attempts=1)
def ignore_timeout(name: str) -> None:
    """Wait in C, where no exception can be raised."""
    told.put(name)
    gate(name).wait(20)


@task
def nap(seconds: float) -> None:
    """Take so long."""
    time.sleep(seconds)  # how long its run takes is what counts


inside: list[int] = []


@task
def count_inside(number: int) -> None:
    """Tell how many of these and of `acount_inside` run."""
    inside.append(number)
    time.sleep(0.02)
    told.put(len(inside))
    inside.remove(number)


@task
async def acount_inside(number: int) -> None:
    inside.append(number)
    await asyncio.sleep(0.02)
    told.put(len(inside))
    inside.remove(number)


@task(max_attempts=1)
async def abackend_pid() -> int:
    """Return the server process of the session that async bodies use."""
    pid: int = await sync_to_async(backend_pid.func)()
    return pid


@task
async def await_gate(name: str) -> str:
    told.put(name)
    deadline = time.monotonic() + 20
    while not gate(name).is_set() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return name


@task(timeout=timedelta(milliseconds=50), max_attempts=1)
async def aignore_timeout(name: str) -> None:
    """Go on however often it is cancelled."""
    told.put(name)
    deadline = time.monotonic() + 20
    while not gate(name).is_set() and time.monotonic() < deadline:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


@task(timeout=timedelta(milliseconds=50), max_attempts=1)
async def aoverrun(name: str) -> None:
    await await_gate.func(name)


@task
async def block_loop(name: str) -> None:
    """Hold the event loop until the gate opens."""
    told.put(name)
    gate(name).wait(20)


@task(keep_successful=timedelta(0))
def leave_no_trace() -> None:
    """Be deleted once done."""


@task(takes_context=True)
def wait_for_cancel(context: Any) -> str:
    told.put("waiting")
    deadline = time.monotonic() + 20
    while not context.is_cancelled and time.monotonic() < deadline:
        gate("never").wait(0.01)
    raise Cancel("noticed")


@task(max_attempts=None)
def wait_and_fail(name: str) -> None:
    wait_for.func(name)
    raise Unwell(name)
