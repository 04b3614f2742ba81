"""The supervisor by itself; with real children it is in `tests/scenarios/`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from django_jobs.worker.foreground import EXIT_OK, StopSignals
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.supervisor import Supervisor

OPEN = Path("/proc/self/fd")


def open_pipes():
    """Return the pipes that this process has open."""
    found = set()
    for descriptor in OPEN.iterdir():
        with suppress(FileNotFoundError):  # that of the list itself
            found.add(str(descriptor.readlink()))
    return {target for target in found if target.startswith("pipe:")}


@pytest.mark.skipif(not OPEN.is_dir(), reason="needs Linux' /proc")
def test_it_closes_what_it_opened():
    before = open_pipes()
    stop = StopSignals(count=1)
    supervisor = Supervisor(
        WorkerOptions(),
        processes=0,
        start_method="fork",
        shutdown_seconds=0,
        look=lambda healthy: None,
        stop=stop,
    )

    assert supervisor.run() == EXIT_OK

    assert open_pipes() <= before
    stop.ask()  # a signal that comes late harms nothing
