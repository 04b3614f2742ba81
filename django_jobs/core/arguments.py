"""
What a job carries, as JSON: its arguments, its return value and its meta.

Enqueueing calls `encode_call` before any SQL, the executor `encode_value` on what the task returned, and
`decode` when it starts a job; between them the text lies in columns of type `json`, which keep it untouched.
Values follow `django.tasks`: mappings become dicts, bytes text, tuples and other sequences lists. What that
leaves is stored exactly or refused, never stored and changed: `decode` gives equal values of the same types,
in the same order of keys. (A `jsonb` column promises less: it sorts keys and turns -0.0 into 0.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Never

from django_jobs.core import exact_json

MAX_DEPTH = 200
"""Lists and dicts inside each other, the outermost counted. A cycle passes it; orjson writes 254."""

MAX_DIGITS = sys.int_info.default_max_str_digits
"""Python refuses to read longer whole numbers, unless told otherwise; the worker may not have been."""

DEEPEST_SHOWN = 12
"""A place with more steps is shown by its first and last ones."""


class Unstorable(Exception):
    """A value that would not come back as it went in; caught as one of the two classes below."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        """Where the value is, for example `args[2]['name'][0]`."""
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place} {self.problem}"


class UnstorableValue(Unstorable, ValueError):
    """The type is right, but this value has no exact JSON."""


class UnstorableType(Unstorable, TypeError):
    """JSON has nothing for values, or keys, of this type."""

    def __str__(self) -> str:
        return f"Unsupported type: {super().__str__()}"  # as Django's own backends begin it


class TooLarge(UnstorableValue):
    """The JSON has more bytes than the settings allow; the place is that of the largest part."""

    def __init__(self, place: str, size_bytes: int, max_bytes: int, whole: str = "") -> None:
        subject = f"is the largest part of {whole}, which has" if whole else "is too large: it has"
        super().__init__(
            place,
            f"{subject} {size_bytes:,} bytes as JSON, over the limit of {max_bytes:,}. "
            f"Store the data elsewhere and pass its key or path.",
        )
        self.args = (place, size_bytes, max_bytes, whole)  # what a copy or a pickle is made from
        self.size_bytes = size_bytes
        self.max_bytes = max_bytes


class UndecodableText(ValueError):
    """A stored text that no call of this module wrote."""


class Refused(Exception):
    """Carries a refusal up to the caller's value, gathering its place on the way: inner steps come first."""

    def __init__(self, error: type[Unstorable], problem: str) -> None:
        super().__init__(problem)
        self.error = error
        self.problem = problem
        self.steps: list[int | str] = []

    def raise_at(self, place: str) -> Never:
        """Raise the public error for `place` and the steps down from it."""
        shown = [f"[{shortened(step) if isinstance(step, str) else step}]" for step in reversed(self.steps)]
        if len(shown) > DEEPEST_SHOWN:
            shown[DEEPEST_SHOWN - 2 : -2] = ["…"]
        raise self.error(place + "".join(shown), self.problem) from None


def normalise(value: object, *, place: str = "value") -> Any:
    """
    Return `value` in plain dicts, lists, text, numbers, booleans and None, as `django.tasks` does.

    Members of enums that are text or numbers, and other subclasses of str, int and float, become plain.

    Raises UnstorableType for other types and for keys that aren't text, UnstorableValue for NUL and lone
    surrogates in text, bytes that aren't UTF-8, NaN and infinity, whole numbers over MAX_DIGITS, two keys
    that become one, and nesting over MAX_DEPTH. The error's place starts with `place`.
    """
    try:
        return plain(value, MAX_DEPTH)
    except Refused as refused:
        refused.raise_at(place)


