"""How `manage.py jobs` writes: tables, lengths of time, and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from django_jobs.store.counting import Count

CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), 127, *range(128, 160)]}
"""What a terminal could take for a command stands as text; see `plain`."""


NUMBERS = (int, float, Count)
"""What stands to the right in a table."""


def plain(text: object) -> str:
    """Return `text` on one line, without control characters."""
    return str(text).translate(CONTROL)


def lines(text: str) -> list[str]:
    """Return the lines of `text`, without control characters."""
    return [plain(line) for line in text.replace("\t", "    ").split("\n")]


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under headers, indented, in columns as wide as they need; numbers to the right."""
    cells = [[plain(number(cell) if isinstance(cell, Count) else cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [list(headers), *cells]) for column in range(len(headers))]
    numeric = [all(isinstance(row[column], NUMBERS) for row in rows) for column in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        return "  " + "  ".join(padded).rstrip()

    return "\n".join(line(row) for row in [list(headers), *cells])


def span(length: timedelta | float | None) -> str:
    """Return a length of time, in seconds or as a timedelta, in two units at most."""
    if length is None:
        return "-"
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if seconds < 0:
        return f"in {span(-seconds)}"
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, inner, outer_unit, inner_unit in (
        (86_400, 3_600, "d", "h"),
        (3_600, 60, "h", "min"),
        (60, 1, "min", "s"),
    ):
        if whole >= size:
            return f"{whole // size} {outer_unit} {whole % size // inner} {inner_unit}"
    return f"{whole} s"


def moment(when: datetime | None) -> str:
    """Return a point in time, in the project's time zone."""
    if when is None:
        return "-"
    local = timezone.localtime(when) if timezone.is_aware(when) else when
    return local.isoformat(sep=" ", timespec="seconds")


def number(count: int | Count) -> str:
    """Return a number; of an estimate its first two digits, and marked as such."""
    if isinstance(count, Count):
        return f"{count.count:,}" if count.exact else f"about {count.rounded:,}"
    return f"{count:,}"


def some(count: int | Count, noun: str) -> str:
    """Return a count with its noun, in the plural where that is due."""
    return f"{number(count)} {noun}{'' if count in (1, Count(1)) else 's'}"


def to_json(value: Any) -> str:
    """Return `value` as JSON: dataclasses as objects, times in ISO 8601."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=jsonable)


def jsonable(value: Any) -> Any:
    """Return what JSON has for a value of ours."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
