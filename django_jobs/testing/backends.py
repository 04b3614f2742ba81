"""
Backends for tests that need no database: the checks and conversions of `JobsBackend`, kept in memory.

They take every option of `django_jobs.task`, so a project's tasks can be imported under them as they are:

    TASKS = {"default": {"BACKEND": "django_jobs.testing.ImmediateBackend"}}

Like Django's own of these names, they hold their results in the backend of the thread that enqueued.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

from asgiref.sync import async_to_sync
from django.utils import timezone

from django_jobs import conf
from django_jobs.backend import JobsBackend
from django_jobs.core.arguments import decode
from django_jobs.core.records import (
    Cancelled,
    ClaimedJob,
    Completed,
    Ended,
    Failed,
    Inserted,
    NewJob,
    Released,
    Retried,
    Snoozed,
)
from django_jobs.core.states import State
from django_jobs.enqueueing import calls_of, prepare
from django_jobs.framework import (
    AnyResult,
    TaskError,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from django_jobs.results import STATUS, returned
from django_jobs.tasks import JobTask
from django_jobs.worker.announcer import announce
from django_jobs.worker.executor import Executor
from django_jobs.worker.process import rules_of


class DummyBackend(JobsBackend):
    """Checks and records what is enqueued, and runs nothing. `results` has it all; `clear()` forgets it."""

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.results: list[AnyResult] = []
        self.ids = count(1)

    def enqueue(  # type: ignore[override]  # as in JobsBackend
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> AnyResult:
        """Record one call and return its result."""
        task, job = self.prepared(task, args, kwargs)
        now = timezone.now()
        due = now + job.run_after if isinstance(job.run_after, timedelta) else job.run_after or now
        inserted = Inserted(id=next(self.ids), enqueued_at=now, run_after=due)
        result = self.new_result(task, job, inserted)
        self.results.append(result)
        task_enqueued.send_robust(type(self), task_result=result)
        self.took(result, task, job, inserted)
        return deepcopy(result)

    def took(self, result: AnyResult, task: Any, job: NewJob, inserted: Inserted) -> None:
        """Do what else is to be done with a call."""

    def enqueue_many(self, task: JobTask, calls: Iterable[Any], *, ids: bool = False) -> int | list[str]:
        """See `JobTask.enqueue_many`."""
        given = list(calls_of(calls))
        for args, kwargs in given:
            self.prepared(task, args, kwargs)  # all are recorded or none
        numbers = [self.enqueue(task, args, kwargs).id for args, kwargs in given]
        return numbers if ids else len(numbers)

    def prepared(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[JobTask, NewJob]:
        """Return the task and the row for a call. Raises what enqueueing it raises."""
        self.validate_task(task)
        self.check_importable(task)
        own = self.own(task)
        return own, prepare(own, args, kwargs, self.limits)

    def get_result(self, result_id: str) -> AnyResult:
        """Return the result with this id. Raises TaskResultDoesNotExist."""
        for result in self.results:
            if result.id == result_id:
                return deepcopy(result)
        raise TaskResultDoesNotExist(result_id)

    def clear(self) -> None:
        """Forget what was enqueued."""
        self.results.clear()


class ImmediateBackend(DummyBackend):
    """
    Runs each call once, at once, and returns what it came to: the outcome that a worker would come to.

    So a failed call whose task may retry is READY, with the error, as it would be between two attempts; the
    second isn't made. What is scheduled for later is recorded and not run.
    """

    def took(self, result: AnyResult, task: Any, job: NewJob, inserted: Inserted) -> None:
        if inserted.run_after > inserted.enqueued_at:
            return
        alias = self.options.get("database") or conf.current().database or "default"
        executor = Executor(
            rules_of(conf.current(), alias),
            worker=lambda: 1,
            is_cancelled=lambda job_id: False,
            settle=lambda ended: True,
        )
        claimed = ClaimedJob(
            inserted.id,
            job.queue_name,
            job.task_path,
            f"[{job.args},{job.kwargs}]",
            1,
            0,
            job.max_attempts,
            job.priority,
            inserted.run_after,
            inserted.enqueued_at,
            now := timezone.now(),
            now,
            job.meta,
            None,
        )
        ended = async_to_sync(executor.run_async)(claimed) if task.is_async else executor.run(claimed)
        settle(result, ended)
        announce(replace(ended, result=ended.result and result), alias)
        if isinstance(ended.exception, KeyboardInterrupt):
            raise ended.exception


def settle(result: AnyResult, ended: Ended) -> None:
    """Write into `result` what its run came to."""
    outcome = ended.outcome
    changes: dict[str, Any] = {
        "started_at": ended.job.started_at,
        "last_attempted_at": ended.job.started_at,
        "worker_ids": ["1"],
        "status": STATUS[final_state(ended)],
    }
    if changes["status"] is not TaskResultStatus.READY:
        changes["finished_at"] = timezone.now()
    if isinstance(outcome, Completed):
        text = outcome.return_value
        changes["_return_value"] = None if text is None else returned(result.task, decode(text))
    if isinstance(outcome, Failed | Retried):
        trace = outcome.trace
        error = TaskError(exception_class_path=trace.exception_class, traceback=trace.traceback)
        changes["errors"] = [error]
    for name, value in changes.items():
        object.__setattr__(result, name, value)


def final_state(ended: Ended) -> State:
    """Return the state in which a run leaves its job."""
    match ended.outcome:
        case Completed():
            return State.SUCCESSFUL
        case Failed():
            return State.FAILED
        case Cancelled():
            return State.CANCELLED
        case Retried() | Snoozed() | Released():
            return State.READY
