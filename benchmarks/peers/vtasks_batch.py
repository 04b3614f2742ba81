"""django-vtasks with a batch queue: one call of the body gets up to a hundred jobs."""

from __future__ import annotations

from typing import Any

from django_vtasks import task

from benchmarks.peers.marks import mark
from benchmarks.peers.models import look_up_async
from benchmarks.peers.vtasks import QUEUE, prepare, unfinished

__all__ = ["enqueue", "enqueue_many", "prepare", "unfinished"]


@task(queue_name=QUEUE)
async def nothing(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        mark(job["args"][0])


@task(queue_name=QUEUE)
async def query(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        await look_up_async(job["args"][0])
        mark(job["args"][0])


TASKS: dict[str, Any] = {"nothing": nothing, "query": query}


def enqueue(kind: str, number: int) -> None:
    TASKS[kind].enqueue(number)


def enqueue_many(kind: str, numbers: range) -> None:
    job = TASKS[kind]
    job.get_backend().enqueue_many([(job, (number,), {}) for number in numbers])
