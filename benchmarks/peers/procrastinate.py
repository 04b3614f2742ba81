"""procrastinate, through its integration with Django."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob

from benchmarks.peers.marks import mark
from benchmarks.peers.models import look_up_async


@app.task
async def nothing(number: int) -> None:
    mark(number)


@app.task
async def query(number: int) -> None:
    await look_up_async(number)
    mark(number)


TASKS: dict[str, Any] = {"nothing": nothing, "query": query}


def prepare() -> None:
    call_command("migrate", verbosity=0)


def enqueue(kind: str, number: int) -> None:
    TASKS[kind].defer(number=number)


def enqueue_many(kind: str, numbers: range) -> None:
    TASKS[kind].batch_defer(*({"number": number} for number in numbers))


def unfinished() -> int:
    return ProcrastinateJob.objects.filter(status__in=["todo", "doing"]).count()
