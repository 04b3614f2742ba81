"""
The task: a function with its options, and the registry of all that may run.

`@task` makes a `JobTask`, Django's own `Task` with more options. With a `JobsBackend` in `TASKS`, Django's
`@task` makes one too (on 6.1 and with the backport it also takes our options). Every task is entered in
`registry` under its dotted path when it is defined; a worker runs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from django_jobs import conf
from django_jobs.about import ABOUT, check_about, key_for
from django_jobs.core.backoff import Policy
from django_jobs.framework import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    BaseTaskBackend,
    InvalidTask,
    Task,
    task_backends,
)

if TYPE_CHECKING:
    from django.db.models import Model

    from django_jobs.backend import JobsBackend

LOGS, QUERIES = CAPTURES = ("logs", "queries")
"""What can be captured of a run."""

registry: dict[str, JobTask] = {}
"""Every task that this process knows, by its dotted path."""


class Unset(Enum):
    """Marks an option that was not given, where `None` is a value of its own."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return self.name


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask(Task):  # type: ignore[type-arg]  # generic in the backport only
    """
    A task with the options of this queue. What isn't given comes from `DJANGO_JOBS`.

    `run_after` may also be a timedelta: the delay counts from each enqueueing, by the database's clock.
    """

    max_attempts: int | Unset | None = UNSET
    """Runs that may fail before the job does; `None` for no limit."""

    backoff: Policy | Unset = UNSET
    """Delay before the next attempt: a policy, or a callable given attempt and exception."""

    retry_on: tuple[type[BaseException], ...] = (Exception,)
    """Exceptions after which another attempt is made."""

    fail_on: tuple[type[BaseException], ...] = ()
    """Exceptions after which none is, though `retry_on` names them too."""

    timeout: timedelta | Unset | None = UNSET
    """How long one run may take; `None` for no limit."""

    transactional: bool = False
    """Whether body and outcome share one transaction on the queue's database."""

    keep_successful: timedelta | Unset | None = UNSET
    """How long a successful job stays; zero deletes it at once, `None` keeps it for ever."""

    keep_failed: timedelta | Unset | None = UNSET
    """How long a failed or cancelled job stays."""

    encoding: Literal["json", "rich"] = "json"
    """How arguments and return values are stored: "rich" also takes dates, decimals, UUIDs, sets, tuples,
    bytes and mappings with any keys, and gives them back as they were."""

    capture: bool | Sequence[str] = False
    """What of each run is kept for people to read: "logs", "queries" (their number and time), or with
    `True` both."""

    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Small free-form facts stored with each job and shown in the admin: tags, who enqueued it."""

    def __post_init__(self) -> None:
        backend = self.get_backend()
        wanted: datetime | timedelta | None = self.run_after
        if isinstance(self.capture, list):  # a task is hashable
            object.__setattr__(self, "capture", tuple(self.capture))
        if isinstance(wanted, timedelta) and not is_jobs_backend(backend):
            object.__setattr__(self, "run_after", timezone.now() + wanted)
        backend.validate_task(self)
        check_options(self)
        known = registry.get(self.module_path)
        if known is None or known.func is not self.func:
            registry[self.module_path] = self

    def get_backend(self) -> BaseTaskBackend:
        """Return the backend of this task's alias; without a `TASKS` setting, ours."""
        return backend_of(self.backend)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        max_attempts: int | Unset | None = UNSET,
        meta: Mapping[str, Any] | None = None,
        about: Model | None = None,
    ) -> JobTask:
        """
        Return a copy with other options; what isn't given stays. `meta` is added to what is there.

        `about` is a saved object of any model, by which the job can be found; it is named in meta.

        Raises InvalidTask when a value isn't allowed.
        """
        changes: dict[str, Any] = {
            name: value
            for name, value in (
                ("priority", priority),
                ("queue_name", queue_name),
                ("run_after", run_after),
                ("backend", backend),
            )
            if value is not None
        }
        if max_attempts is not UNSET:
            changes["max_attempts"] = max_attempts
        if meta is not None:
            changes["meta"] = {**self.meta, **meta}
        changed = replace(self, **changes)
        if about is None:
            return changed
        database = changed.jobs_backend().database if is_jobs_backend(changed.get_backend()) else None
        return unchecked(changed, meta={**changed.meta, ABOUT: key_for(about, database)})

    def enqueue_many(self, calls: Iterable[Any], *, ids: bool = False) -> Any:
        """
        Enqueue one job for each of `calls` and return their number, or with `ids=True` the list of ids.

        A call is a sequence of positional arguments or a mapping of keyword arguments. `calls` may be an
        iterator of any length: it is read in chunks of a few thousand, each one statement, all in one
        transaction, so that all are enqueued or none.
        """
        return self.jobs_backend().enqueue_many(self, calls, ids=ids)

    async def aenqueue_many(self, calls: Iterable[Any], *, ids: bool = False) -> Any:
        """See `enqueue_many`."""
        return await self.jobs_backend().aenqueue_many(self, calls, ids=ids)

    def jobs_backend(self) -> JobsBackend:
        """Return the backend. Raises TypeError where the alias belongs to one that isn't ours."""
        backend = self.get_backend()
        if not is_jobs_backend(backend):
            raise TypeError(
                f"Task {self.module_path} uses the backend {self.backend!r}, a "
                f"{type(backend).__qualname__}, which has no enqueue_many. Call enqueue() for each job."
            )
        return backend  # type: ignore[return-value]  # is_jobs_backend tells no type

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body here and now, and return what it returns."""
        # Django's own asks the function each time what it is, which takes longer than many a body.
        return Task.call(self, *args, **kwargs) if self.is_async else self.func(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body on this event loop, or beside it if it isn't async, and return what it returns."""
        return await (self.func(*args, **kwargs) if self.is_async else Task.acall(self, *args, **kwargs))

    @property
    def captures(self) -> Sequence[str]:
        """The parts that `capture` names; empty for none."""
        if isinstance(self.capture, bool):
            return CAPTURES if self.capture else ()
        return self.capture

    @property
    def is_async(self) -> bool:
        """Whether the body is a coroutine function."""
        return is_coroutine_function(self.func)

    def __reduce__(self) -> tuple[Any, ...]:
        return (rebuild, (self.module_path, options_of(self)))

    def __deepcopy__(self, memo: dict[int, Any]) -> JobTask:
        return unchecked(self, meta=deepcopy(self.meta, memo))  # all else can't be changed


