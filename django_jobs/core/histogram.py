"""
Lengths of time counted by class, so that a million runs become a handful of numbers that can be added up.

The first class holds what is shorter than a millisecond; each further one reaches √2 times as far, the last
to three days and beyond. A quantile read off them is wrong by a fifth at the most, mostly by far less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

CLASSES = 56

SHORTEST = 0.001
"""Where the first class ends, in seconds."""

ENDS = [SHORTEST * 2 ** (number / 2) for number in range(CLASSES - 1)]
"""Where each class ends, and the one after it begins, in seconds."""


def class_of(seconds: float) -> int:
    """Return the class that a length of time is counted in."""
    return bisect_right(ENDS, seconds)


def end_of(number: int) -> float:
    """Return where a class ends, in seconds; the one after it begins there."""
    return float(SHORTEST * 2 ** (number / 2))  # of the last one, as if it had one


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the length that `share` of all lie below; `None` for none. Classes count as filled evenly."""
    wanted, seen = share * sum(counts), 0
    for number, count in enumerate(counts):
        if count and seen + count >= wanted:
            begin = end_of(number - 1) if number else 0.0
            return begin + (end_of(number) - begin) * (wanted - seen) / count
        seen += count
    return None
