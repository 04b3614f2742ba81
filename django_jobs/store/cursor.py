"""What the store needs of a database cursor; psycopg's own and Django's both have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

Statement = tuple[str, Mapping[str, Any]]
"""One SQL text with its parameters, ready to be sent alone or in a pipeline."""

Rows = Sequence[Sequence[Any]]


class Cursor(Protocol):
    """A cursor of psycopg or Django."""

    def execute(self, query: Any, params: Any = None, /) -> Any: ...
    def fetchall(self) -> Any: ...
    def fetchone(self) -> Any: ...
    def copy(self, statement: Any, /) -> Any: ...


def run(cursor: Cursor, statement: Statement) -> Rows:
    """Run one statement that returns rows, and return them."""
    cursor.execute(*statement)
    rows: Rows = cursor.fetchall()
    return rows


def array(numbers: Iterable[int]) -> str:
    """
    Return PostgreSQL's text for an array of whole numbers.

    A tenth of the time that psycopg takes to adapt a list, which counts at thousands of jobs a second.
    """
    return "{" + ",".join(map(str, numbers)) + "}"
