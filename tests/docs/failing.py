"""A task for each row of the table in docs/explanation/failures.md, run by `test_failures`."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

from django_jobs import (
    Cancel,
    Constant,
    Fail,
    JobContext,
    JobTimeout,
    Retry,
    Snooze,
    task,
)

AN_HOUR = Constant(timedelta(hours=1), jitter=0)
"""So long that one drain sees one run only."""


class Unwanted(Exception):
    """An exception that `retry_on` or `fail_on` names."""


@task(backoff=AN_HOUR)
def raises() -> None:
    raise ValueError("no")


@task(max_attempts=1)
def raises_in_its_last_attempt() -> None:
    raise ValueError("no")


@task(retry_on=(Unwanted,))
def raises_what_retry_on_does_not_name() -> None:
    raise ValueError("no")


@task(fail_on=(Unwanted,))
def raises_what_fail_on_names() -> None:
    raise Unwanted("no")


@task(backoff=AN_HOUR, retry_on=())
def asks_for_a_retry() -> None:
    raise Retry("not yet", after=timedelta(minutes=7))


@task(max_attempts=1)
def asks_for_a_retry_in_its_last_attempt() -> None:
    raise Retry("not yet", after=timedelta(minutes=7))


@task
def fails_itself() -> None:
    raise Fail("no such address")


@task
def snoozes() -> None:
    raise Snooze(timedelta(minutes=7), "the shop is closed")


@task
def cancels_itself() -> None:
    raise Cancel("nobody wants it")


@task(backoff=AN_HOUR, timeout=timedelta(seconds=0.3), retry_on=())
def takes_too_long() -> None:
    while True:
        time.sleep(0.01)


@task(backoff=AN_HOUR, timeout=timedelta(seconds=0.3), retry_on=())
async def awaits_too_long() -> None:
    await asyncio.sleep(60)


@task(timeout=timedelta(seconds=0.3), fail_on=(JobTimeout,))
def takes_too_long_for_good() -> None:
    while True:
        time.sleep(0.01)


@task
def returns_what_cannot_be_stored() -> object:
    return object()


@task
def returns() -> int:
    return 7


begun = threading.Event()
"""Set by the bodies below once they run."""
go_on = threading.Event()
"""Waited for by them."""


@task(takes_context=True)
def runs_until_told(context: JobContext) -> str:
    """Wait until the test lets it end."""
    begun.set()
    assert go_on.wait(20)
    return "done"


@task(takes_context=True, backoff=AN_HOUR)
def fails_once_told(context: JobContext) -> None:
    begun.set()
    assert go_on.wait(20)
    raise ValueError("no")


@task(takes_context=True)
def looks_whether_it_is_cancelled(context: JobContext) -> None:
    begun.set()
    for _ in range(2000):
        if context.is_cancelled:
            raise Cancel("asked to stop")
        time.sleep(0.01)


@task
async def sleeps_on_the_loop() -> None:
    begun.set()
    await asyncio.sleep(60)