def encode_call(args: Sequence[object], kwargs: Mapping[str, object], *, max_bytes: int) -> tuple[str, str]:
    """
    Return a call's arguments as two JSON texts, a list's and an object's, of together at most `max_bytes`.

    Raises what `normalise` raises, with places like `args[0]` and `kwargs['name']`, and TooLarge.
    """
    plain_args = normalise(args, place="args")
    plain_kwargs = normalise(kwargs, place="kwargs")
    if type(plain_args) is not list:
        raise UnstorableType("args", f"must be a list or tuple of arguments, not {type(args).__name__}.")
    if type(plain_kwargs) is not dict:
        raise UnstorableType("kwargs", f"must be a dict of arguments, not {type(kwargs).__name__}.")
    args_text, args_bytes = exact_json.write(plain_args)
    kwargs_text, kwargs_bytes = exact_json.write(plain_kwargs)
    if args_bytes + kwargs_bytes > max_bytes:
        sizes = {f"args[{index}]": size_of(part) for index, part in enumerate(plain_args)}
        sizes |= {f"kwargs[{shortened(key)}]": size_of(part) for key, part in plain_kwargs.items()}
        largest = max(sizes, key=sizes.__getitem__, default="args")
        raise TooLarge(largest, args_bytes + kwargs_bytes, max_bytes, "a call")
    return args_text, kwargs_text


def size_of(value: object) -> int:
    """Return how many bytes a normalised value's JSON has."""
    return exact_json.write(value)[1]


def encode_value(value: object, *, place: str, max_bytes: int) -> str:
    """Return `value` as JSON text of at most `max_bytes`; raises what `normalise` raises, and TooLarge."""
    text, size_bytes = exact_json.write(normalise(value, place=place))
    if size_bytes > max_bytes:
        raise TooLarge(place, size_bytes, max_bytes)
    return text


def decode(text: str) -> Any:
    """
    Return the value that was encoded as `text`.

    It may also be a list of several texts, as a claim makes one of args and kwargs; so one level more than
    MAX_DEPTH is read. And it may be a stranger's, inserted by SQL: raises UndecodableText when it isn't JSON,
    is deeper, repeats a key, or holds NaN, a number too large for a float, or a lone surrogate.
    """
    try:
        return exact_json.read(text, max_depth=MAX_DEPTH + 1)
    except (RecursionError, MemoryError):
        problem = f"lists and objects are nested deeper than {MAX_DEPTH}"
    except ValueError as error:
        problem = str(error)
    raise UndecodableText(
        f"The stored JSON ({len(text):,} characters) can't be read: {problem}. It was not written by "
        f"django_jobs; correct it in its row, or delete the job and enqueue it again."
    )


# Plain values. Each kind is tried by its exact type first, the frequent ones before the rare. A place costs
# nothing until something is refused: the position of an item is then the length of what came before it.


def plain(value: Any, room: int) -> Any:
    """Return `value` normalised, with `room` levels of nesting left; raises Refused."""
    kind = type(value)
    if kind is str:
        if not value.isascii() or "\0" in value:
            require_text(value)
        return value
    if kind is int:
        if not -(2**63) <= value < 2**64:
            require_readable(value)
        return value
    if value is None or kind is bool:
        return value
    if kind is dict:
        return plain_dict(value.items(), room)
    if kind is list or kind is tuple:
        return plain_list(value, room)
    return plain_other(value, room)


def plain_list(items: Iterable[object], room: int) -> list[Any]:
    if not room:
        refuse_depth()
    result: list[Any] = []
    try:
        for item in items:
            result.append(plain(item, room - 1))
    except Refused as refused:
        refused.steps.append(len(result))
        raise
    return result


def plain_dict(pairs: Iterable[tuple[object, object]], room: int) -> dict[str, Any]:
    if not room:
        refuse_depth()
    result: dict[str, Any] = {}
    for seen, (given, item) in enumerate(pairs, 1):
        key = plain_key(given)
        try:
            result[key] = plain(item, room - 1)
        except Refused as refused:
            refused.steps.append(key)
            raise
        if len(result) != seen:
            raise Refused(
                UnstorableValue,
                f"has two keys that become {shortened(key)}. Keep one: bytes keys are decoded to text.",
            )
    return result


