"""django_jobs, with async jobs."""

from __future__ import annotations

from benchmarks.peers.marks import mark
from benchmarks.peers.models import look_up_async
from benchmarks.peers.ours import prepare, unfinished
from django_jobs import task

__all__ = ["enqueue", "enqueue_many", "prepare", "unfinished"]


@task
async def nothing_async(number: int) -> None:
    mark(number)


@task
async def query_async(number: int) -> None:
    await look_up_async(number)
    mark(number)


TASKS = {"nothing": nothing_async, "query": query_async}


def enqueue(kind: str, number: int) -> None:
    TASKS[kind].enqueue(number)


def enqueue_many(kind: str, numbers: range) -> None:
    TASKS[kind].enqueue_many((number,) for number in numbers)
