"""Children that the kernel ends with their parent: those of the demo's tether and the server's watchdog."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def sent_at_our_end(number: signal.Signals) -> Callable[[], None] | None:
    """
    Return the `preexec_fn` of a child that is to be sent `number` when we have ended, whatever ended us.

    `None` where no kernel does that. A change of its user would undo it, but `subprocess` makes that before.
    Safe only in a process with one thread.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # too late to be told
            os._exit(1)

    return ask
