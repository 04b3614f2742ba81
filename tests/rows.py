"""Rows of the queue's tables as tests want them, and what stands in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.postgres.functions import TransactionNow

from django_jobs.core.records import ClaimedJob, Ended, Outcome, Trace
from django_jobs.core.states import FINAL, State
from django_jobs.models import Job, Worker
from tests import jobs

WORKER = 1000
"""The id under which jobs of these tests run."""

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def row(state: str = State.READY, **columns: Any) -> Job:
    """Insert a job that is due; running ones are `WORKER`'s."""
    given: dict[str, Any] = {"state": state, "task_path": jobs.ok.module_path, "queue_name": "default"}
    given["run_after"] = TransactionNow() - timedelta(minutes=1)
    if state == State.RUNNING:
        given |= {"worker": WORKER, "attempt": 1, "started_at": LONG_AGO, "last_attempted_at": LONG_AGO}
    if state in FINAL:
        given |= {"attempt": 1, "finished_at": LONG_AGO}
    job = Job.objects.create(**given | columns)
    job.refresh_from_db()
    return job


def worker_row(**columns: Any) -> Worker:
    """Insert a worker that lives."""
    return Worker.objects.create(**{"name": "w", "host": "h", "pid": 1} | columns)


def claimed_job(**columns: Any) -> ClaimedJob:
    """Return a job as its worker gets it, in its first attempt."""
    given: dict[str, Any] = {
        "id": 7,
        "queue_name": "default",
        "task_path": jobs.ok.module_path,
        "call": "[[],{}]",
        "attempt": 1,
        "uncounted": 0,
        "max_attempts": 5,
        "priority": 0,
        "run_after": LONG_AGO,
        "enqueued_at": LONG_AGO,
        "started_at": LONG_AGO,
        "last_attempted_at": LONG_AGO,
        "meta": None,
        "past": None,
    }
    return ClaimedJob(**given | columns)


def run_of(job: Job, outcome: Outcome, **columns: Any) -> Ended:
    """Return the end of the run that a row of a running job is in."""
    return Ended(claimed_job(id=job.pk, attempt=job.attempt, task_path=job.task_path, **columns), outcome)


TRACE = Trace(exception_class="builtins.ValueError", message="bad value", traceback="Traceback …")