is_coroutine_function = lru_cache(maxsize=4096)(iscoroutinefunction)


def options_of(task: JobTask) -> dict[str, Any]:
    """Return every field of a task but its function."""
    names = option_names(type(task))  # type: ignore[arg-type]  # it takes a class for one of its objects
    return {name: getattr(task, name) for name in names}


@lru_cache(maxsize=16)
def option_names(kind: type[JobTask]) -> tuple[str, ...]:
    """Return the names of the fields of a class of tasks, but for its function."""
    return tuple(f.name for f in fields(kind) if f.name != "func")


def unchecked(task: JobTask, **changes: Any) -> JobTask:
    """Return a copy of a task with `changes`, not checked: rows outlive the settings they were made under."""
    copy: JobTask = object.__new__(type(task))
    for name, value in {"func": task.func, **options_of(task), **changes}.items():
        object.__setattr__(copy, name, value)
    return copy


def rebuild(path: str, changes: dict[str, Any]) -> JobTask:
    """Return the task at `path` with `changes`: how a task is unpickled. Raises ValueError."""
    try:
        found = import_string(path)
    except ImportError as error:
        raise ValueError(f"Expected {path!r} to point to a Task instance.") from error
    if not isinstance(found, JobTask):
        raise ValueError(f"Expected {path!r} to point to a Task instance, not {type(found).__qualname__}.")
    return unchecked(found, **changes)


Decorator = Callable[[Callable[..., Any]], JobTask]


@overload
def task(function: Callable[..., Any], /) -> JobTask: ...


@overload
def task(
    *,
    queue_name: str = ...,
    priority: int = ...,
    backend: str = ...,
    takes_context: bool = ...,
    max_attempts: int | Unset | None = ...,
    backoff: Policy | Unset = ...,
    retry_on: tuple[type[BaseException], ...] = ...,
    fail_on: tuple[type[BaseException], ...] = ...,
    timeout: timedelta | Unset | None = ...,
    transactional: bool = ...,
    keep_successful: timedelta | Unset | None = ...,
    keep_failed: timedelta | Unset | None = ...,
    encoding: Literal["json", "rich"] = ...,
    capture: bool | Sequence[str] = ...,
    meta: Mapping[str, Any] = ...,
) -> Decorator: ...


