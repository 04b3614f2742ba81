"""
The backend for Django's Tasks framework, `"BACKEND": "django_jobs.backend.JobsBackend"` in `TASKS`.

It checks tasks, hands calls to `enqueueing`, and reads results back from the tables (`results`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any

from asgiref.sync import sync_to_async
from django.core import checks
from django.utils.module_loading import import_string

from django_jobs import conf, results
from django_jobs.core.records import Inserted, NewJob
from django_jobs.enqueueing import Limits, calls_of, decoded, enqueue_chunks, enqueue_one, prepare
from django_jobs.exceptions import UnknownSetting
from django_jobs.framework import (
    TASK_MAX_PRIORITY,
    TASK_MIN_PRIORITY,
    AnyResult,
    BaseTaskBackend,
    InvalidTask,
    TaskResult,
    TaskResultStatus,
    task_enqueued,
)
from django_jobs.tasks import JobTask, unchecked
from django_jobs.telemetry import is_heard

OPTIONS = frozenset({"database", "max_attempts", "max_argument_bytes"})
"""Settings that a backend's OPTIONS may choose for the jobs that it enqueues."""


MOST_KNOWN = 1_000
"""Tasks of which a backend remembers that they are right. `using` may make any number of them."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What enqueueing needs to know of a task beside the arguments."""

    given: Any
    """The task as it was enqueued; held, so that no other comes to have its `id()`."""
    task: JobTask
    shown: JobTask
    """The same for results: whoever writes into its meta doesn't change what is enqueued next."""
    settings: conf.Settings
    limits: Limits


