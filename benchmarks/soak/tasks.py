"""The jobs of a soak. Each leaves marks that prove how often its body began, and what it did."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from django_jobs import Constant, task

AGAIN = Constant(timedelta(seconds=0.2), jitter=0.5)
INSERT = "INSERT INTO soak_mark (event, job, attempt, pid) VALUES (%s, %s, %s, %s)"


def mark(event: str, context: Any) -> None:
    """Leave a mark, on the body's own connection and in its transaction if it has one."""
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [event, context.job_id, context.attempt, os.getpid()])


@task(takes_context=True, max_attempts=None, backoff=AGAIN)
def work(context: Any, seconds: float) -> None:
    mark("begin", context)
    time.sleep(seconds)
    mark("end", context)


@task(takes_context=True, max_attempts=None, backoff=AGAIN)
async def work_async(context: Any, seconds: float) -> None:
    await sync_to_async(mark)("begin", context)
    await asyncio.sleep(seconds)
    await sync_to_async(mark)("end", context)


@task(takes_context=True, max_attempts=None, backoff=AGAIN, transactional=True)
def transfer(context: Any, seconds: float) -> None:
    mark("effect", context)
    time.sleep(seconds)


@task(takes_context=True, max_attempts=None, backoff=AGAIN)
def fail_sometimes(context: Any, failures: int) -> None:
    mark("begin", context)
    if context.attempt <= failures:
        raise ValueError("not yet")


@task(takes_context=True, max_attempts=4, backoff=AGAIN)
def deadly(context: Any, deaths: int) -> None:
    mark("begin", context)
    if context.attempt <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)


@task(keep_successful=timedelta(0))
def nothing(number: int) -> None:
    """Do nothing: millions of these show whether anything grows."""


@task(keep_successful=timedelta(0))
async def nothing_async(number: int) -> None:
    """Do nothing, on the event loop."""
