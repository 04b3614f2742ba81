"""
Shelter: a body runs in a test as it would in a worker, though the test holds a transaction open around it.

In a worker a body's statements commit one by one, its `on_commit` functions run, and a statement that fails
spoils nothing. Inside a `TestCase` all that is part of one transaction, which never commits. So each body
gets a savepoint, which is gone back to only when the body left the transaction unusable, and what it
registered with `on_commit` is called when it is over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from django_jobs.waking import Notification

logger = logging.getLogger("django_jobs")


@dataclass(frozen=True, slots=True)
class Shelter:
    """An open transaction of the test, as a body found it."""

    connection: BaseDatabaseWrapper
    savepoint: str
    waiting: int
    """How many functions waited for its commit."""

    def leave(self) -> None:
        """Forget the savepoint, or go back to it when nothing else can be done with the transaction."""
        connection = self.connection
        if connection.needs_rollback or is_aborted(connection):
            logger.warning(
                "a statement failed outside of atomic() in the test's transaction on %r: what this body "
                "wrote is undone. In a worker, its earlier statements would stay",
                connection.alias,
            )
            connection.needs_rollback = False
            connection.savepoint_rollback(self.savepoint)
        else:
            connection.savepoint_commit(self.savepoint)

    def commit(self) -> None:
        """Call what waits for a commit since then, and what waits for one after that."""
        while pending := self.connection.run_on_commit[self.waiting :]:
            del self.connection.run_on_commit[self.waiting :]
            for _, function, robust in pending:  # type: ignore[misc]  # the stubs lack the third
                if isinstance(function, Notification):
                    continue  # nobody listens
                try:
                    function()
                except Exception:
                    if not robust:
                        raise
                    logger.exception("a robust on_commit function raised")


def take_shelter() -> list[Shelter]:
    """Set a savepoint in each transaction that is open in this thread."""
    return [
        Shelter(connection, str(connection.savepoint()), len(connection.run_on_commit))
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block and connection.features.uses_savepoints
    ]


def leave(shelters: Sequence[Shelter]) -> None:
    """Leave the transactions usable, and call what waits for a commit. Raises what those functions raise."""
    for shelter in reversed(shelters):
        shelter.leave()
    for shelter in shelters:
        shelter.commit()


def is_aborted(connection: BaseDatabaseWrapper) -> bool:
    """Whether PostgreSQL refuses every statement until a rollback."""
    info = getattr(connection.connection, "info", None)
    return info is not None and info.transaction_status == TransactionStatus.INERROR
