"""Reading in a hurry: what a page shows beside its list is worth some time of the database's, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import OperationalError, connections, transaction
from psycopg.errors import QueryCanceled

from django_jobs.store.cursor import Cursor

T = TypeVar("T")

SET = """
    SELECT current_setting('statement_timeout'), current_setting('enable_bitmapscan'),
           current_setting('enable_seqscan'), current_setting('jit'),
           set_config('statement_timeout', %s, true), set_config('enable_bitmapscan', %s, true),
           set_config('enable_seqscan', %s, true), set_config('jit', %s, true)
"""

SECONDS = 2.0
"""How long one statement may take."""


def hurried(alias: str, read: Callable[[Cursor], T]) -> T | None:
    """Return what `read(cursor)` gives, or `None` when one of its statements took longer than `SECONDS`."""
    try:
        with limited(alias), connections[alias].cursor() as cursor:
            return read(cursor)
    except OperationalError as error:
        if is_too_long(error):
            return None
        raise


def is_too_long(error: OperationalError) -> bool:
    """Whether a statement was ended because its time was up."""
    return isinstance(error.__cause__, QueryCanceled)


@contextmanager
def limited(alias: str, most_seconds: float | None = None) -> Iterator[None]:
    """
    Limit the time of each statement, in a transaction of its own or in the one that is open.

    And each is planned along indexes, as workers' are: of what the planner believes to be few, other plans
    fetch and sort everything where the first rows of an index were asked for. None is compiled: until
    PostgreSQL 18 a plan that can't do without what is switched off seems worth it, and it took 0.6 s a page.
    """
    connection = connections[alias]
    was_open = connection.in_atomic_block
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute(SET, [f"{(most_seconds or SECONDS) * 1000:.0f}", "off", "off", "off"])
        before = cursor.fetchone()[:4]
        yield
        if was_open:
            cursor.execute(SET, before)
