"""Bodies that do what no body should, by what they do. Registered with `tests.scenarios.tasks`."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connection, connections, transaction

from django_jobs import task
from tests.scenarios.marks import mark


class Mute(Exception):
    def __init__(self, first: int, second: int) -> None:
        self.fear = lambda: None

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class Cyclic(Exception):
    pass


class Ghost:
    def __del__(self) -> None:
        raise RuntimeError("from __del__")


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def kill_own_session() -> None:
    run("SELECT pg_terminate_backend(pg_backend_pid())")


def close_beneath() -> None:
    connection.ensure_connection()
    connection.connection.close()  # the driver's, without Django's knowledge


def leak_transaction() -> None:
    transaction.atomic().__enter__()
    run("SELECT count(*) FROM django_jobs_job")


def leave_it_aborted() -> None:
    connection.set_autocommit(False)
    try:
        run("SELECT 1/0")
    except Exception:  # noqa: BLE001  (that is the point)
        return


def raise_cyclic() -> None:
    first, second = Cyclic("first"), Cyclic("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def raise_deep() -> None:
    def deeper() -> None:
        deeper()

    deeper()


def raise_group() -> None:
    raise BaseExceptionGroup("many", [ValueError(n) for n in range(200)] + [KeyboardInterrupt()])


def swallow_everything() -> None:
    for kind in (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit):
        try:
            raise kind
        except BaseException:  # noqa: BLE001
            continue


def start_threads() -> None:
    for daemon in (True, False):
        threading.Thread(target=time.sleep, args=(0.2,), daemon=daemon).start()

    def fail() -> None:
        raise ValueError("in a thread of the body's own")

    threading.Thread(target=fail).start()


def handle_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def print_megabytes() -> None:
    print("x" * 3_000_000)
    print("y" * 3_000_000, file=sys.stderr)


def raise_in_del() -> None:
    Ghost()
    gc.collect()


def block_in_c() -> None:
    ctypes.PyDLL(None).usleep(300_000)  # with the interpreter's lock held


def spin() -> None:
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass


def change_the_process() -> None:
    os.environ["PGHOST"] = "nowhere.invalid"
    sys.setrecursionlimit(900)
    threading.stack_size(32768)
    gc.disable()


def close_all_connections() -> None:
    connections.close_all()
    del connections["default"]


def raise_(kind: Callable[[], BaseException]) -> Callable[[], None]:
    def body() -> None:
        raise kind()

    return body


HOW: dict[str, tuple[Callable[[], Any], str]] = {
    "swallows everything": (swallow_everything, "SUCCESSFUL"),
    "sys.exit": (sys.exit, "FAILED"),
    "sys.exit(0)": (raise_(lambda: SystemExit(0)), "FAILED"),
    "KeyboardInterrupt": (raise_(KeyboardInterrupt), "FAILED"),
    "GeneratorExit": (raise_(GeneratorExit), "FAILED"),
    "StopIteration": (raise_(StopIteration), "FAILED"),
    "CancelledError": (raise_(asyncio.CancelledError), "FAILED"),
    "a mute exception": (raise_(lambda: Mute(1, 2)), "FAILED"),
    "a cyclic exception": (raise_cyclic, "FAILED"),
    "a deep recursion": (raise_deep, "FAILED"),
    "a group of exceptions": (raise_group, "FAILED"),
    "an enormous message": (raise_(lambda: ValueError("\0\ud800" * 500_000)), "FAILED"),
    "returns itself": (lambda: HOW, "FAILED"),
    "returns NaN": (lambda: [float("nan")], "FAILED"),
    "closes its connection": (lambda: connection.close(), "SUCCESSFUL"),
    "closes all connections": (close_all_connections, "SUCCESSFUL"),
    "closes the driver's connection": (close_beneath, "SUCCESSFUL"),
    "kills its own session": (kill_own_session, "FAILED"),
    "leaks a transaction": (leak_transaction, "SUCCESSFUL"),
    "leaves an aborted transaction": (leave_it_aborted, "SUCCESSFUL"),
    "changes isolation": (
        lambda: run("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
        "SUCCESSFUL",
    ),
    "changes search_path": (lambda: run("SET search_path = pg_catalog"), "SUCCESSFUL"),
    "makes its session read-only": (lambda: run("SET default_transaction_read_only = on"), "SUCCESSFUL"),
    "changes its role": (lambda: run("SET ROLE pg_monitor"), "SUCCESSFUL"),
    "starts threads": (start_threads, "SUCCESSFUL"),
    "registers signal handlers": (handle_signals, "FAILED"),
    "prints megabytes": (print_megabytes, "SUCCESSFUL"),
    "raises in __del__": (raise_in_del, "SUCCESSFUL"),
    "blocks in C": (block_in_c, "SUCCESSFUL"),
    "spins": (spin, "SUCCESSFUL"),
}
BODIES = {how: state for how, (_, state) in HOW.items()}


@task(takes_context=True, max_attempts=1)
def misbehave(context: Any, how: str) -> Any:
    mark("begin", how, context.job_id, context.attempt)
    return HOW[how][0]()


@task(max_attempts=1)
async def misbehave_async(how: str) -> None:
    await asyncio.sleep(0)
    kinds = {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt, "GeneratorExit": GeneratorExit}
    raise kinds.get(how, asyncio.CancelledError)()


@task(max_attempts=1)
def eat_memory() -> None:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: PTH123, SIM115
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, limits[1]))
    try:
        hoard = [bytearray(10_000_000) for _ in range(1000)]
        del hoard
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@task
def fork(how: str) -> int:
    child = os.fork()
    if child == 0:
        if how == "child exits":
            os._exit(0)
        threading.Timer(1.0, os._exit, [0]).start()  # it goes on as a copy of the body, for a second
        return 0
    return child


@task(takes_context=True, max_attempts=1)
def spin_until(context: Any, key: str) -> None:
    """Take the processor until the gate opens, in pure Python, which never waits."""
    mark("begin", key, context.job_id, context.attempt)
    gate = os.path.join(os.environ["SCENARIO_FOLDER"], f"gate-{key}")  # noqa: PTH118
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for _ in range(20_000):
            pass
        if os.path.exists(gate):  # noqa: PTH110
            return
