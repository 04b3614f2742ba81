"""
Finishing: the outcomes of runs become states, results and attempts, all that ended in one go.

Every statement names the run that it ends: job, attempt, worker and `RUNNING`. A job that was taken over
meanwhile has moved on, so the late run changes nothing, and its id is missing from what comes back.

Whether a failed job runs again is decided by its worker, but a cancel request that came in the meantime
wins here, in the same statement: what the canceller was told stays true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django_jobs.core.records import (
    Cancelled,
    Completed,
    Ended,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Trace,
)
from django_jobs.core.states import Decision, Kind, State
from django_jobs.store.cursor import Cursor, Statement, array, run

# The join is meant as one primary key look-up for each row: store/link.py says how that is kept. Written as
# `state = 'RUNNING'` the guard would invite the planner to the index of running jobs, whose dead entries it
# would then walk for every batch (two to three times the cost; docs/decisions/0001).
COMPLETE = """
    UPDATE django_jobs_job AS job
       SET state = 'SUCCESSFUL', finished_at = now(), expires_at = now() + done.keep::interval,
           return_value = done.return_value::json
      FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(return_values)s::text[], %(keeps)s::text[])
        AS done (id, attempt, return_value, keep)
     WHERE job.id = done.id
       AND job.attempt = done.attempt   -- a rescued job has moved on: the late run loses
       AND job.worker = %(worker)s
       AND job.state || '' = 'RUNNING'
 RETURNING job.id
"""

DELETE = """
    WITH done AS (
        SELECT * FROM unnest(%(ids)s::bigint[], %(attempts)s::int[]) AS done (id, attempt)),
    job AS (
        DELETE FROM django_jobs_job AS job USING done
         WHERE job.id = done.id AND job.attempt = done.attempt
           AND job.worker = %(worker)s AND job.state || '' = 'RUNNING'
     RETURNING job.id),
    attempts AS (
        DELETE FROM django_jobs_attempt USING job WHERE job_id = job.id)
"""

COMPLETE_AND_DELETE = (
    DELETE
    + """
    SELECT id FROM job
"""
)

# Where some have run before: what was captured of those runs goes too. In the first run there is nothing yet.
COMPLETE_AND_DELETE_ALL = (
    DELETE
    + """
    , captures AS (
        DELETE FROM django_jobs_capture USING job WHERE job_id = job.id)
    SELECT id FROM job
"""
)

END = """
    WITH ended AS (
        SELECT *
          FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(states)s::text[], %(delays)s::text[],
                      %(keeps)s::text[], %(uncounted)s::int[], %(reasons)s::text[], %(kinds)s::text[],
                      %(exception_classes)s::text[], %(messages)s::text[], %(tracebacks)s::text[],
                      %(decisions)s::text[])
            AS ended (id, attempt, state, delay, keep, uncounted, reason, kind, exception_class, message,
                      traceback, decision)),
    job AS (
        UPDATE django_jobs_job AS job
           SET state = CASE WHEN ended.state = 'READY' AND job.cancel_requested_at IS NOT NULL
                            THEN 'CANCELLED' ELSE ended.state END,
               run_after = CASE WHEN ended.state = 'READY' AND job.cancel_requested_at IS NULL
                                THEN COALESCE(now() + ended.delay::interval, job.run_after)
                                ELSE job.run_after END,
               finished_at = CASE WHEN ended.state = 'READY' AND job.cancel_requested_at IS NULL
                                  THEN NULL ELSE now() END,
               expires_at = CASE WHEN ended.state = 'READY' AND job.cancel_requested_at IS NULL
                                 THEN NULL
                                 WHEN ended.state = 'READY' THEN now() + %(keep_cancelled)s::interval
                                 ELSE now() + ended.keep::interval END,
               worker = CASE WHEN ended.state = 'READY' THEN NULL ELSE job.worker END,
               uncounted = LEAST(job.uncounted::bigint + ended.uncounted, 2147483647),
               reason = CASE WHEN job.cancel_requested_at IS NOT NULL AND ended.state <> 'FAILED'
                             THEN COALESCE(job.reason, ended.reason) ELSE ended.reason END
          FROM ended
         WHERE job.id = ended.id
           AND job.attempt = ended.attempt
           AND job.worker = %(worker)s
           AND job.state || '' = 'RUNNING'
     RETURNING job.id, job.attempt, job.state, job.run_after, job.last_attempted_at,
               ended.kind, ended.exception_class, ended.message, ended.traceback, ended.decision),
    attempt AS (
        INSERT INTO django_jobs_attempt (
               job_id, number, worker, started_at, ended_at, kind, exception_class, message, traceback,
               decision, next_run_after)
        SELECT job.id, job.attempt, %(worker)s, job.last_attempted_at, now(), job.kind,
               job.exception_class, job.message, job.traceback,
               CASE WHEN job.state = 'CANCELLED' THEN 'CANCELLED' ELSE job.decision END,
               CASE WHEN job.state = 'READY' THEN job.run_after END
          FROM job
         WHERE job.kind IS NOT NULL
            ON CONFLICT (job_id, number) DO NOTHING)   -- a stranger's row must not keep the job from ending
    SELECT id, state, GREATEST(LEAST(run_after, '9999-12-30Z'), '0001-01-03Z') FROM job
