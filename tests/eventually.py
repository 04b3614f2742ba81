"""Waiting for a fact instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.02


def eventually(fact: Callable[[], T], timeout: float = 10) -> T:
    """
    Return what `fact` gives as soon as that is true.

    Raises AssertionError with the last value when it isn't within `timeout` seconds. An AssertionError of
    `fact` itself counts as "not yet", so that it may hold several asserts; any other error is passed on.
    """
    deadline = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= deadline
        try:
            last: object = fact()
        except AssertionError as error:
            last = error
        else:
            if last:
                return last  # type: ignore[return-value]  # it is what `fact` gave
        if late:
            raise AssertionError(f"not so within {timeout} s; the last value was {last!r}")
        time.sleep(PAUSE_SECONDS)