def plain_key(key: object) -> str:
    if type(key) is str and key.isascii() and "\0" not in key:
        return key
    if not isinstance(key, str | bytes):
        raise Refused(
            UnstorableType,
            f"has the key {shortened(key)} of type {type(key).__name__}, but keys are text. Pass its str().",
        )
    try:
        text: str = plain(key, 0)
    except Refused as refused:
        refused.problem = f"has the key {shortened(key)}, which {refused.problem}"
        raise
    return text


def plain_other(value: object, room: int) -> Any:
    """Return what isn't plain already, in the order in which `django.tasks` tells kinds apart."""
    if isinstance(value, Mapping):
        return plain_dict(value.items(), room)
    if isinstance(value, bytes):
        try:
            return plain(value.decode(), room)
        except UnicodeDecodeError as error:
            raise Refused(
                UnstorableValue,
                f"holds bytes that are no UTF-8 text (at byte {error.start}). Encode them, as with base64.",
            ) from None
    if isinstance(value, str):
        return plain(str.__str__(value), room)
    if isinstance(value, int):
        return plain(int.__int__(value), room)
    if isinstance(value, float):
        if not isfinite(value):
            raise Refused(
                UnstorableValue, f"is {float.__repr__(value)}, which JSON lacks. Pass None or text."
            )
        return float.__float__(value)
    if isinstance(value, Sequence):
        return plain_list(value, room)
    raise Refused(UnstorableType, f"is of type {type(value).__qualname__}, not JSON. {advice_on(value)}")


def require_text(text: str) -> None:
    if "\0" in text:
        raise Refused(
            UnstorableValue,
            f"holds a NUL character (at position {text.index(chr(0))}); PostgreSQL keeps none. Remove it.",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            UnstorableValue,
            f"holds a lone surrogate (at position {error.start}), which is no character. Remove it.",
        ) from None


def require_readable(number: int) -> None:
    digits = min(sys.get_int_max_str_digits() or MAX_DIGITS, MAX_DIGITS)
    if number.bit_length() > 3 * digits and abs(number) >= 10**digits:
        raise Refused(
            UnstorableValue,
            f"is a whole number of more than {digits} digits, which Python refuses to read. Pass hex().",
        )


def refuse_depth() -> Never:
    raise Refused(
        UnstorableValue,
        f"is nested deeper than {MAX_DEPTH} levels. Flatten it, or look for a value that contains itself.",
    )


ADVICE = {
    "date": "Pass its isoformat().",
    "time": "Pass its isoformat().",
    "timedelta": "Pass its total_seconds().",
    "Decimal": "Pass its str().",
    "UUID": "Pass its str().",
    "PurePath": "Pass its str().",
    "Promise": "Pass its str().",
    "Enum": "Pass its value.",
    "Set": "Pass a sorted list.",
    "set": "Pass a sorted list.",
    "frozenset": "Pass a sorted list.",
    "Iterator": "Pass a list.",
    "generator": "Pass a list.",
    "coroutine": "Await it and pass the result.",
    "Model": "Pass its primary key and load it in the task.",
    "QuerySet": "Pass a list of primary keys and load them in the task.",
}
"""By the name of a class or a base of it, so that none of them need be imported."""


def advice_on(value: object) -> str:
    names = (base.__name__ for base in type(value).__mro__)
    return next((ADVICE[name] for name in names if name in ADVICE), "Pass text, a number, a list or a dict.")


def shortened(value: object) -> str:
    """Return `value` as a message may show it: short, and never failing."""
    try:
        shown = repr(value)
    except Exception:  # noqa: BLE001 - a message without it: the error told is the one that matters
        return f"<{type(value).__name__}>"
    return shown if len(shown) <= 60 else shown[:58] + "…" + shown[-1]