"""

# Before the outcome, whose statement then finds the rows as they are here: locked, and still this run's.
CAPTURE = """
    INSERT INTO django_jobs_capture (job_id, number, lines, cut, cut_at, queries, query_seconds)
    SELECT run.id, run.attempt, run.lines::json, run.cut, run.cut_at, run.queries, run.query_seconds
      FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(lines)s::text[], %(cuts)s::int[],
                  %(cut_ats)s::int[], %(queries)s::int[], %(query_seconds)s::float8[])
        AS run (id, attempt, lines, cut, cut_at, queries, query_seconds)
     CROSS JOIN LATERAL (
           SELECT FROM django_jobs_job AS job
            WHERE job.id = run.id AND job.attempt = run.attempt AND job.worker = %(worker)s
              AND job.state || '' = 'RUNNING'
              FOR UPDATE) AS job
        ON CONFLICT (job_id, number) DO NOTHING
 RETURNING job_id
"""

# Claims of ours that nobody knows of: their answer was lost with a connection.
RELEASE = """
    UPDATE django_jobs_job AS job
       SET state = CASE WHEN cancel_requested_at IS NULL THEN 'READY' ELSE 'CANCELLED' END,
           finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE now() END,
           expires_at = CASE WHEN cancel_requested_at IS NULL THEN NULL
                             ELSE now() + %(keep_cancelled)s::interval END,
           worker = NULL, uncounted = LEAST(job.uncounted, 2147483646) + 1
      FROM unnest(%(ids)s::bigint[], %(attempts)s::int[]) AS stray (id, attempt)
     WHERE job.id = stray.id AND job.attempt = stray.attempt
       AND job.worker = %(worker)s AND job.state || '' = 'RUNNING'
 RETURNING job.id
"""

# What became of runs that could not be ended: did an earlier try end them, whose answer got lost?
ENDED_AS = """
    SELECT run.id, job.state, job.return_value::text, attempt.kind, attempt.decision,
           EXISTS (SELECT FROM django_jobs_job WHERE id = run.id)
      FROM unnest(%(ids)s::bigint[], %(attempts)s::int[]) AS run (id, attempt)
      LEFT JOIN LATERAL (
           SELECT * FROM django_jobs_job
            WHERE id = run.id AND attempt = run.attempt AND worker = %(worker)s) AS job ON true
      LEFT JOIN LATERAL (
           SELECT * FROM django_jobs_attempt
            WHERE job_id = run.id AND number = run.attempt AND worker = %(worker)s) AS attempt ON true
