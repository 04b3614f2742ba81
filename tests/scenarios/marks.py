"""
What bodies leave behind: a row for each begin and end, written at once and outside of any transaction.

The rows prove how often a body began and ended, in which process and when by the database's clock.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from django.db import connections

TABLE = """
    CREATE TABLE scenario_mark (
        id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        event text NOT NULL,
        key text NOT NULL,
        job bigint,
        attempt int,
        pid int NOT NULL,
        at timestamptz NOT NULL DEFAULT clock_timestamp())
"""

INSERT = "INSERT INTO scenario_mark (event, key, job, attempt, pid) VALUES (%s, %s, %s, %s, %s)"


@dataclass(frozen=True, slots=True)
class Mark:
    """One begin or end of a body."""

    event: str
    key: str
    job: int | None
    attempt: int | None
    pid: int
    at: datetime


def address() -> dict[str, Any]:
    """Return what psycopg needs to connect to the queue's database."""
    parameters = dict(connections["default"].get_connection_params())
    return {
        name: value
        for name, value in parameters.items()
        if name not in {"cursor_factory", "context", "prepare_threshold", "pool", "server_side_binding"}
    }


def mark(event: str, key: str, job: int | None = None, attempt: int | None = None) -> None:
    """Leave a mark on a connection of its own, whatever becomes of the body's."""
    with psycopg.connect(**address(), autocommit=True) as connection:
        connection.execute(INSERT, [event, key, job, attempt, os.getpid()])


def mark_here(event: str, key: str, job: int | None = None, attempt: int | None = None) -> None:
    """Leave a mark on the body's own connection, and in its transaction if there is one."""
    with connections["default"].cursor() as cursor:
        cursor.execute(INSERT, [event, key, job, attempt, os.getpid()])


def marks(event: str | None = None, key: str | None = None) -> list[Mark]:
    """Return the marks in order, those of an event or a key only."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT event, key, job, attempt, pid, at FROM scenario_mark"
            " WHERE (%(event)s::text IS NULL OR event = %(event)s)"
            " AND (%(key)s::text IS NULL OR key = %(key)s)"
            " ORDER BY id",
            {"event": event, "key": key},
        )
        return [Mark(*row) for row in cursor.fetchall()]
