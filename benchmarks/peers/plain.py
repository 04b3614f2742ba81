"""The query of the queues that don't bring Django: the same statement's work in their own driver."""

from __future__ import annotations

QUERY = "SELECT id, name FROM benchmark_thing WHERE id = "
ROWS = 100


def key(number: int) -> int:
    """Return the row that this job reads."""
    return number % ROWS + 1
