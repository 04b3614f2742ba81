"""Tasks that people look at, and run by hand. Both the site and its workers know them."""

from __future__ import annotations

import logging
import os
import time
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from django_jobs import task

LIMIT = 60.0
"""Seconds after which a body stops waiting for its gate, so that no process stays for ever."""


logger = logging.getLogger("shop")


@task(queue_name="mail", max_attempts=1, capture=True)
def held(key: str, fails: bool = False) -> str:
    """Run until its gate, a file that the test makes, is there."""
    logger.warning("waiting for %s", key)
    gate = Path(os.environ["SCENARIO_FOLDER"], f"gate-{key}")
    deadline = time.monotonic() + LIMIT
    while not gate.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    if fails:
        raise ValueError(f"{key} was to fail")
    return key


@task(encoding="rich", queue_name="mail")
def each_kind(
    number: int,
    share: float,
    price: Decimal,
    day: date,
    text: str,
    flag: bool,
    size: Literal["s", "m"],
    note: str | None,
    lines: list[Any],
    times: int = 3,
    **more: Any,
) -> None:
    """Take one of each kind."""