"""

STATEMENTS = frozenset({CAPTURE, COMPLETE, COMPLETE_AND_DELETE, COMPLETE_AND_DELETE_ALL, END})
"""Those that `finish` may return."""


def finish(worker: int, ended: Iterable[Ended], *, keep_cancelled: timedelta | None) -> list[Statement]:
    """
    Return the statements that write what `worker`'s runs came to; each returns the ids it wrote, and the
    state and due time of jobs whose state was decided there. What was captured of runs goes first.

    `keep_cancelled` is how long a job stays that would have run again, but for a cancel request.
    """
    kept: list[Ended] = []
    dropped: list[Ended] = []
    others: list[Ended] = []
    captured: list[Ended] = []
    for end in ended:
        match end.outcome:
            case Completed(keep=keep) if keep is not None and not keep:
                dropped.append(end)
                continue
            case Completed():
                kept.append(end)
            case _:
                others.append(end)
        if end.captured is not None:
            captured.append(end)
    statements: list[Statement] = []
    if captured:
        statements.append((CAPTURE, capture_parameters(worker, captured)))
    if kept:
        statements.append((COMPLETE, complete_parameters(worker, kept)))
    if dropped:
        ran_before = any(end.job.attempt > 1 for end in dropped)
        text = COMPLETE_AND_DELETE_ALL if ran_before else COMPLETE_AND_DELETE
        statements.append((text, run_parameters(worker, dropped)))
    if others:
        parameters = end_parameters(worker, others) | {"keep_cancelled": interval(keep_cancelled)}
        statements.append((END, parameters))
    return statements


def as_stored(ended: Ended, row: Sequence[Any]) -> Ended:
    """Return the end of a run as it was stored; `row` is what came back for it."""
    if row[1:2] == ("CANCELLED",) and not isinstance(ended.outcome, Cancelled):
        return replace(ended, outcome=Cancelled(reason="cancelled while it ran", keep=None))
    return ended


def finish_here(cursor: Cursor, worker: int, ended: Ended) -> bool:
    """Write one outcome on `cursor`, in its open transaction; return whether the run was still ours."""
    written = [run(cursor, statement) for statement in finish(worker, [ended], keep_cancelled=None)]
    return bool(written[-1])


def release(worker: int, runs: Sequence[Sequence[Any]], *, keep_cancelled: timedelta | None) -> Statement:
    """Return the statement that hands back jobs which never began; `runs` are rows of id and attempt."""
    return RELEASE, {
        "worker": worker,
        "ids": array(job_id for job_id, _ in runs),
        "attempts": array(attempt for _, attempt in runs),
        "keep_cancelled": interval(keep_cancelled),
    }


def ended_as(worker: int, ended: Sequence[Ended]) -> Statement:
    """
    Return the statement that tells for each run of `worker`'s: id, the job's state and value if it is still
    at that run, kind and decision of its attempt, and whether there is such a job at all.
    """
    return ENDED_AS, run_parameters(worker, ended)


def kind_of(outcome: Outcome) -> str | None:
    """Return the kind of the attempt that an outcome writes; `None` when it writes none."""
    kind: str | None = (
        None if isinstance(outcome, Completed) else end_row(outcome)[END_COLUMNS.index("kinds")]
    )
    return kind


def run_parameters(worker: int, ended: Sequence[Ended]) -> dict[str, Any]:
    """Return the parameters that name the runs."""
    return {
        "worker": worker,
        "ids": array(end.job.id for end in ended),
        "attempts": array(end.job.attempt for end in ended),
    }


def capture_parameters(worker: int, ended: Sequence[Ended]) -> dict[str, Any]:
    """Return the parameters of `CAPTURE`, for runs of which something was captured."""
    found = [end.captured for end in ended if end.captured is not None]
    return run_parameters(worker, ended) | {
        "lines": [captured.lines for captured in found],
        "cuts": [captured.cut for captured in found],
        "cut_ats": [captured.cut_at for captured in found],
        "queries": [captured.queries for captured in found],
        "query_seconds": [captured.query_seconds for captured in found],
    }


def complete_parameters(worker: int, ended: Sequence[Ended]) -> dict[str, Any]:
    """Return the parameters of `COMPLETE`; a column of nothing but NULLs is sent as one NULL."""
    values = [end.outcome.return_value for end in ended]  # type: ignore[union-attr]  # all are Completed
    keeps = [end.outcome.keep for end in ended]  # type: ignore[union-attr]  # as above
    texts = {keep: "NULL" if keep is None else f'"{interval(keep)}"' for keep in set(keeps)}
    return run_parameters(worker, ended) | {
        "return_values": values if any(value is not None for value in values) else None,
        "keeps": "{" + ",".join([texts[keep] for keep in keeps]) + "}",  # as in store.cursor.array
    }


def end_parameters(worker: int, ended: Sequence[Ended]) -> dict[str, Any]:
    """Return the parameters of `END`, a list for each column."""
    rows = [end_row(end.outcome) for end in ended]
    columns = dict(zip(END_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    return run_parameters(worker, ended) | columns


END_COLUMNS = (
    "states",
    "delays",
    "keeps",
    "uncounted",
    "reasons",
    "kinds",
    "exception_classes",
    "messages",
    "tracebacks",
    "decisions",
)

REASON_LENGTH = 200
"""Characters of a job's one-line reason."""


