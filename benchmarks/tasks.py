"""The jobs that are measured."""

from __future__ import annotations

import time

from django_jobs import task


@task
def nothing(number: int) -> None:
    """Do nothing, in a thread."""


@task
async def nothing_async(number: int) -> None:
    """Do nothing, on the event loop."""


@task
def clock(number: int) -> float:
    """Return the time at which the body began."""
    return time.time()
