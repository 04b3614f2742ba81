"""huey on Redis, in a Django project."""

from __future__ import annotations

import os
from typing import Any

import django
from huey import RedisHuey

django.setup()

from benchmarks.peers.marks import mark  # noqa: E402  (needs what is set up above)
from benchmarks.peers.models import look_up  # noqa: E402  (as above)

huey = RedisHuey("peers", url=os.environ["PEERS_REDIS"], results=False)


@huey.task()
def nothing(number: int) -> None:
    mark(number)


@huey.task()
def query(number: int) -> None:
    look_up(number)
    mark(number)


TASKS: dict[str, Any] = {"nothing": nothing, "query": query}


def prepare() -> None:
    """Nothing: the broker makes its keys as they are needed."""


def enqueue(kind: str, number: int) -> None:
    TASKS[kind](number)


def enqueue_many(kind: str, numbers: range) -> None:
    for number in numbers:
        enqueue(kind, number)


def unfinished() -> int:
    # It acknowledges nothing: a job has left the queue once it has begun.
    return int(huey.pending_count())
