"""Celery on Redis, in a Django project: Celery sees the settings module and looks after the connections."""

from __future__ import annotations

import os
from typing import Any

import django
from celery import Celery
from redis import Redis

django.setup()

from benchmarks.peers.marks import mark  # noqa: E402  (needs what is set up above)
from benchmarks.peers.models import look_up  # noqa: E402  (as above)

URL = os.environ["PEERS_REDIS"]
app = Celery("peers", broker=URL)
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True


@app.task
def nothing(number: int) -> None:
    mark(number)


@app.task
def query(number: int) -> None:
    look_up(number)
    mark(number)


TASKS: dict[str, Any] = {"nothing": nothing, "query": query}
redis = Redis.from_url(URL)


def prepare() -> None:
    """Nothing: the broker makes its keys as they are needed."""


def enqueue(kind: str, number: int) -> None:
    TASKS[kind].delay(number)


def enqueue_many(kind: str, numbers: range) -> None:
    for number in numbers:
        enqueue(kind, number)


def unfinished() -> int:
    counts: Any = (redis.llen("celery"), redis.hlen("unacked"))
    return sum(counts)