def task(
    function: Callable[..., Any] | None = None,
    *,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    priority: int = DEFAULT_TASK_PRIORITY,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Any,
) -> JobTask | Decorator:
    """
    Turn a module-level function, plain or `async`, into a task. Options are the fields of `JobTask`.

    Raises InvalidTask naming the option and value that isn't allowed.
    """
    if function is not None and not callable(function):
        raise TypeError(f"@task takes its options by name: @task(queue_name=…), not @task({function!r}).")
    unknown = set(options) - OPTIONS
    if unknown:
        from django_jobs.exceptions import suggestion

        name = sorted(unknown)[0]
        if name in ("run_after", "about"):
            raise TypeError(f"{name} is given when a job is enqueued: task.using({name}=…).enqueue(…)")
        raise TypeError(f"@task has no option {name!r}.{suggestion(name, OPTIONS)}")

    def decorate(function: Callable[..., Any]) -> JobTask:
        wanted = getattr(backend_of(backend), "task_class", JobTask)
        made = wanted if issubclass(wanted, JobTask) else JobTask
        return made(
            func=function,
            queue_name=queue_name,
            priority=priority,
            backend=backend,
            takes_context=takes_context,
            run_after=None,
            **options,
        )

    return decorate if function is None else decorate(function)


OPTIONS = frozenset(f.name for f in fields(JobTask)) - frozenset(
    {"func", "queue_name", "priority", "backend", "takes_context", "run_after"}
)
"""Names of the options that are ours, beyond those of Django's `@task`."""


def backend_of(alias: str) -> BaseTaskBackend:
    """Return the backend of `alias`: with no `TASKS` setting at all, "default" is ours with any queue."""
    if alias == DEFAULT_TASK_BACKEND_ALIAS and not settings.is_overridden("TASKS"):  # type: ignore[misc]  # not in the stubs
        return unconfigured_backend()
    backend: BaseTaskBackend = task_backends[alias]
    return backend


@lru_cache(maxsize=1)
def unconfigured_backend() -> JobsBackend:
    from django_jobs.backend import JobsBackend  # not at import: the backend needs JobTask

    return JobsBackend(DEFAULT_TASK_BACKEND_ALIAS, {"QUEUES": []})


def is_jobs_backend(backend: BaseTaskBackend) -> bool:
    from django_jobs.backend import JobsBackend  # not at import: the backend needs JobTask

    return isinstance(backend, JobsBackend)


def check_options(task: JobTask) -> None:
    """Raise InvalidTask for the first option of ours with a value that isn't allowed."""
    name = task.module_path
    if len(name) > conf.TASK_PATH_LENGTH:
        raise InvalidTask(
            f"The dotted path of task {name[:80]}… has {len(name)} characters, and a row takes "
            f"{conf.TASK_PATH_LENGTH}. Give the function or its module a shorter name."
        )
    for option in ("max_attempts", "timeout", "keep_successful", "keep_failed", "backoff"):
        value = getattr(task, option)
        rule, wanted = conf.RULES[option]
        if value is not UNSET and not rule(value):
            raise InvalidTask(f"{option} of task {name} must be {wanted}, not {value!r}.")
    for option in ("retry_on", "fail_on"):
        classes = getattr(task, option)
        if not isinstance(classes, tuple) or not all(
            isinstance(c, type) and issubclass(c, BaseException) for c in classes
        ):
            raise InvalidTask(
                f"{option} of task {name} must be a tuple of exception classes, not {classes!r}."
            )
    if task.encoding not in ("json", "rich"):
        raise InvalidTask(f'encoding of task {name} must be "json" or "rich", not {task.encoding!r}.')
    if not isinstance(task.capture, bool | tuple) or not all(part in CAPTURES for part in task.captures):
        raise InvalidTask(
            f'capture of task {name} must be a bool or a list of "logs" and "queries", not {task.capture!r}.'
        )
    if not isinstance(task.meta, Mapping):
        raise InvalidTask(f"meta of task {name} must be a dict, not {task.meta!r}.")
    check_about(task.meta)
    if task.transactional and task.is_async:
        raise InvalidTask(
            f"Task {name} can't be both async and transactional: Django's transactions belong to a thread. "
            "Write its body as a plain function."
        )
