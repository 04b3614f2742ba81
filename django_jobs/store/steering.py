"""
Asking workers to drain or to stop.

The request stands in the worker's row, which the worker reads with each heartbeat: no lost notification loses
it, and one that asks for less than what was asked before changes nothing. A worker that registers anew takes
it along, as does each process that the same supervisor starts later (`workers.REGISTER`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from django_jobs.core.states import Wish
from django_jobs.store.cursor import Cursor, run

# The rows are locked first, so that two people who ask at the same time are told of each other. A stop of one
# that was to drain with all others is no stop of all, nor is a drain of all where this one was to stop: its
# row then speaks of itself, and those of the others of all.
ASK = """
    WITH meant AS (
        SELECT worker.*, EXISTS (
               SELECT FROM django_jobs_worker AS other
                WHERE other.supervisor = NULLIF(worker.supervisor, '') AND other.id <> worker.id
                  AND other.state IN ('RUNNING', 'STOPPING')) AS has_others
          FROM django_jobs_worker AS named, django_jobs_worker AS worker
         WHERE named.id = %(worker)s
           AND (worker.id = named.id
                OR (%(all)s AND worker.supervisor = NULLIF(named.supervisor, '')
                    AND worker.state IN ('RUNNING', 'STOPPING')))
           FOR NO KEY UPDATE OF worker),
    asked AS (
        UPDATE django_jobs_worker AS worker
           SET asked_to = GREATEST(worker.asked_to, %(wish)s),
               asked_all = %(all)s OR (worker.asked_all AND NOT has_others),
               asked_at = clock_timestamp(), asked_by = left(%(by)s, 200)   -- what the column holds
          FROM meant
         WHERE worker.id = meant.id AND worker.takes_requests
           AND (worker.state = 'RUNNING'   -- one that stops by itself has to tell its supervisor all the same
                OR (worker.state = 'STOPPING' AND (worker.asked_to <> '' OR %(all)s)))
           AND (worker.asked_to < %(wish)s
                OR (%(all)s AND NOT worker.asked_all AND (worker.asked_to = %(wish)s OR NOT has_others)))
     RETURNING worker.id)
    SELECT meant.id, meant.name, meant.host, meant.pid,
           CASE WHEN asked.id IS NOT NULL THEN 'ASKED'
                WHEN meant.state = 'STOPPED' THEN 'ENDED'
                WHEN meant.state = 'LOST' THEN 'LOST'
                WHEN NOT meant.takes_requests THEN 'TOO_OLD'
                WHEN meant.asked_to <> '' THEN 'REPEATED'
                ELSE 'ENDING' END,
           meant.asked_to, meant.asked_by,
           EXTRACT(epoch FROM clock_timestamp()
                              - GREATEST(LEAST(meant.asked_at, '9999-12-30Z'), '0001-01-03Z'))::float8,
           EXTRACT(epoch FROM clock_timestamp()
                              - GREATEST(LEAST(meant.heartbeat_at, '9999-12-30Z'), '0001-01-03Z'))::float8
      FROM meant
      LEFT JOIN asked ON asked.id = meant.id
     ORDER BY meant.id
"""


class Verdict(StrEnum):
    """What became of a request to one worker."""

    ASKED = "ASKED"
    """It is written down, and the worker hears of it."""
    REPEATED = "REPEATED"
    """As much, or more, was asked of it before."""
    ENDING = "ENDING"
    """It ends already, and nobody asked here: a signal, or its process is being replaced."""
    ENDED = "ENDED"
    """It has ended."""
    LOST = "LOST"
    """It was declared dead."""
    TOO_OLD = "TOO_OLD"
    """It runs a version that doesn't know such requests; nothing is written down."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request to one worker."""

    worker: int
    name: str
    host: str
    pid: int
    verdict: Verdict
    asked_before: Wish | None
    """What it had been asked to do before."""
    asked_before_by: str
    asked_seconds: float | None
    """How long ago that was."""
    silent_seconds: float
    """Since its last heartbeat; one that has been silent for long is probably dead, and hears nothing."""


def ask(cursor: Cursor, worker: int, wish: Wish, *, all_processes: bool, by: str) -> list[Answer]:
    """
    Ask a worker, or all live ones that have the same supervisor, to do what is wished.

    Returns one answer for each that is meant, by id; none when there is no such worker.
    """
    params: dict[str, object] = {"worker": worker, "wish": wish.value, "all": all_processes, "by": by}
    return [answer(*row) for row in run(cursor, (ASK, params))]


def answer(
    worker: int,
    name: str,
    host: str,
    pid: int,
    verdict: str,
    before: str,
    before_by: str,
    asked: float | None,
    silent: float,
) -> Answer:
    """Return one row of `ASK` as a record."""
    wish = Wish(before) if before in set(Wish) else None
    return Answer(worker, name, host, pid, Verdict(verdict), wish, before_by, asked, silent)
