"""
Process 1: in a container, whoever is it inherits every process whose parent ended, and has to reap it.

A job's subprocess may leave such orphans. Reaping "any child" in the process that runs jobs would take exit
statuses from whoever waits for them there (the supervisor, `subprocess` in a body), so process 1 does nothing
else: it starts the command in a child, hands signals on to it, reaps what ends, and ends as the child does.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from types import FrameType

from django_jobs.worker.connections import close_all

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that process 1 hands on to the command."""


def reap_as_process_1() -> None:
    """
    When this is process 1, go on in a child and never return in process 1 itself; otherwise do nothing.

    To be called once stops are handled, since a stop in between must be heard by one of the two.
    """
    if os.getpid() != 1:
        return
    close_all()  # a connection must not cross into the child
    sys.stdout.flush()
    sys.stderr.flush()
    early: list[int] = []
    handlers = {number: signal.signal(number, lambda got, _: early.append(got)) for number in FORWARDED}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the project's, as with --processes
        child = os.fork()
    if child:
        serve(child, early)
    # A terminal sends Ctrl-C to its whole session; in one of its own the command hears it once.
    os.setsid()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for missed in early:
        signal.raise_signal(missed)


def serve(command: int, early: list[int]) -> None:
    """Hand signals on to `command`, reap everything, and end the process as `command` ends."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        os.kill(command, number)

    for number in FORWARDED:
        signal.signal(number, hand_on)
    for missed in early:
        os.kill(command, missed)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)  # as shells say it
