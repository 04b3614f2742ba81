"""How large this process is."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Return the resident size of this process; `None` where the system doesn't tell (it has no `/proc`)."""
    try:
        pages = STATM.read_text(encoding="ascii").split()[1]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def memory_bytes() -> int:
    """Return the resident size of this process; its peak where the system tells no more."""
    resident = resident_bytes()
    if resident is not None:
        return resident
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
