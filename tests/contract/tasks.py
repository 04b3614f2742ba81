"""Tasks of the contract's tests, made by Django's own decorator where our backend is in `TASKS`."""

from __future__ import annotations

import enum
from queue import SimpleQueue
from typing import Any

from django.test import override_settings
from django.utils.module_loading import import_string

from django_jobs import Retry
from django_jobs import task as our_task
from django_jobs.framework import IN_CORE, TaskResultStatus

TASKS = {
    "default": {"BACKEND": "django_jobs.backend.JobsBackend", "QUEUES": ["default", "mail"]},
    "any": {"BACKEND": "django_jobs.backend.JobsBackend", "QUEUES": []},
    "dummy": {
        "BACKEND": f"{'django.tasks' if IN_CORE else 'django_tasks'}.backends.dummy.DummyBackend",
        "QUEUES": [],
    },
}

django_task = import_string(f"{'django.tasks' if IN_CORE else 'django_tasks'}.task")

seen: SimpleQueue[Any] = SimpleQueue()
"""What bodies tell the test."""


class Colour(enum.Enum):
    RED = "red"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("can't be pickled")


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


VALUES: dict[str, Any] = {
    "none": None,
    "empty": ["", [], {}, 0, False],
    "huge": [10**4000, -(2**64), 2**53 + 1],
    "emoji": {"👩‍👩‍👧": "🏳️‍🌈 \u2028 é"},
    "deep": nested(150),
    "megabyte": "x" * 2**20,
    "floats": [1e22, -0.0, 5e-324],
    "backslash": "\\u0000",
}
"""Return values that come back as they are."""

CONVERTED: dict[str, tuple[Any, Any]] = {
    "tuple": ((1, (2,)), [1, [2]]),
    "bytes": (b"text", "text"),
    "enum": (TaskResultStatus.READY, "READY"),
    "range": (range(3), [0, 1, 2]),
}
"""Return values, and what they become."""

REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "object": (object(), TypeError),
    "function": (nested, TypeError),
    "set": ({1}, TypeError),
    "no text as key": ({1: 2}, TypeError),
    "plain enum": (Colour.RED, TypeError),
    "NaN": (float("nan"), ValueError),
    "NUL": ("a\0b", ValueError),
    "surrogate": ({"k": "a\ud800"}, ValueError),
    "bad bytes": (b"\xff", ValueError),
    "too deep": (nested(300), ValueError),
    "too large": ("x" * (5 * 2**20), ValueError),
}
"""Values that can be neither argument nor result, and the error that says so."""

RAISED: dict[str, BaseException] = {
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt("now"),
    "GeneratorExit": GeneratorExit(),
    "mute": Mute(),
    "unpicklable": Unpicklable("x"),
    "NUL": ValueError("a\0b \ud800 c"),
    "long": ValueError("x" * 2**20),
    "group": ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
}


with override_settings(TASKS=TASKS):

    @django_task
    def noop(*args: Any, **kwargs: Any) -> None:
        """Accept anything."""

    @django_task
    def other(*args: Any, **kwargs: Any) -> None:
        """Be another task."""

    @django_task(takes_context=True)
    def attempt(context: Any) -> int:
        seen.put(context)
        number: int = context.attempt
        return number

    @django_task(takes_context=True)
    def look(context: Any) -> None:
        """Tell the context, and what the tables say of the job while it runs."""
        seen.put((context, noop.get_backend().get_result(context.task_result.id)))

    @django_task
    async def double(number: int) -> int:
        return number * 2

    @django_task
    def give(name: str) -> Any:
        return VALUES[name] if name in VALUES else (CONVERTED.get(name) or REFUSED[name])[0]

    @django_task
    def fail(name: str) -> None:
        raise RAISED[name]

    @django_task
    async def fail_async(name: str) -> None:
        raise RAISED[name]

    @django_task
    def note(word: str) -> None:
        seen.put(word)

    @our_task(max_attempts=3, takes_context=True)
    def third_time_lucky(context: Any) -> str:
        """Fail twice, each time with an hour to wait."""
        seen.put(context)
        if context.attempt < 3:
            raise Retry(f"attempt {context.attempt}", after=3600)
        return "lucky"
