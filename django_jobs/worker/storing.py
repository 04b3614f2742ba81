"""
Storing outcomes when that isn't as simple as one statement: refused values, and answers that got lost.

The dispatcher sends what ended together with its claims. When the database refuses one of the outcomes, each
is written by itself here, so that it stands in nobody else's way. When an outcome was not written, the tables
are asked whether an earlier try had written it and only its answer got lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg

from django_jobs.core.records import Completed, Ended, Failed, Trace
from django_jobs.core.states import Kind, State
from django_jobs.store import finish
from django_jobs.store.cursor import Rows, Statement
from django_jobs.store.link import run_together
from django_jobs.telemetry import fields, logger
from django_jobs.worker.loop import one_line

if TYPE_CHECKING:
    from django_jobs.worker.dispatcher import Dispatcher

REFUSALS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.NotSupportedError,
    psycopg.errors.RaiseException,  # a trigger of the project's
)
"""Errors that a value causes, and that come again however often it is sent."""

ASIDE_SECONDS = 60.0
"""How long an outcome that the database refuses in any form waits for the next try."""


def finishing(dispatcher: Dispatcher, ended: Sequence[Ended]) -> list[Statement]:
    """Return the statements that write `ended`."""
    keep_cancelled = dispatcher.keep_cancelled
    return finish.finish(dispatcher.worker, ended, keep_cancelled=keep_cancelled) if ended else []


def run(dispatcher: Dispatcher, statements: Sequence[Statement], ended: Sequence[Ended]) -> list[Rows]:
    """
    Run a cycle's statements together.

    When the database refuses what one of the outcomes would store, each is written by itself; then the rest
    of the cycle is run.
    """
    assert dispatcher.connection is not None
    rest = [statement for statement in statements if statement[0] not in finish.STATEMENTS]
    try:
        return run_together(dispatcher.connection, statements, meanwhile=dispatcher.catch_up)
    except REFUSALS as error:
        if len(rest) == len(statements):
            raise
        logger.error("outcomes could not be written together: %s", one_line(error))
    except psycopg.errors.QueryCanceled:
        dispatcher.claiming.give_up_the_walk(monotonic())
        raise
    except psycopg.ProgrammingError as error:  # beside refusals: no table yet, or no right to it
        if statements[0][0] != finish.CAPTURE:
            raise
        logger.warning("what was captured can't be written, and is dropped: %s", one_line(error))
        return [[], *run(dispatcher, statements[1:], [replace(end, captured=None) for end in ended])]
    singly = write_singly(dispatcher, [end for end in ended if not end.stored])
    answers: list[Rows] = [singly] + [[]] * (len(statements) - len(rest) - 1)
    return answers + (run_together(dispatcher.connection, rest) if rest else [])


def write_singly(dispatcher: Dispatcher, ended: Sequence[Ended]) -> Rows:
    """
    Write outcomes one by one. One that the database refuses becomes a failure that says so; where it refuses
    that as well (a trigger may), the run is set aside.
    """
    assert dispatcher.connection is not None
    rows: list[Sequence[Any]] = []
    for end in ended:
        try:
            *_, written = run_together(dispatcher.connection, finishing(dispatcher, [end]))
        except REFUSALS as error:
            if end.captured is not None:  # what was captured is the least of it
                logger.warning("job %s: what was captured is dropped: %s", end.job.id, one_line(error))
                rows += write_singly(dispatcher, [replace(end, captured=None)])
                continue
            failed = Failed(kind=Kind.ERROR, trace=trace_of_refusal(error), keep=dispatcher.keep_cancelled)
            told = type(error)(failed.trace.message)  # the server's own quotes the row, and would be logged
            refused = replace(end, outcome=failed, exception=told)
            dispatcher.ledger.ended[end.job.id] = refused
            try:
                [written] = run_together(dispatcher.connection, finishing(dispatcher, [refused]))
            except REFUSALS as worse:
                set_aside(dispatcher, end, worse)
                continue
        rows += written
    return rows


def trace_of_refusal(error: psycopg.Error) -> Trace:
    """Return a refusal as it is stored: in the server's words, without its details, which quote values."""
    return Trace(
        exception_class=f"{type(error).__module__}.{type(error).__qualname__}",
        message=f"The database refused what the run came to: {one_line(error)}",
        traceback="",
    )


def set_aside(dispatcher: Dispatcher, end: Ended, error: psycopg.Error) -> None:
    """Keep an outcome for a later try, so that those after it are stored; its job stays in our hands."""
    logger.error(
        "job %s %s: the database refuses every outcome (%s); it stays marked as running, and this is tried "
        "again in %.0f s",
        end.job.id,
        end.job.task_path,
        one_line(error),
        ASIDE_SECONDS,
        extra=fields(end.job),
    )
    dispatcher.aside[end.job.id] = (monotonic() + ASIDE_SECONDS, dispatcher.ledger.ended.pop(end.job.id))


def bring_back(dispatcher: Dispatcher) -> None:
    """Have what was set aside tried again, once its time has come."""
    for job_id, (at, end) in list(dispatcher.aside.items()):
        if monotonic() >= at:
            del dispatcher.aside[job_id]
            dispatcher.ledger.end(end)


def stored_before(
    dispatcher: Dispatcher, ended: Sequence[Ended], written: Collection[int]
) -> Mapping[int, Sequence[Any]]:
    """
    Return rows like those of `finish` for outcomes that an earlier try had stored: its answer was lost with a
    connection. What such a run came to is entered in the ledger as it stands in the tables.
    """
    unsure = [end for end in ended if not end.stored and end.job.id not in written]
    if not unsure:
        return {}
    assert dispatcher.connection is not None
    [rows] = run_together(dispatcher.connection, [finish.ended_as(dispatcher.worker, unsure)])
    stories = {row[0]: row[1:] for row in rows}
    found: dict[int, Sequence[Any]] = {}
    for end in unsure:
        job_id = end.job.id
        state, value, kind, decision, exists = stories[job_id]
        wanted = finish.kind_of(end.outcome)
        if state == State.SUCCESSFUL:
            # Also what looked like a failure here: a transactional body's connection broke in its commit.
            if not isinstance(end.outcome, Completed):
                done = Completed(return_value=value, keep=None)
                dispatcher.ledger.ended[job_id] = replace(end, outcome=done, exception=None)
            found[job_id] = (job_id,)
        elif wanted is not None and kind == wanted:
            found[job_id] = (job_id, "CANCELLED" if decision == "CANCELLED" else state)
        elif isinstance(end.outcome, Completed) and end.outcome.keep is not None and not end.outcome.keep:
            found |= {} if exists else {job_id: (job_id,)}  # stored by deleting it
    return found
