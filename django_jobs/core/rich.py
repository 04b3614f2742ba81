"""
Rich arguments: values beyond JSON, as JSON that says what they were.

For tasks with `encoding="rich"`. `flatten` is applied before `arguments` encodes a call or a return value,
`restore` after it was decoded: what comes back is equal and of the same type, but for named tuples, which
come back as tuples, and for time zones, of which the offset stays. A value beyond JSON becomes
`{"$type": name, "value": …}`; a mapping that JSON can't hold as it is (keys that aren't text, or a key
`$type` of its own) becomes a list of pairs under the name `dict`.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django_jobs.core.arguments import MAX_DEPTH, UndecodableText

MARK = "$type"

WRITERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    timedelta: ("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
    bytes: ("bytes", lambda value: b64encode(value).decode("ascii")),
}
"""By exact type: the name in the JSON, and how a value is written."""

COLLECTIONS: dict[type[Collection[Any]], str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
"""By type: the name in the JSON of what is written as a list of items."""

READERS: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda value: timedelta(days=value[0], seconds=value[1], microseconds=value[2]),
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": lambda value: b64decode(value, validate=True),
    "float": float,
    "tuple": lambda value: tuple(restore(item) for item in value),
    "set": lambda value: {restore(item) for item in value},
    "frozenset": lambda value: frozenset(restore(item) for item in value),
    "dict": lambda value: {restore(key): restore(item) for key, item in value},
}
"""By name in the JSON: how a value is read back."""


def flatten(value: Any, room: int = MAX_DEPTH) -> Any:
    """
    Return `value` as plain JSON values; what is neither rich nor JSON is left as it is, to be refused.

    So is what lies deeper than `room` levels, be it because a value contains itself.
    """
    if writer := WRITERS.get(type(value)):
        name, write = writer
        return {MARK: name, "value": write(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {MARK: "float", "value": float.__repr__(value)}
    if not room:
        return value
    for kind, name in COLLECTIONS.items():
        if isinstance(value, kind):
            return {MARK: name, "value": [flatten(item, room - 1) for item in value]}
    if isinstance(value, Mapping):
        if MARK not in value and all(type(key) is str for key in value):
            return {key: flatten(item, room - 1) for key, item in value.items()}
        pairs = [[flatten(key, room - 1), flatten(item, room - 1)] for key, item in value.items()]
        return {MARK: "dict", "value": pairs}
    if isinstance(value, list):
        return [flatten(item, room - 1) for item in value]
    return value


def restore(value: Any) -> Any:
    """Return what was flattened to `value`. Raises UndecodableText for what we didn't write."""
    if isinstance(value, list):
        return [restore(item) for item in value]
    if not isinstance(value, dict):
        return value
    if MARK not in value:
        return {key: restore(item) for key, item in value.items()}
    reader = READERS.get(value[MARK]) if isinstance(value[MARK], str) else None
    if reader is None or set(value) != {MARK, "value"}:
        raise UndecodableText(
            f"an object with {MARK!r} is no rich value: it must be one of {', '.join(sorted(READERS))}."
        )
    try:
        return reader(value["value"])
    except UndecodableText:  # a value in this one, which it names
        raise
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        # Without the error's own words, which quote the value: it would end up in logs.
        raise UndecodableText(f"a value can't be read as {value[MARK]} ({type(error).__name__})") from None
