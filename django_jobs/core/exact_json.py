"""
JSON text of plain values, written and read without loss.

`arguments` calls `write` with what it has normalised and `read` with what a row holds. The standard library
is the measure. orjson, where it is installed, does the same faster, and what it can't read or write exactly
goes to the standard library, so that both accept, refuse and give the same.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from math import isfinite
from typing import Any, Never

try:
    orjson: Any = import_module("orjson")
except ImportError:
    orjson = None  # looked at by each call, so that tests may take it away


def read(text: str, *, max_depth: int) -> Any:
    """
    Return the text's value.

    Raises ValueError when it isn't JSON that comes from a value without loss, and RecursionError when lists
    and objects are nested deeper than `max_depth`.
    """
    if orjson is None or has_long_number(text):
        value, is_unrepeated = read_exactly(text), True
    else:
        try:
            value, is_unrepeated = orjson.loads(text), False
        except ValueError:  # only the standard library says what is wrong, so that there is one wording
            value, is_unrepeated = read_exactly(text), True
    # What is left are depth and repeated keys, of which orjson keeps the last. Few brackets and colons, as in
    # most calls, leave room for neither; otherwise the value is counted through.
    colons = text.count(":")
    is_unrepeated = is_unrepeated or colons < 2 or (type(value) is dict and len(value) == colons)
    if is_unrepeated and text.count("[") + text.count("{") <= max_depth:
        return value
    depth, keys = survey(value)
    if depth > max_depth:
        raise RecursionError
    # A key's colon stands behind a quotation mark or a blank. Where no more of them are found than there are
    # keys in the value, none was repeated.
    if is_unrepeated or keys == sum(text.count(f"{mark}:") for mark in '" \t\n\r'):
        return value
    return read_exactly(text)


def write(value: object) -> tuple[str, int]:
    """Return a normalised value's compact JSON and its size in UTF-8 bytes."""
    if orjson is not None:
        try:
            data: bytes = orjson.dumps(value)
        except TypeError:  # a whole number beyond 64 bits: normalise lets nothing else through
            pass
        else:
            return data.decode(), len(data)
    text = WRITER.encode(value)
    return text, len(text) if text.isascii() else len(text.encode())


def read_exactly(text: str) -> Any:
    """Return the text's value by the standard library, which is told to refuse what it would bend."""
    value = READER.decode(text)
    if "\\u" in text:
        WRITER.encode(value).encode()  # UnicodeEncodeError, a ValueError, for half a pair of escapes
    elif not text.isascii():
        text.encode()
    return value


def has_long_number(text: str) -> bool:
    """
    Tell whether `text` may hold a whole number beyond 64 bits, which orjson would read as a float.

    The smallest has 19 digits. Searching costs 20 ns a character; a long text is translated instead (3 ns).
    """
    if len(text) < 64:
        return LONG_NUMBER.search(text) is not None
    return LONG_ZEROS in text.encode().translate(DIGITS_TO_ZEROS)


LONG_NUMBER = re.compile("[0-9]{19}")
LONG_ZEROS = b"0" * 19
DIGITS_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")


def survey(value: object) -> tuple[int, int]:
    """Return how deep lists and dicts in `value` are nested, and how many keys they have together."""
    depth = keys = 0
    level: list[Any] = [value] if type(value) in NESTING else []
    while level:
        depth += 1
        inside: list[Any] = []
        for part in level:
            if type(part) is dict:
                keys += len(part)
                inside += part.values()
            else:
                inside += part
        level = [part for part in inside if type(part) in NESTING]
    return depth, keys


NESTING = frozenset((dict, list))


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object has the same key twice")
    return result


def finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError("a number is too large for a float")
    return number


def refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
READER = json.JSONDecoder(object_pairs_hook=unrepeated, parse_float=finite, parse_constant=refuse_constant)
