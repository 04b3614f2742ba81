"""The scenarios' tasks. Bodies that wait do so for a gate: a file that the test makes."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from django_jobs import Retry, task
from django_jobs.core.backoff import Constant
from tests.scenarios.marks import mark, mark_here

SOON = Constant(timedelta(seconds=0.3), jitter=0)
LIMIT = 60.0
"""Seconds after which a body stops waiting for its gate, so that no process stays for ever."""


def gate(key: str) -> Path:
    """Return the file that opens the gate of `key`."""
    return Path(os.environ["SCENARIO_FOLDER"], f"gate-{key}")


def wait_for(key: str) -> None:
    deadline = time.monotonic() + LIMIT
    never = Event()  # time.sleep fails under libfaketime
    while not gate(key).exists() and time.monotonic() < deadline:
        never.wait(0.01)


@task(takes_context=True)
def quick(context: Any, key: str = "") -> int:
    mark_here("begin", key, context.job_id, context.attempt)
    return os.getpid()


@task(max_attempts=1)
def nothing() -> None:
    """So short that some are claimed ahead."""


@task(takes_context=True, queue_name="mail")
def send(context: Any, key: str = "") -> None:
    mark("begin", key, context.job_id, context.attempt)
    wait_for(key)
    mark("end", key, context.job_id, context.attempt)


@task(takes_context=True, backoff=SOON)
def held(context: Any, key: str, end: bool = True) -> str:
    """Runs until its gate is open; with `end=False` needs no database after its begin."""
    mark("begin", key, context.job_id, context.attempt)
    wait_for(key)
    if end:
        mark("end", key, context.job_id, context.attempt)
    return key


@task(takes_context=True, backoff=SOON)
async def held_async(context: Any, key: str) -> None:
    await asyncio.to_thread(mark, "begin", key, context.job_id, context.attempt)
    deadline = time.monotonic() + LIMIT
    while not gate(key).exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    await asyncio.to_thread(mark, "end", key, context.job_id, context.attempt)


@task(takes_context=True, max_attempts=3, backoff=SOON)
def flaky(context: Any, failures: int) -> None:
    """Fails in its first `failures` attempts."""
    mark("begin", str(failures), context.job_id, context.attempt)
    if context.attempt <= failures:
        raise ValueError(f"attempt {context.attempt} of a flaky job")


@task(takes_context=True, max_attempts=5, backoff=SOON)
def later(context: Any, failures: int) -> None:
    """Asks for another attempt in a second, `failures` times."""
    mark("begin", str(failures), context.job_id, context.attempt)
    if context.attempt <= failures:
        raise Retry("not yet", after=1)


@task(takes_context=True, max_attempts=2, backoff=SOON)
def deadly(context: Any, how: str, times: int = 100) -> None:
    """Ends its own process in its first `times` attempts."""
    mark("begin", how, context.job_id, context.attempt)
    if context.attempt <= times:
        die(how)
    mark("end", how, context.job_id, context.attempt)


def die(how: str) -> None:
    match how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case status:
            os._exit(int(status))


@task(takes_context=True, max_attempts=1, timeout=timedelta(seconds=0.5))
def slow(context: Any, key: str, how: str) -> None:
    """Runs past its timeout: in Python code, in a blocking call, or deaf to every exception."""
    mark("begin", key, context.job_id, context.attempt)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not gate(key).exists():
        try:
            time.sleep(30 if how == "blocked" else 0.01)
        except BaseException:
            if how != "deaf":
                raise


@task(takes_context=True, max_attempts=1, timeout=timedelta(seconds=0.5))
async def slow_async(context: Any, key: str, deaf: bool = False) -> None:
    await asyncio.to_thread(mark, "begin", key, context.job_id, context.attempt)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not gate(key).exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            if not deaf:
                raise


@task(takes_context=True, max_attempts=3, backoff=SOON)
def cancellable(context: Any, key: str, then: str) -> None:
    """Waits until it is cancelled, then returns or fails."""
    mark("begin", key, context.job_id, context.attempt)
    deadline = time.monotonic() + LIMIT
    while not context.is_cancelled and time.monotonic() < deadline:
        time.sleep(0.01)
    mark("cancelled" if context.is_cancelled else "not cancelled", key, context.job_id, context.attempt)
    if then == "fail":
        raise ValueError("interrupted")


@task(takes_context=True, transactional=True, max_attempts=5, backoff=SOON)
def transfer(context: Any, key: str, die_at: str = "") -> None:
    """Writes an effect in its transaction; in its first attempt it kills its process where it is told."""
    mark("begin", key, context.job_id, context.attempt)
    first = context.attempt == 1
    if first and die_at == "before":
        die("kill")
    mark_here("effect", key, context.job_id, context.attempt)
    if first and die_at == "after":
        die("kill")
    if first and die_at == "gate":
        wait_for(key)


@task
def leave_an_orphan(key: str) -> int:
    """Return the status of a subprocess that leaves a process behind, which ends a little later."""
    script = f"(sleep 0.2; touch '{os.environ['SCENARIO_FOLDER']}/orphan-{key}') & exit 7"
    return subprocess.run(["sh", "-c", script], check=False).returncode


from tests.scenarios import hostile  # noqa: E402, F401  (so that workers know its tasks)
