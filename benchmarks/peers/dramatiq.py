"""dramatiq on Redis, in a Django project."""

from __future__ import annotations

import os
from typing import Any

import django
import dramatiq
from dramatiq.brokers.redis import RedisBroker

django.setup()

from benchmarks.peers.marks import mark  # noqa: E402  (needs what is set up above)
from benchmarks.peers.models import look_up  # noqa: E402  (as above)

broker = RedisBroker(url=os.environ["PEERS_REDIS"])
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing(number: int) -> None:
    mark(number)


@dramatiq.actor
def query(number: int) -> None:
    look_up(number)
    mark(number)


ACTORS: dict[str, Any] = {"nothing": nothing, "query": query}


def prepare() -> None:
    """Nothing: the broker makes its keys as they are needed."""


def enqueue(kind: str, number: int) -> None:
    ACTORS[kind].send(number)


def enqueue_many(kind: str, numbers: range) -> None:
    for number in numbers:
        enqueue(kind, number)


def unfinished() -> int:
    # A message stays in this hash until it is acknowledged.
    count: Any = broker.client.hlen("dramatiq:default.msgs")
    return int(count)
