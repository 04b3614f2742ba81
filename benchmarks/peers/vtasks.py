"""django-vtasks with its database backend, a job per call."""

from __future__ import annotations

import os
from typing import Any

from django.core.management import call_command
from django_vtasks import task
from django_vtasks.db.models import QueuedTask

from benchmarks.peers.marks import mark
from benchmarks.peers.models import look_up_async

QUEUE = os.environ["PEERS_QUEUE"]


@task(queue_name=QUEUE)
async def nothing(number: int) -> None:
    mark(number)


@task(queue_name=QUEUE)
async def query(number: int) -> None:
    await look_up_async(number)
    mark(number)


TASKS: dict[str, Any] = {"nothing": nothing, "query": query}


def prepare() -> None:
    call_command("migrate", verbosity=0)


def enqueue(kind: str, number: int) -> None:
    TASKS[kind].enqueue(number)


def enqueue_many(kind: str, numbers: range) -> None:
    job = TASKS[kind]
    job.get_backend().enqueue_many([(job, (number,), {}) for number in numbers])


def unfinished() -> int:
    return QueuedTask.objects.count()
