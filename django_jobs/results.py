"""
Results: what the tables say of a job, as Django's `TaskResult`.

`backend` builds them for callers, the worker for the receivers of signals and for the task's context.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from django_jobs.core import rich
from django_jobs.core.records import ClaimedJob
from django_jobs.core.states import FAILURES, State
from django_jobs.framework import AnyResult, TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from django_jobs.tasks import JobTask, registry

STATUS = {
    State.BLOCKED: TaskResultStatus.READY,
    State.READY: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCESSFUL: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
"""Django's four statuses, on to which our states are projected."""

LARGEST_ID = 2**63 - 1


def get(result_id: str, *, database: str, backend: str) -> AnyResult:
    """
    Return the result of the job with this id. Raises TaskResultDoesNotExist for any text that is none.

    A job whose task this code doesn't know (renamed, removed) has a result all the same: its task is a
    stand-in of that name that can't be enqueued.
    """
    from django_jobs.models import Job  # not at import: a backend may be made before the apps are loaded

    text = result_id if isinstance(result_id, str) else ""  # type: ignore[redundant-expr]  # callers err
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    job = None
    if 0 < number <= LARGEST_ID and text == str(number):
        job = Job.objects.using(database).filter(pk=number).prefetch_related("attempts").first()
    if job is None:
        raise TaskResultDoesNotExist(f"There is no job with the id {text[:64]!r}.")
    return of_row(job, backend)


def of_row(job: Any, backend: str) -> AnyResult:
    """Return the result for a row of `Job`, its attempts prefetched."""
    past = sorted(job.attempts.all(), key=lambda attempt: attempt.number)
    worker_ids = [str(a.worker) for a in past if a.kind not in UNCOUNTED and a.worker is not None]
    if job.state in (State.RUNNING, State.SUCCESSFUL) and job.worker is not None:
        worker_ids.append(str(job.worker))
    result: AnyResult = TaskResult(
        task=task_of_row(
            task_at(job.task_path),
            queue_name=job.queue_name,
            priority=job.priority,
            max_attempts=job.max_attempts,
            run_after=job.run_after if job.run_after != job.enqueued_at else None,
            meta=job.meta,
            backend=backend,
        ),
        id=str(job.pk),
        status=STATUS[State(job.state)],
        enqueued_at=job.enqueued_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        last_attempted_at=job.last_attempted_at,
        args=job.args,
        kwargs=job.kwargs,
        backend=backend,
        errors=[
            TaskError(exception_class_path=a.exception_class, traceback=a.traceback)
            for a in past
            if a.kind in FAILURES
        ],
        worker_ids=worker_ids,
    )
    object.__setattr__(result, "_return_value", returned(result.task, job.return_value))
    return result


def returned(task: Any, value: Any) -> Any:
    """Return a stored return value as the body gave it; as it is stored when it can't be read back."""
    if task.encoding != "rich":
        return value
    try:
        return rich.restore(value)
    except ValueError:
        return value


UNCOUNTED = frozenset({"SNOOZED", "RELEASED"})
"""Kinds of runs that are no attempts to Django's framework."""


def of_claim(
    job: ClaimedJob, task: JobTask, args: list[Any], kwargs: dict[str, Any], worker: int
) -> AnyResult:
    """Return the result of a job that a worker has just claimed: RUNNING, this worker appended."""
    past = job.past or []
    return TaskResult(
        task=task_of_row(
            task,
            queue_name=job.queue_name,
            priority=job.priority,
            max_attempts=job.max_attempts,
            run_after=as_shown(job.run_after) if job.run_after != job.enqueued_at else None,
            meta=meta_of(job),
            backend=task.backend,
        ),
        id=str(job.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=as_shown(job.enqueued_at),
        started_at=as_shown(job.started_at),
        finished_at=None,
        last_attempted_at=as_shown(job.last_attempted_at),
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[
            TaskError(exception_class_path=run["exception_class"], traceback=run["traceback"])
            for run in past
            if run["kind"] in FAILURES
        ],
        worker_ids=[str(run["worker"]) for run in past if run["kind"] not in UNCOUNTED and run["worker"]]
        + [str(worker)],
    )


def as_shown(instant: datetime) -> datetime:
    """Return an instant of a worker's own connection as Django would read it: naive where USE_TZ is off."""
    return instant if settings.USE_TZ or timezone.is_naive(instant) else timezone.make_naive(instant)


def meta_of(job: ClaimedJob) -> dict[str, Any]:
    """Return the free-form facts of a claimed job."""
    found: dict[str, Any] = json.loads(job.meta) if job.meta else {}
    return found


def task_of_row(
    task: JobTask,
    *,
    queue_name: str,
    priority: int,
    max_attempts: int | None,
    run_after: datetime | None,
    meta: Mapping[str, Any],
    backend: str,
) -> JobTask:
    """
    Return `task` with the options that a row holds, without checking them again.

    A row that was enqueued yesterday may have a queue or priority that today's code refuses.
    """
    copy: JobTask = object.__new__(type(task))
    for name in field_names(type(task)):
        object.__setattr__(copy, name, getattr(task, name))
    for name, value in (
        ("queue_name", queue_name),
        ("priority", priority),
        ("max_attempts", max_attempts),
        ("run_after", run_after),
        ("meta", meta),
        ("backend", backend),
    ):
        object.__setattr__(copy, name, value)
    return copy


def field_names(task_class: type[JobTask]) -> tuple[str, ...]:
    """Return the names of a task class' fields."""
    return tuple(task_class.__dataclass_fields__)


def task_at(path: str) -> JobTask:
    """Return the registered task at `path`, importing its module where needed, or a stand-in."""
    known = registry.get(path)
    if known is not None:
        return known
    return stand_in(path)


def stand_in(path: str) -> JobTask:
    """Return a task of this name that can be shown, but neither enqueued nor run."""

    def missing(*args: Any, **kwargs: Any) -> None:
        raise LookupError(f"No task {path!r} is known to this code.")

    module, _, name = path.rpartition(".")
    missing.__module__, missing.__qualname__, missing.__name__ = module, name, name
    copy: JobTask = object.__new__(JobTask)
    defaults: Mapping[str, Any] = {
        name: field.default_factory() if callable(field.default_factory) else field.default
        for name, field in JobTask.__dataclass_fields__.items()
    }
    for name, value in {**defaults, "func": missing, "takes_context": False}.items():
        object.__setattr__(copy, name, value)
    return copy


importable: dict[Callable[..., Any], bool] = {}
"""Functions whose task was found under its own name; those that weren't are looked up each time."""


def is_importable(task: JobTask) -> bool:
    """Whether a worker that imports `task`'s dotted path finds a task of the same function."""
    if importable.get(task.func):
        return True
    try:
        found = import_string(task.module_path)
    except ImportError:
        return False
    if getattr(found, "func", None) is not task.func:
        return False
    importable[task.func] = True
    return True
