"""
The enqueueing side of a measurement: a process in the queue's environment that does what the runner tells it.

Each line of the standard input is a JSON list, a verb and its arguments; each answer is a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from random import Random
from typing import Any, Protocol


class Queue(Protocol):
    """What each queue's module has."""

    def prepare(self) -> None:
        """Make the queue's tables, as its docs say; called once for a template of the database."""

    def enqueue(self, kind: str, number: int) -> None:
        """Enqueue one job of this kind, `nothing` or `query`, and commit."""

    def enqueue_many(self, kind: str, numbers: range) -> None:
        """Enqueue in whatever way is quick."""

    def unfinished(self) -> int:
        """Return how many jobs the queue itself doesn't show as finished."""


def many(queue: Queue, kind: str, jobs: int) -> None:
    """Enqueue jobs 0 to `jobs`, in pieces of 1,000."""
    for first in range(0, jobs, 1000):
        queue.enqueue_many(kind, range(first, min(first + 1000, jobs)))


def one_by_one(queue: Queue, jobs: int) -> float:
    """Return the jobs/s of one enqueue after another, each with its own commit."""
    queue.enqueue("nothing", 0)
    began = time.perf_counter()
    for number in range(1, jobs):
        queue.enqueue("nothing", number)
    return (jobs - 1) / (time.perf_counter() - began)


def spaced(queue: Queue, first: int, jobs: int, gap_seconds: float) -> list[float]:
    """Enqueue one job after another with pauses, and return when each commit had returned."""
    random = Random(first)
    committed = []
    for number in range(first, jobs):
        queue.enqueue("nothing", number)
        committed.append(time.time())
        # Not in step with anyone's poll.
        time.sleep(gap_seconds * random.uniform(0.5, 1.5))
    return committed


def answer(queue: Queue, verb: str, arguments: list[Any]) -> Any:
    """Do what was asked and return the result. Raises LookupError for a verb that doesn't exist."""
    match verb:
        case "prepare":
            queue.prepare()
        case "many":
            many(queue, *arguments)
        case "one_by_one":
            return one_by_one(queue, *arguments)
        case "spaced":
            return spaced(queue, *arguments)
        case "unfinished":
            return queue.unfinished()
        case _:
            raise LookupError(f"no verb {verb!r}")
    return None


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that whatever the queue prints is no answer
    if "DJANGO_SETTINGS_MODULE" in os.environ:
        import django

        django.setup()
    queue: Any = import_module(os.environ["PEERS_MODULE"])
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        print(json.dumps(answer(queue, verb, arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
