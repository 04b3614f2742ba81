"""Immediate mode: jobs run as they are enqueued, with everything that a real job goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import iscoroutinefunction
from threading import RLock
from typing import Any

from django_jobs.backend import JobsBackend
from django_jobs.core.arguments import decode
from django_jobs.core.records import Completed, Ended
from django_jobs.exceptions import Cancel, Retry, Snooze
from django_jobs.framework import AnyResult, TaskResultDoesNotExist, TaskResultStatus
from django_jobs.results import returned
from django_jobs.testing.running import Session

lock = RLock()
opened: list[immediate] = []
"""The contexts that are open, the innermost last."""


class immediate:  # noqa: N801  (used like a function)
    """
    Run each job as it is enqueued, as a context manager or a decorator of a test, sync or async.

    The job is checked, inserted, claimed, run and finished as ever, on the test's connection and inside the
    transaction that is open, and what `enqueue` returns is what it came to. A job that is scheduled for later
    stays, and so does one that failed and is to be retried: `drain` runs them.

    With `raise_errors=True`, `enqueue` raises what the body raised.
    """

    def __init__(self, *, raise_errors: bool = False) -> None:
        self.raise_errors = raise_errors

    def __enter__(self) -> immediate:
        with lock:
            if not opened:
                intercept()
            opened.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        with lock:
            opened.remove(self)
            if not opened:
                let_go()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Have `function` run in immediate mode."""
        if iscoroutinefunction(function):

            @wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return run_async

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run


enqueue, enqueue_many = JobsBackend.enqueue, JobsBackend.enqueue_many


def intercept() -> None:
    """Have the backend run what it enqueues."""
    JobsBackend.enqueue = enqueue_and_run  # type: ignore[method-assign, assignment]  # for the length of a test
    JobsBackend.enqueue_many = enqueue_many_and_run  # type: ignore[method-assign, assignment]  # for the length of a test


def let_go() -> None:
    """Have the backend only enqueue again."""
    JobsBackend.enqueue = enqueue  # type: ignore[method-assign]  # for the length of a test
    JobsBackend.enqueue_many = enqueue_many  # type: ignore[method-assign]  # for the length of a test


def enqueue_and_run(backend: JobsBackend, *args: Any, **kwargs: Any) -> AnyResult:
    """Stand in for `JobsBackend.enqueue`."""
    result = enqueue(backend, *args, **kwargs)
    for ended in run_now(backend.database, [int(result.id)]):
        renew(result, ended)
    return result


def enqueue_many_and_run(backend: JobsBackend, task: Any, calls: Iterable[Any], *, ids: bool = False) -> Any:
    """Stand in for `JobsBackend.enqueue_many`."""
    numbers: Any = enqueue_many(backend, task, calls, ids=True)
    run_now(backend.database, [int(number) for number in numbers])
    return numbers if ids else len(numbers)


def run_now(alias: str, ids: list[int]) -> list[Ended]:
    """Run those of the jobs that are due. Raises the error of a body where that was asked for."""
    raise_errors = opened[-1].raise_errors
    error: BaseException | None = None
    with Session(alias) as session:
        for id in ids:  # noqa: A001  (as the model has it)
            for job in session.claim_one(id):
                error = session.run_one(job).exception
            if isinstance(error, KeyboardInterrupt):
                break
            if raise_errors and error is not None and not isinstance(error, Retry | Snooze | Cancel):
                break
            error = None
    if error is not None:
        raise error
    return session.runs


def renew(result: AnyResult, ended: Ended) -> None:
    """Bring a result up to date; one whose job was deleted as it finished has no row to read."""
    try:
        result.refresh()
    except TaskResultDoesNotExist:
        if isinstance(ended.outcome, Completed):
            text = ended.outcome.return_value
            value = None if text is None else returned(result.task, decode(text))
            object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
            object.__setattr__(result, "_return_value", value)
