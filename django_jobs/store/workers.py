"""
Workers in the database: registration, heartbeat, and the lock that shows at once that a process died.

A worker that lives is one whose row says so. Its row is renewed by heartbeats; besides, its listener's
session holds an advisory lock, which PostgreSQL frees within milliseconds when the process dies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django_jobs.store.cursor import Statement

# What the same process was asked to do under an earlier id, or all of its `runjobs`, is asked of it too.
REGISTER = """
    INSERT INTO django_jobs_worker (
        name, host, pid, supervisor, supervisor_pid, queues, excluded_queues, limits, tasks, threads,
        async_slots, versions, state, holds_lock, started_at, heartbeat_at, ending, takes_requests,
        asked_to, asked_all, asked_at, asked_by)
    SELECT %(name)s, %(host)s, %(pid)s, %(supervisor)s, %(supervisor_pid)s, %(queues)s::jsonb,
           %(excluded_queues)s::jsonb, %(limits)s::jsonb, %(tasks)s::jsonb, %(threads)s, %(async_slots)s,
           %(versions)s::jsonb, 'RUNNING', false, clock_timestamp(), clock_timestamp(), '', true,
           COALESCE(before.asked_to, ''), COALESCE(before.asked_all, false), before.asked_at,
           COALESCE(before.asked_by, '')
      FROM (SELECT) AS me
      LEFT JOIN LATERAL (
           SELECT asked_to, asked_all, asked_at, asked_by FROM django_jobs_worker
            WHERE asked_to <> ''
              AND (id = %(before)s OR (asked_all AND supervisor = NULLIF(%(supervisor)s, '')))
            ORDER BY asked_to DESC, asked_all DESC, id LIMIT 1) AS before ON true
 RETURNING id, started_at
"""

HEARTBEAT = """
    UPDATE django_jobs_worker
       SET heartbeat_at = clock_timestamp(), state = %(state)s, holds_lock = %(holds_lock)s,
           memory_bytes = %(memory)s
     WHERE id = %(worker)s AND state IN ('RUNNING', 'STOPPING')
 RETURNING clock_timestamp(), (SELECT count(*) FROM django_jobs_worker AS other
             WHERE other.state IN ('RUNNING', 'STOPPING') AND other.id <> %(worker)s),
           asked_to, asked_all, asked_by
"""

SIGN_OFF = """
    UPDATE django_jobs_worker
       SET state = 'STOPPED', stopped_at = clock_timestamp(), holds_lock = false, ending = %(ending)s
     WHERE id = %(worker)s AND state IN ('RUNNING', 'STOPPING')
 RETURNING id
"""

# The second key is the worker's id, folded into PostgreSQL's integer.
LOCK = "SELECT pg_try_advisory_lock(%(lock_class)s, (%(worker)s::bigint & 2147483647)::int)"

CANCEL_REQUESTS = """
    SELECT id FROM django_jobs_job
     WHERE worker = %(worker)s AND state = 'RUNNING' AND cancel_requested_at IS NOT NULL
"""

# Rows that are running under this worker's name without its knowledge: the answer to a claim was lost.
STRAYS = """
    SELECT id, attempt FROM django_jobs_job
     WHERE worker = %(worker)s AND state = 'RUNNING' AND id <> ALL(%(known)s::bigint[])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a worker says of itself when it starts."""

    name: str
    host: str
    pid: int
    queues: Sequence[str] | None
    """Queues that it serves; `None` for all."""
    excluded_queues: Sequence[str]
    tasks: Sequence[str]
    """Dotted paths of the tasks that its code knows."""
    threads: int
    async_slots: int
    versions: dict[str, str]
    limits: Mapping[str, int] = field(default_factory=dict)
    """How many jobs of a queue it runs at once at most."""
    supervisor: str = ""
    """Key of the supervisor that started it; none when it runs in place."""
    supervisor_pid: int | None = None


def register(me: Registration, before: int = 0) -> Statement:
    """Return the statement that enters a worker and gives it its id; `before` is the one that it had."""
    return REGISTER, {
        "name": me.name,
        "host": me.host,
        "pid": me.pid,
        "supervisor": me.supervisor,
        "supervisor_pid": me.supervisor_pid,
        "before": before,
        "queues": json.dumps(me.queues),
        "excluded_queues": json.dumps(list(me.excluded_queues)),
        "limits": json.dumps(dict(me.limits)),
        "tasks": json.dumps(list(me.tasks)),
        "threads": me.threads,
        "async_slots": me.async_slots,
        "versions": json.dumps(me.versions),
    }


def heartbeat(worker: int, *, stopping: bool, holds_lock: bool, memory: int | None = None) -> Statement:
    """
    Return the statement that renews a worker's row; `memory` is its resident size in bytes, where known.

    It returns the database's time, how many others live, and what someone asked of it: a `Wish` or nothing,
    whether of all processes of its `runjobs`, and who.

    No row comes back when the worker was declared dead: it must stop claiming and register anew.
    """
    state = "STOPPING" if stopping else "RUNNING"
    return HEARTBEAT, {"worker": worker, "state": state, "holds_lock": holds_lock, "memory": memory}


def sign_off(worker: int, ending: str) -> Statement:
    """Return the statement that says that a worker ended, and how."""
    return SIGN_OFF, {"worker": worker, "ending": ending}


def lock(worker: int, lock_class: int) -> Statement:
    """Return the statement that takes a worker's lock, for as long as the session lives."""
    return LOCK, {"worker": worker, "lock_class": lock_class}


def cancel_requests(worker: int) -> Statement:
    """Return the statement that lists the running jobs of a worker that someone asked to cancel."""
    return CANCEL_REQUESTS, {"worker": worker}


def strays(worker: int, known: Sequence[int]) -> Statement:
    """Return the statement that lists what runs under a worker's name besides the jobs `known` to it."""
    params: dict[str, Any] = {"worker": worker, "known": list(known)}
    return STRAYS, params