class JobsBackend(BaseTaskBackend):
    """Keeps jobs in PostgreSQL. Holds its configuration and a cache, so it may be made at any time."""

    task_class = JobTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)  # type: ignore[arg-type]  # the stubs want a dict
        self.options = params.get("OPTIONS", {})
        self.queues_given = params.get("QUEUES", ())
        self.known: dict[int, Checked] = {}

    @property
    def database(self) -> str:
        """Alias of the database that holds this backend's jobs."""
        options: Any = self.options  # the project's, so it may be no dict
        chosen: str | None = options.get("database") if isinstance(options, Mapping) else None
        return chosen or conf.database()

    @property
    def limits(self) -> Limits:
        """What this backend's options and the settings say about a new job."""
        problems = conf.problems_of(self.options, f"TASKS[{self.alias!r}]['OPTIONS']", OPTIONS)
        if problems:
            raise UnknownSetting(problems[0])
        settings = conf.current()
        return Limits(
            max_attempts=self.options.get("max_attempts", settings.max_attempts),
            max_argument_bytes=self.options.get("max_argument_bytes", settings.max_argument_bytes),
        )

    def queue_problems(self, where: str) -> list[str]:
        """Return a sentence for each queue name in `QUEUES` that no job can have."""
        if isinstance(self.queues_given, str):  # which Django takes for the names of its letters
            return [f"{where} must be a list of names, not {self.queues_given!r}."]
        return [f"{where}: {problem}" for problem in map(problem_of_queue, self.queues_given) if problem]

    def validate_task(self, task: Any) -> None:
        """Raise InvalidTask unless this backend can run `task`; its message names the option and value."""
        check_types(task)
        if isinstance(task.run_after, timedelta):
            super().validate_task(WithoutDelay(task))  # type: ignore[arg-type]  # a stand-in
        else:
            super().validate_task(task)
        check_place(task)
        problem = problem_of_queue(task.queue_name)
        if problem:
            raise InvalidTask(problem)

    def enqueue(  # type: ignore[override]  # the stubs tie the result to the task's signature
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> AnyResult:
        """Insert one job in the caller's transaction and return its result, still READY."""
        checked = self.checked(task)
        job = prepare(checked.task, args, kwargs, checked.limits)
        inserted = enqueue_one(self.database, job)
        result = self.new_result(checked.shown, job, inserted)
        if is_heard(task_enqueued, logging.DEBUG):
            task_enqueued.send_robust(type(self), task_result=result)
        return result

    def enqueue_many(self, task: JobTask, calls: Iterable[Any], *, ids: bool = False) -> int | list[str]:
        """See `JobTask.enqueue_many`."""
        checked, heard = self.checked(task), is_heard(task_enqueued, logging.DEBUG)
        count, numbers = 0, []
        jobs = (prepare(task, args, kwargs, checked.limits) for args, kwargs in calls_of(calls))
        for chunk in enqueue_chunks(self.database, jobs):
            count += len(chunk)
            if ids:
                numbers += [str(inserted.id) for _, inserted in chunk]
            if heard:
                for job, inserted in chunk:
                    task_enqueued.send_robust(
                        type(self), task_result=self.new_result(checked.shown, job, inserted)
                    )
        return numbers if ids else count

    async def aenqueue_many(self, task: JobTask, calls: Iterable[Any], *, ids: bool = False) -> Any:
        """See `JobTask.enqueue_many`."""
        return await sync_to_async(partial(self.enqueue_many, task, calls, ids=ids), thread_sensitive=True)()

    def get_result(self, result_id: str) -> AnyResult:
        """Return the result with this id as it is now. Raises TaskResultDoesNotExist."""
        return results.get(result_id, database=self.database, backend=self.alias)

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        """Return what is wrong with this alias' configuration."""
        from django_jobs.checks import check_backend  # not at import: checks need the models

        return check_backend(self)

    def checked(self, task: Any) -> Checked:
        """
        Return what is the same for every call of a task, once it was found to be right.

        Looked at again when the settings change. The database isn't part of it: a router may choose another
        one each time. Raises InvalidTask.
        """
        known = self.known.get(id(task))
        if known is not None and known.given is task and known.settings is conf.current():
            return known
        self.validate_task(task)
        self.check_importable(task)
        own = self.own(task)
        shown = unchecked(own, meta=dict(own.meta))
        found = Checked(task, own, shown, conf.current(), self.limits)
        if task.run_after is None:  # others are made for one call
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            self.known[id(task)] = found
        return found

    def check_importable(self, task: Any) -> None:
        """Raise InvalidTask when a worker could not find the task under its dotted path."""
        if not results.is_importable(task):
            raise InvalidTask(
                f"Task {task.module_path} can't be found under that name by a worker: the name is bound to "
                "something else. Give the task a name of its own at module level."
            )

    def own(self, task: Any) -> JobTask:
        """Return a task that was defined for a backend of another kind as one of ours."""
        if isinstance(task, JobTask):
            return task
        from django_jobs.discovery import adopted  # not at import: it needs what needs this module

        return unchecked(
            adopted(import_string(task.module_path)),
            priority=task.priority,
            queue_name=task.queue_name,
            run_after=task.run_after,
            backend=task.backend,
        )

    def new_result(self, task: JobTask, job: NewJob, inserted: Inserted) -> AnyResult:
        """Return the result of a job that was just enqueued."""
        args, kwargs, meta = decoded(job)
        if meta or job.run_after is not None or task.backend != self.alias or type(task.priority) is not int:
            task = results.task_of_row(
                task,
                queue_name=job.queue_name,
                priority=job.priority,
                max_attempts=job.max_attempts,
                run_after=inserted.run_after if inserted.run_after != inserted.enqueued_at else None,
                meta=meta,
                backend=self.alias,
            )
        return TaskResult(
            task=task,
            id=str(inserted.id),
            status=TaskResultStatus.READY,
            enqueued_at=inserted.enqueued_at,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


def check_types(task: Any) -> None:
    """Raise InvalidTask for an option that Django's own checks would compare without looking at its type."""
    if not isinstance(task.priority, Real | Decimal) or task.priority != task.priority:  # NaN is no number
        raise InvalidTask(
            f"priority must be a whole number between {TASK_MIN_PRIORITY} and {TASK_MAX_PRIORITY}, "
            f"not {task.priority!r}."
        )
    if not isinstance(task.run_after, datetime | timedelta | None):
        raise InvalidTask(f"run_after must be a datetime, a timedelta or None, not {task.run_after!r}.")
    if not isinstance(task.queue_name, str):
        raise InvalidTask(problem_of_queue(task.queue_name))


def problem_of_queue(name: Any) -> str:
    """Return why no queue can have this name; empty when one can."""
    if not isinstance(name, str) or not name or "\0" in name or not is_encodable(name):
        return f"queue_name must be a text without NUL or lone surrogates, not {name!r}."
    if len(name) > conf.QUEUE_NAME_LENGTH:
        return (
            f"queue_name can't be longer than {conf.QUEUE_NAME_LENGTH} characters, but {name[:40]!r}… has "
            f"{len(name)}."
        )
    return ""


def check_place(task: Any) -> None:
    """Raise InvalidTask for a function that no import finds: a lambda, or one in a class."""
    name = task.func.__qualname__
    if "<lambda>" in name:
        raise InvalidTask(
            f"Task function {task.module_path} is a lambda, which a worker can't import by its name. "
            "Write it as a function with def, at module level."
        )
    if "." in name:
        raise InvalidTask(
            f"Task function must be defined at a module level, but {task.module_path} is defined in a class."
        )


class WithoutDelay:
    """A task whose `run_after` is a delay, shown to Django's checks as one that has none."""

    run_after = None

    def __init__(self, task: Any) -> None:
        self.task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)


def is_encodable(text: str) -> bool:
    """Whether `text` has no lone surrogates, which UTF-8 can't carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
