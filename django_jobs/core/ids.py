"""Ids as text: what users, addresses and command lines give for the number of a row."""

from __future__ import annotations

LARGEST_ID = 2**63 - 1

MOST_DIGITS = 19
"""Digits of the largest id; Python refuses to read numbers of some thousands."""


def id_of(text: str) -> int | None:
    """Return the id that `text` writes in digits; `None` for what no row can have."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        return None
    return number if 0 < (number := int(text)) <= LARGEST_ID else None
