"""Lists of names as they are kept in JSON, where a stranger may have written something else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def names_in(value: Any) -> list[str]:
    """Return the texts of a list, and no names where there is no list."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def names_or_all(value: Any) -> list[str] | None:
    """Return the names in a list; `None`, which stands for all, stays `None`."""
    return None if value is None else names_in(value)


def texts_by_name(value: Any) -> dict[str, str]:
    """Return the texts of a dict by their names."""
    return {name: str(text) for name, text in value.items()} if isinstance(value, dict) else {}


def numbers_by_name(value: Any) -> dict[str, int]:
    """Return the whole numbers of a dict by their names."""
    numbers = value.items() if isinstance(value, dict) else ()
    return {name: number for name, number in numbers if type(number) is int}


def room(slots: int, limits: Mapping[str, int], queue_name: str) -> int:
    """Return how many jobs of a queue a worker with so many slots runs at once at most."""
    return min(slots, max(0, limits.get(queue_name, slots)))


def takes(queues: Collection[str] | None, excluded: Collection[str], queue_name: str) -> bool:
    """Whether a worker with these queues, or all, but for the excluded ones, takes jobs of `queue_name`."""
    return (queues is None or queue_name in queues) and queue_name not in excluded
