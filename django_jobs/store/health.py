"""
How the tables fare: dead rows, what keeps vacuum from removing them, and whether pruning keeps up.

For the warnings in the admin. Each statement reads PostgreSQL's own figures or one entry of an index. What
sessions of other roles do is seen by roles that are members of `pg_read_all_stats` only.
"""

from __future__ import annotations

from dataclasses import dataclass

from django_jobs.store.cursor import Cursor, run
from django_jobs.store.prune import BEGINNING

TABLE = """
    SELECT n_live_tup, n_dead_tup, pg_total_relation_size(relid)
      FROM pg_stat_user_tables WHERE relid = 'django_jobs_job'::regclass
"""

# Index django_jobs_expiry, up to the statement's own time: one that changes meanwhile couldn't end the walk.
EXPIRED = """
    SELECT EXTRACT(epoch FROM clock_timestamp() - expires_at)::float8
      FROM django_jobs_job
     WHERE expires_at >= %(beginning)s::timestamptz AND expires_at < statement_timestamp()
       AND state IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
     ORDER BY expires_at LIMIT 1
"""

HOLDERS = """
    SELECT session.pid, COALESCE(session.application_name, ''), COALESCE(session.state, ''),
           EXTRACT(epoch FROM clock_timestamp() - session.xact_start)::float8
      FROM pg_stat_activity AS session
     WHERE session.datname = current_database() AND session.pid <> pg_backend_pid()
       AND (session.backend_xmin IS NOT NULL OR session.backend_xid IS NOT NULL)
       AND session.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
       AND session.backend_type = 'client backend'
     ORDER BY session.xact_start LIMIT 3
"""


@dataclass(frozen=True, slots=True)
class Table:
    """The table of jobs, by PostgreSQL's own estimate."""

    live: int
    dead: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A session whose transaction has been open for long."""

    pid: int
    application: str
    state: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Condition:
    """How the tables fare."""

    table: Table
    expired_seconds: float
    """How long ago the job expired that should have been pruned first; 0 for none."""
    holders: list[Holder]


def condition(cursor: Cursor, *, open_for_seconds: float) -> Condition:
    """Return how the tables fare, with the sessions whose transactions are open for longer than that."""
    [table] = run(cursor, (TABLE, {}))
    expired = run(cursor, (EXPIRED, {"beginning": BEGINNING}))
    holders = run(cursor, (HOLDERS, {"seconds": open_for_seconds}))
    return Condition(Table(*table), expired[0][0] if expired else 0.0, [Holder(*row) for row in holders])
