"""What a test may say of the jobs that the code under test enqueued."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_jobs import conf
from django_jobs.core import rich
from django_jobs.core.arguments import encode_call
from django_jobs.framework import Task
from django_jobs.signatures import call_signature

if TYPE_CHECKING:
    from django_jobs.models import Job

WITHIN = timedelta(seconds=1)
"""How far a due time may be from the one that a test names: its clock and the database's are two."""

MOST_SHOWN = 20
"""Jobs that a failed assertion lists."""


def enqueued(
    task: Task | str | None = None,  # type: ignore[type-arg]  # generic in the backport only
    *,
    queue: str | None = None,
    using: str | None = None,
) -> list[Job]:
    """
    Return the jobs that were enqueued, oldest first, whatever became of them.

    `task` is a task, or the dotted path of one. Jobs that were deleted as they finished (a task with
    `keep_successful` of zero) are gone.
    """
    from django_jobs.models import Job  # not at import: test backends are made before the apps are loaded

    found = Job.objects.using(using or conf.database()).order_by("pk")
    if task is not None:
        found = found.filter(task_path=task if isinstance(task, str) else task.module_path)
    if queue is not None:
        found = found.filter(queue_name=queue)
    return list(found)


def assert_enqueued(
    task: Task | str,  # type: ignore[type-arg]  # generic in the backport only
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    queue: str | None = None,
    due: datetime | timedelta | None = None,
    priority: int | None = None,
    state: str | None = None,
    count: int | None = None,
    using: str | None = None,
) -> Job:
    """
    Assert that a job of `task` was enqueued, or exactly `count` of them; return the first.

    With `args` or `kwargs` only the same call counts, however it was written: by position or by name, with
    defaults or without, a tuple for a list. `due` is a moment, to the second, or the delay that the job was
    given; `timedelta(0)` is at once. `state` is one such as "READY"; without it, all states count.
    """
    if count is not None and count < 1:
        raise ValueError(f"count={count}: to assert that no job was enqueued, call assert_not_enqueued.")
    wanted = Wanted(task, args, kwargs, queue, due, priority, state)
    of_task = enqueued(task, using=using)
    found = [job for job in of_task if wanted.fits(job)]
    if not found or count not in (None, len(found)):
        number = "no job" if count is None else f"{len(found)} jobs, not {count},"
        raise AssertionError(f"{number} of {wanted} was enqueued.{listed(of_task, using)}")
    return found[0]


def assert_not_enqueued(
    task: Task | str | None = None,  # type: ignore[type-arg]  # generic in the backport only
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    queue: str | None = None,
    due: datetime | timedelta | None = None,
    priority: int | None = None,
    state: str | None = None,
    using: str | None = None,
) -> None:
    """Assert that no such job was enqueued; without `task`, none at all. See `assert_enqueued`."""
    wanted = Wanted(task, args, kwargs, queue, due, priority, state)
    found = [job for job in enqueued(task, using=using) if wanted.fits(job)]
    if found:
        raise AssertionError(f"{len(found)} jobs of {wanted} were enqueued.{listed(found, using)}")


class Wanted:
    """What a job must be to count."""

    def __init__(
        self,
        task: Task | str | None,  # type: ignore[type-arg]  # generic in the backport only
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        queue: str | None,
        due: datetime | timedelta | None,
        priority: int | None,
        state: str | None,
    ) -> None:
        self.task = task
        self.call = None if args is None and kwargs is None else plain(task, args or (), kwargs or {})
        self.queue, self.due, self.priority, self.state = queue, due, priority, state

    def fits(self, job: Job) -> bool:
        return (
            (self.call is None or self.call == bound(self.task, job.args, job.kwargs))
            and self.queue in (None, job.queue_name)
            and self.priority in (None, job.priority)
            and (self.state is None or str(self.state).upper() == job.state)
            and self.is_due(job)
        )

    def is_due(self, job: Job) -> bool:
        if self.due is None:
            return True
        if isinstance(self.due, timedelta):
            return abs(job.run_after - job.enqueued_at - self.due) <= WITHIN
        return abs(job.run_after - self.due) <= WITHIN

    def __str__(self) -> str:
        path = "any task" if self.task is None else getattr(self.task, "module_path", self.task)
        parts = [
            f"{name}={value!r}"
            for name, value in (
                ("queue", self.queue),
                ("due", self.due),
                ("priority", self.priority),
                ("state", self.state),
            )
            if value is not None
        ]
        call = "" if self.call is None else f" called with {json.dumps(self.call, ensure_ascii=False)}"
        return f"{path}{call}" + (f" and {', '.join(parts)}" if parts else "")


def plain(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a call as it is stored, by the names of its arguments. Raises as enqueueing it would."""
    if getattr(task, "encoding", "json") == "rich":
        args, kwargs = rich.flatten(list(args)), rich.flatten(dict(kwargs))
    args_text, kwargs_text = encode_call(args, kwargs, max_bytes=conf.current().max_argument_bytes)
    return bound(task, json.loads(args_text), json.loads(kwargs_text))


def bound(task: Any, args: Any, kwargs: Any) -> Any:
    """Return a stored call by the names of its arguments, defaults included; as it is if it doesn't fit."""
    if task is None or isinstance(task, str):
        return [args, kwargs]
    try:
        call = call_signature(task.func, task.takes_context).bind(*args, **kwargs)
    except TypeError:
        return [args, kwargs]
    call.apply_defaults()
    return json.loads(json.dumps(call.arguments, default=str))


def listed(jobs: Sequence[Job], using: str | None) -> str:
    """Return the jobs that there are, for the message of a failed assertion."""
    if not jobs:
        others = sorted({job.task_path for job in enqueued(using=using)})
        return f" Jobs were enqueued of: {', '.join(others)}." if others else " Nothing was enqueued."
    lines = [
        f"  #{job.pk} args={job.args!r} kwargs={job.kwargs!r} queue={job.queue_name!r} "
        f"priority={job.priority} due={job.run_after.isoformat()} state={job.state}"
        for job in jobs[:MOST_SHOWN]
    ]
    if len(jobs) > MOST_SHOWN:
        lines.append(f"  and {len(jobs) - MOST_SHOWN} more")
    return "\nThere are:\n" + "\n".join(lines)
