"""
The link: a worker's own connection to the queue's tables, and several statements in one round trip.

A pipeline is one transaction and one commit: what ended is written and what is due is claimed together.

Plans are cached with the statements, and a plan made while the table was nearly empty would scan it for
ever, so this session has the plan types switched off that can't be what a statement here means. Behind a
pooler that can't carry prepared statements each plan is made anew, and nothing is set on a session that
others will use. Compiling plans (`jit`) is off too: until PostgreSQL 18, one that needs what is switched off
seems to cost so much that it is compiled at each run, for a tenth of a second at each heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.types.json import Json

from django_jobs.store.cursor import Rows, Statement

SESSION = {
    "application_name": "django_jobs",
    "TimeZone": "UTC",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "jit": "off",
}
"""What a session of our own is set to, whatever the role's or the database's defaults are."""

KEEPALIVE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""So that a server that vanished is noticed within half a minute; the project's own values go first."""

SET = "SELECT set_config(name, value, false) FROM json_each_text(%(settings)s::json) AS setting (name, value)"


def connect(
    parameters: Mapping[str, Any], *, prepare: bool, role: str | None = None
) -> psycopg.Connection[Any]:
    """
    Return a new connection in autocommit mode with the session's settings.

    `prepare` says whether the session is ours alone, so that it may be set up and prepare statements. `role`
    is the one that it acts as, where that isn't the one that logs in.
    """
    chosen = {**KEEPALIVE, **parameters, "autocommit": True, "prepare_threshold": 2 if prepare else None}
    wanted = {**(SESSION if prepare else {}), **({"role": role} if role else {})}
    connection = psycopg.connect(**chosen)
    if wanted:
        try:
            connection.execute(SET, {"settings": Json(wanted)})
        except BaseException:
            connection.close()
            raise
    return connection


def run_together(
    connection: psycopg.Connection[Any],
    statements: Sequence[Statement],
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Rows]:
    """
    Run `statements` in one round trip and one transaction, and return the rows of each.

    `meanwhile` is called while the server is at several of them, before one. It must not raise.
    """
    if len(statements) == 1:
        meanwhile()
        return [connection.execute(*statements[0], binary=True).fetchall()]
    try:
        with connection.pipeline():
            cursors = [connection.execute(*statement, binary=True) for statement in statements]
            meanwhile()
    except psycopg.Error:
        forget_prepared(connection)
        raise
    return [cursor.fetchall() for cursor in cursors]


def forget_prepared(connection: psycopg.Connection[Any]) -> None:
    """
    Have statements prepared anew: of an aborted pipeline, psycopg takes some for prepared that never were.

    It forgets all of them when it sees a ROLLBACK, which here has nothing else to do.
    """
    with suppress(psycopg.Error):  # the connection is broken, and will be dropped
        connection.execute("ROLLBACK")