def end_row(outcome: Outcome) -> tuple[Any, ...]:
    """Return what one outcome writes, in the order of `END_COLUMNS`."""
    match outcome:
        case Retried(kind=kind, trace=trace, after=after):
            return ready(after, 0, reason(kind, trace), kind, trace, Decision.RETRY)
        case Snoozed(after=after, reason=text):
            return ready(after, 1, line(text), Kind.SNOOZED, said(text), Decision.SNOOZE)
        case Released(started=started, reason=text):
            return ready(
                None, 1, line(text), Kind.RELEASED if started else None, said(text), Decision.RELEASED
            )
        case Failed(kind=kind, trace=trace, keep=keep):
            return final(State.FAILED, keep, reason(kind, trace), kind, trace, Decision.FAILED)
        case Cancelled(reason=text, keep=keep):
            return final(State.CANCELLED, keep, line(text), Kind.CANCELLED, said(text), Decision.CANCELLED)
        case Completed():
            raise TypeError("A completed run is written by COMPLETE.")


def ready(
    after: timedelta | None, uncounted: int, why: str, kind: Kind | None, trace: Trace, decision: Decision
) -> tuple[Any, ...]:
    """Return the row of a run after which the job is READY again, after a delay or when it was due."""
    end = (uncounted, why or None, kind and kind.value, *texts(trace), decision.value)
    return (State.READY.value, interval(after), None, *end)


def final(
    state: State, keep: timedelta | None, why: str, kind: Kind, trace: Trace, decision: Decision
) -> tuple[Any, ...]:
    """Return the row of a run that was the job's last."""
    return (state.value, None, interval(keep), 0, why or None, kind.value, *texts(trace), decision.value)


def said(text: str) -> Trace:
    """Return the trace of a run that ended with a word and no exception."""
    return Trace(exception_class="", message=text, traceback="")


def texts(trace: Trace) -> tuple[str, str, str]:
    return trace.exception_class, trace.message, trace.traceback


def reason(kind: Kind, trace: Trace) -> str:
    """Return the one line that says why a run failed."""
    name = trace.exception_class.rpartition(".")[2] or kind.value
    return line(f"{name}: {trace.message}" if trace.message else name)


def line(text: str) -> str:
    """Return the first line of `text`, cut to `REASON_LENGTH`."""
    first = text.strip().partition("\n")[0].strip()
    return first if len(first) <= REASON_LENGTH else first[: REASON_LENGTH - 1] + "…"


def interval(delta: timedelta | None) -> str | None:
    """
    Return PostgreSQL's text for a duration; `None` stays `None`, which leaves a time NULL.

    In microseconds, since PostgreSQL's days have 23 or 25 hours where the session's zone changes its clock.
    """
    return None if delta is None else f"{delta // timedelta(microseconds=1)} microseconds"
