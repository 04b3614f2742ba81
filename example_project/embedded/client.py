"""
Joining an embedded server: what a process does that wants to connect.

It becomes a user of the server (a shared lock that the kernel drops when the process ends), then looks, one
process at a time, whether a watchdog lives, and starts one if not. Being a user comes first: a watchdog
can't stop a server that has one, and one that is stopping makes us wait until it has gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from example_project.embedded.binaries import installed
from example_project.embedded.server import (
    CHECKOUT,
    POLL_SECONDS,
    EmbeddedServerError,
    Server,
    lock,
    secure,
    try_lock,
)

START_SECONDS = 60.0
"""Longest wait for a start: about one second is usual, a busy machine with a cold disk takes many."""

users: dict[Server, int] = {}
"""Servers this process has joined, each with the descriptor of its lock. Forked children inherit both."""


def join(server: Server) -> None:
    """
    Return once `server` runs, which it will as long as this process or a fork of it lives.

    May be called again, by any thread, at the cost of a few system calls.
    Raises EmbeddedServerError with the end of the server's log when it doesn't start.
    """
    installed(server.version)
    secure(server.base)
    if server not in users:
        users[server] = lock(server.users_lock, shared=True, seconds=START_SECONDS)
    turn = lock(server.start_lock, seconds=START_SECONDS)
    try:
        ensure_running(server)
    finally:
        os.close(turn)


def ensure_running(server: Server) -> None:
    """Wait until `server` is ready; start its watchdog if none lives. One process at a time."""
    deadline = time.monotonic() + START_SECONDS
    started = False
    while True:
        # Free means that no watchdog lives. Taken here and handed to the new one, the lock is never free
        # between the two, so that finding it free after the start means that the start has failed.
        if (descriptor := try_lock(server.watchdog_lock)) is not None:
            try:
                if started:
                    raise failure(server, "stopped while it started")
                start(server, descriptor)
                started = True
            finally:
                os.close(descriptor)
        elif server.is_ready():
            return
        elif time.monotonic() > deadline:
            raise failure(server, f"is not ready after {START_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def start(server: Server, watchdog_lock: int) -> None:
    """Leave a watchdog running behind us; it owns `watchdog_lock` from now on."""
    secure(server.folder)
    server.ready.unlink(missing_ok=True)
    server.log.unlink(missing_ok=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PG", "PYTHON"))
    } | {"PYTHONPATH": str(CHECKOUT)}
    descriptor = os.open(server.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    try:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "example_project.embedded.watchdog",
                f"--base={server.base}",
                f"--name={server.name}",
                f"--version={server.version}",
                f"--lock={watchdog_lock}",
                *(["--throwaway"] if server.throwaway else []),
            ],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            pass_fds=[watchdog_lock],
            start_new_session=True,  # the terminal's Ctrl-C and hang-up are the command's
            check=False,  # it says nothing that its lock and its log don't
        )
    finally:
        os.close(descriptor)


def failure(server: Server, what: str) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The embedded PostgreSQL {server.version} {what}. The end of {server.log}:\n\n"
        f"{server.log_tail()}\n\n"
        f"If the log doesn't tell you what to mend, delete {server.folder} (it holds the example's data and "
        f"nothing else) and try again, or set DATABASE_URL to a PostgreSQL server of yours."
    )
