"""Tasks for `test_promises`."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

from django_jobs import Constant, JobContext, task
from example_project.shop.models import Order

gate = threading.Event()
"""Waited for by the bodies below, so that a test can look while they run."""

keys: list[tuple[int, str]] = []
"""Job and idempotency key of each run of `note_its_key`."""


@task
def waits() -> None:
    assert gate.wait(20)


@task
def waits_after_a_query() -> None:
    Order.objects.count()
    assert gate.wait(20)


@task
async def waits_after_an_async_query() -> None:
    await Order.objects.acount()
    while not gate.is_set():
        await asyncio.sleep(0.01)


@task(takes_context=True, backoff=Constant(timedelta(0)))
def note_its_key(context: JobContext) -> None:
    keys.append((context.job_id, context.idempotency_key))
    if context.attempt < 2:
        raise ValueError("once more")


@task(transactional=True)
def goes_on_later(times: int) -> None:
    """Write something and enqueue itself; the last time, fail after both."""
    Order.objects.create(email="ada@example.com", price_cents=times)
    goes_on_later.using(run_after=timedelta(hours=1)).enqueue(times + 1)
    if times > 1:
        raise ValueError("no")
