"""
Results: what the tables say of a job, as Django's `TaskResult`.

`backend` builds them for callers, the worker for the receivers of signals and for the task's context.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import Prefetch
from django.utils import timezone
from django.utils.module_loading import import_string

from django_jobs.core import rich
from django_jobs.core.arguments import decode
from django_jobs.core.ids import id_of
from django_jobs.core.records import ClaimedJob
from django_jobs.core.states import FAILURES, UNCOUNTED, State
from django_jobs.exceptions import UnknownSetting
from django_jobs.framework import (
    AnyResult,
    InvalidTaskBackend,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from django_jobs.tasks import UNSET, JobTask, backend_of, is_jobs_backend, options_of, registry, unchecked

STATUS = {
    State.BLOCKED: TaskResultStatus.READY,
    State.READY: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCESSFUL: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
"""Django's four statuses, on to which our states are projected."""

LEFT_OUT = "(not brought along: get_result() and Job.history() have it)"
"""Stands for the traceback of a run that is long past, in the result that a running body sees."""


def get(result_id: str, *, database: str, backend: str) -> AnyResult:
    """
    Return the result of the job with this id. Raises TaskResultDoesNotExist for any text that is none.

    A job whose task this code doesn't know (renamed, removed) has a result all the same: its task is a
    stand-in of that name that can't be enqueued.
    """
    from django_jobs.models import Attempt, Job  # not at import: a backend may be made before the apps

    text = result_id if isinstance(result_id, str) else ""  # type: ignore[redundant-expr]  # callers err
    number = id_of(text)
    job = None
    if number is not None and text == str(number):
        # Named, since a database router would be asked where to read them.
        attempts = Prefetch("attempts", queryset=Attempt.objects.using(database))
        job = Job.objects.using(database).filter(pk=number).prefetch_related(attempts).first()
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


def of_claim(
    job: ClaimedJob, task: JobTask, args: list[Any], kwargs: dict[str, Any], *, worker: int, database: str
) -> AnyResult:
    """Return the result of a job that a worker has just claimed: RUNNING, this worker appended."""
    past = job.past or []
    if task.encoding == "rich":
        args, kwargs = decode(job.call)  # a result shows what is stored: Django lets it hold JSON only
    backend = alias_of(task, job.queue_name, database)
    return TaskResult(
        task=task_of_row(
            task,
            queue_name=job.queue_name,
            priority=job.priority,
            max_attempts=job.max_attempts,
            run_after=as_shown(job.run_after) if job.run_after != job.enqueued_at else None,
            meta=meta_of(job),
            backend=backend,
        ),
        id=str(job.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=as_shown(job.enqueued_at),
        started_at=as_shown(job.started_at),
        finished_at=None,
        last_attempted_at=as_shown(job.last_attempted_at),
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[
            TaskError(
                exception_class_path=run["exception_class"],
                traceback=LEFT_OUT if run["traceback"] is None else run["traceback"],
            )
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
    return unchecked(
        task,
        queue_name=queue_name,
        priority=priority,
        max_attempts=as_given(task, max_attempts, backend),
        run_after=run_after,
        meta=meta,
        backend=backend,
    )


def as_given(task: JobTask, max_attempts: int | None, backend: str) -> Any:
    """
    Return the attempts of a row as its task says them: a task that says nothing leaves it to the settings.

    So the task of a result equals the one that was enqueued, for as long as the settings stay.
    """
    if task.max_attempts is not UNSET:
        return max_attempts
    try:
        found = backend_of(backend)
        usual = found.limits.max_attempts if is_jobs_backend(found) else None  # type: ignore[attr-defined]  # is_jobs_backend tells no type
    except (InvalidTaskBackend, UnknownSetting):  # the settings have changed since
        return max_attempts
    return UNSET if max_attempts == usual else max_attempts


def alias_of(task: JobTask, queue_name: str, database: str) -> str:
    """
    Return the alias of `TASKS` through which a job of `task` in `database` is looked up.

    The row doesn't name it. It is the task's own where that keeps its jobs there, or otherwise the first that
    does; one that lists the queue goes before one that doesn't.
    """
    own, second = task.backend, ""
    for alias in dict.fromkeys([own, *task_backends]):
        try:
            backend: Any = backend_of(alias)
        except InvalidTaskBackend:
            continue
        if is_jobs_backend(backend) and backend.database == database:
            if not backend.queues or queue_name in backend.queues:
                return str(alias)
            second = second or alias
    return second or own


def task_at(path: str) -> JobTask:
    """Return the task at `path`, importing the tasks of all apps where it isn't known yet, or a stand-in."""
    known = registry.get(path)
    if known is None and apps.ready:
        from django_jobs.discovery import discover_once  # not at import: it needs the log's wording

        discover_once()
        known = registry.get(path)
    return known or stand_in(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn(JobTask):
    """A task that this code doesn't know: it can be shown, but neither enqueued nor run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (stand_in_with, (self.module_path, options_of(self)))


@lru_cache(maxsize=1024)
def stand_in(path: str) -> StandIn:
    """Return the stand-in of this name."""

    def missing(*args: Any, **kwargs: Any) -> None:
        raise LookupError(f"No task {path!r} is known to this code.")

    module, _, name = path.rpartition(".")
    missing.__module__, missing.__qualname__, missing.__name__ = module, name, name
    blank: StandIn = object.__new__(StandIn)
    defaults: Mapping[str, Any] = {
        name: field.default_factory() if callable(field.default_factory) else field.default
        for name, field in StandIn.__dataclass_fields__.items()
    }
    for name, value in {**defaults, "func": missing}.items():
        object.__setattr__(blank, name, value)
    return blank


def stand_in_with(path: str, changes: dict[str, Any]) -> JobTask:
    """Return the task at `path` with `changes`, or its stand-in: how a stand-in is unpickled."""
    return unchecked(task_at(path), **changes)


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
