"""The jobs that are measured."""

from __future__ import annotations

import time

from django_jobs import task

SECONDS = 0.04
"""How long a job of the half loaded worker takes."""


@task
def nothing(number: int) -> None:
    """Do nothing, in a thread."""


@task
async def nothing_async(number: int) -> None:
    """Do nothing, on the event loop."""


@task
def query(number: int) -> None:
    """Ask one thing through the ORM."""
    from django.contrib.contenttypes.models import ContentType

    ContentType.objects.filter(pk=number).exists()


@task
def clock(number: int) -> float:
    """Return the time at which the body began."""
    return time.time()


@task
def slow_clock(number: int) -> float:
    """Return the time at which the body began, after waiting for something as most jobs do."""
    began = time.time()
    time.sleep(SECONDS)
    return began
