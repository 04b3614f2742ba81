"""
The executor: a `ClaimedJob` goes in, what its run came to comes out.

It runs the body and nothing else: it writes no row, so its tests are plain calls. The one exception is
handed in as `settle`: with `transactional=True` the outcome is written in the body's own transaction.
Called by `slots`, in the thread or on the event loop that runs the body.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any

from django.db import transaction

from django_jobs.context import JobContext
from django_jobs.core import rich
from django_jobs.core.arguments import UndecodableText, UnstorableType, UnstorableValue, decode, encode_value
from django_jobs.core.backoff import Call, delay_of
from django_jobs.core.records import (
    Cancelled,
    ClaimedJob,
    Completed,
    Ended,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
)
from django_jobs.core.states import Kind
from django_jobs.exceptions import Cancel, ClaimLost, Fail, JobTimeout, Retry, Snooze, UnknownTask, WorkerLost
from django_jobs.framework import AnyResult, task_finished, task_started
from django_jobs.results import as_shown, meta_of, of_claim
from django_jobs.tasks import UNSET, JobTask, backend_of, registry
from django_jobs.telemetry import DONE_LEVEL, STARTED_LEVEL, is_heard, logger
from django_jobs.timeouts import timeout_of
from django_jobs.worker.capturing import Capture, Limits
from django_jobs.worker.traces import storable, trace_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The project's settings as the executor needs them."""

    database: str
    backoff: Any
    timeout: timedelta | None
    queue_timeouts: Mapping[str, timedelta]
    transactional_timeout: timedelta
    keep_successful: timedelta | None
    keep_failed: timedelta | None
    max_error_chars: int
    max_argument_bytes: int
    capture: Limits = field(default_factory=Limits)


def nothing() -> None:
    """Prepare nothing."""


class Executor:
    """Runs claimed jobs by the project's rules, for one worker."""

    def __init__(
        self,
        rules: Rules,
        *,
        worker: Callable[[], int],
        is_cancelled: Callable[[int], bool],
        settle: Callable[[Ended], bool],
    ) -> None:
        self.rules = rules
        self.worker = worker
        self.is_cancelled = is_cancelled
        self.settle = settle

    def run(self, job: ClaimedJob) -> Ended:
        """Run a sync body here and now and return what it came to. Raises nothing but a late JobTimeout."""
        start = perf_counter()
        result: AnyResult | None = None
        outcome: Outcome
        exception: BaseException | None = None
        stored = False
        capture: Capture | None = None
        try:
            task, args, kwargs = self.call_of(job)
            result = self.announce(job, task, args, kwargs)
            given = self.arguments(job, task, args, result)
            context = contextvars.copy_context()
            body: Callable[..., Any] = task.call
            if task.capture:
                capture = Capture(task.captures, self.rules.capture)
                body = partial(capture.around, body)
            if task.transactional:
                body = partial(body, *given, **kwargs)
                outcome = context.run(self.run_transactional, job, task, body, capture)
                stored = True
            else:
                outcome = self.completed(task, context.run(body, *given, **kwargs))
        except BaseException as error:  # noqa: BLE001  (whatever a body raises is its outcome)
            exception = error
            outcome = self.outcome_of(job, error)
        ended = Ended(job, outcome, exception, stored, perf_counter() - start, result)
        return ended if capture is None or stored else replace(ended, captured=capture.result())

    def run_transactional(
        self, job: ClaimedJob, task: JobTask, body: Callable[[], Any], capture: Capture | None
    ) -> Outcome:
        """Run the body and write its outcome in one transaction. Raises ClaimLost, rolling all of it back."""
        with transaction.atomic(using=self.rules.database):
            outcome = self.completed(task, body())
            captured = None if capture is None else capture.result()
            if not self.settle(Ended(job, outcome, captured=captured)):
                raise ClaimLost(f"Job {job.id} was taken over while its transaction was open.")
        return outcome

    async def run_async(
        self, job: ClaimedJob, *, prepare: Callable[[], Awaitable[None] | None] = nothing
    ) -> Ended:
        """
        Run an async body on this event loop and return what it came to. Raises nothing.

        `prepare` is called before the body, as a part of the run, and what it returns is awaited.
        """
        start = perf_counter()
        result: AnyResult | None = None
        outcome: Outcome
        exception: BaseException | None = None
        capture: Capture | None = None
        try:
            task, args, kwargs = self.call_of(job)
            result = self.announce(job, task, args, kwargs)
            if (preparing := prepare()) is not None:
                await preparing
            body: Callable[..., Awaitable[Any]] = task.acall
            if task.capture:
                capture = Capture(task.captures, self.rules.capture)
                body = partial(capture.around_async, body)
            value = await body(*self.arguments(job, task, args, result), **kwargs)
            outcome = self.completed(task, value)
        except BaseException as error:  # noqa: BLE001  (as above; some would stop the event loop)
            exception = error
            outcome = self.outcome_of(job, error)
        ended = Ended(job, outcome, exception, False, perf_counter() - start, result)
        return ended if capture is None else replace(ended, captured=capture.result())

    def call_of(self, job: ClaimedJob) -> tuple[JobTask, list[Any], dict[str, Any]]:
        """Return the task and its arguments. Raises UnknownTask or UndecodableText."""
        task = registry.get(job.task_path)
        if task is None:
            raise UnknownTask(f"No task {job.task_path!r} is known to this worker.")
        call = decode(job.call)
        if not (isinstance(call[0], list) and isinstance(call[1], dict)):
            raise UndecodableText(
                f"args must be a list and kwargs an object, but the row has {json_type(call[0])} and "
                f"{json_type(call[1])}. It was not written by django_jobs; correct it in its row."
            )
        if task.encoding == "rich":
            return task, rich.restore(call[0]), rich.restore(call[1])
        return task, call[0], call[1]

    def announce(
        self, job: ClaimedJob, task: JobTask, args: list[Any], kwargs: dict[str, Any]
    ) -> AnyResult | None:
        """Send `task_started`, and return the job's result when anyone needs one."""
        heard = is_heard(task_started, STARTED_LEVEL)
        if not (heard or task.takes_context or is_heard(task_finished, DONE_LEVEL)):
            return None
        result = of_claim(job, task, args, kwargs, worker=self.worker(), database=self.rules.database)
        if heard:
            task_started.send_robust(type(backend_of(result.backend)), task_result=result)
        return result

    def arguments(
        self, job: ClaimedJob, task: JobTask, args: list[Any], result: AnyResult | None
    ) -> list[Any]:
        """Return the positional arguments, the context first where the task takes one."""
        if not task.takes_context:
            return args
        assert result is not None
        limit = self.timeout_of(task, job.queue_name)
        context = JobContext(
            task_result=result,
            job_id=job.id,
            counted_attempt=job.counted_attempt,
            deadline=None if limit is None else as_shown(job.last_attempted_at + limit),
            cancel_asked=lambda: self.is_cancelled(job.id),
            meta=meta_of(job),
        )
        return [context, *args]

    def completed(self, task: JobTask, value: Any) -> Completed:
        """Return the outcome of a body that returned `value`. Raises a TypeError or ValueError of ours."""
        text = None
        if value is not None:
            if task.encoding == "rich":
                value = rich.flatten(value)
            text = encode_value(value, place="return value", max_bytes=self.rules.max_argument_bytes)
        keep = self.rules.keep_successful if task.keep_successful is UNSET else task.keep_successful
        return Completed(return_value=text, keep=keep)

    def outcome_of(self, job: ClaimedJob, error: BaseException) -> Outcome:
        """Return what a body's exception means for its job; one that makes no sense is a failure."""
        try:
            return self.meaning_of(job, error)
        except Exception as problem:  # noqa: BLE001  (a subclass of ours that isn't made as ours are)
            return self.failure(job, problem, Kind.ERROR)

    def meaning_of(self, job: ClaimedJob, error: BaseException) -> Outcome:
        """Return what a body's exception means for its job. Raises what reading the exception raises."""
        task = registry.get(job.task_path)
        match error:
            case Snooze():
                return Snoozed(after=Snooze(error.after).after, reason=self.words(error.reason))
            case Cancel():
                return Cancelled(reason=self.words(error), keep=self.keep_failed(task))
            case ClaimLost():
                return Released(started=True, reason=str(error))
            case JobTimeout():
                if not error.args:  # raised in the body's thread by `slots`, which can give it no words
                    error.args = self.overtime(job).args
                return self.failure(job, error, Kind.TIMEOUT)
            case UnknownTask():
                return self.failure(job, error, Kind.UNKNOWN_TASK)
            case _:
                return self.failure(job, error, Kind.ERROR)

    def words(self, said: object) -> str:
        """Return what a body said, as text that the tables can hold."""
        return storable(str(said), self.rules.max_error_chars // 8)

    def failure(self, job: ClaimedJob, error: BaseException, kind: Kind) -> Retried | Failed:
        """Return whether a failed run is followed by another, and when."""
        task = registry.get(job.task_path)
        trace = trace_of(in_pythons_words(error), max_chars=self.rules.max_error_chars)
        if self.may_retry(job, task, error, kind):
            after = self.delay(job, task, error, kind)
            if after is not None:
                return Retried(kind=kind, trace=trace, after=after)
        return Failed(kind=kind, trace=trace, keep=self.keep_failed(task))

    def may_retry(self, job: ClaimedJob, task: JobTask | None, error: BaseException, kind: Kind) -> bool:
        """Whether another attempt is allowed after `error`."""
        if job.max_attempts is not None and job.counted_attempt >= job.max_attempts:
            return False
        if task is None:  # a rescuer with other code: whether the body may run again is not for it to say
            return kind is Kind.LOST
        if isinstance(error, (Fail, UnstorableType, UnstorableValue, UndecodableText)):
            return False
        if isinstance(error, task.fail_on):
            return False
        # A timeout or a lost worker is no exception of the body's, so retry_on has no say in it.
        return isinstance(error, (Retry, *task.retry_on)) or kind in (Kind.TIMEOUT, Kind.LOST)

    def delay(
        self, job: ClaimedJob, task: JobTask | None, error: BaseException, kind: Kind
    ) -> timedelta | None:
        """
        Return how long to wait before the next attempt; `None` when the task's policy gives up.

        A job that was lost with its worker for the first time is due at once: it was hardly its fault.
        """
        if isinstance(error, Retry) and error.after is not None:
            return Retry(after=error.after).after
        policy = self.rules.backoff if task is None or task.backoff is UNSET else task.backoff
        attempt = job.counted_attempt - (kind is Kind.LOST)
        if attempt < 1:
            return timedelta(0)
        wait = delay_of(policy, attempt, error, call=lambda: Call(*self.call_of(job)[1:]))
        if wait.problem:
            logger.warning("backoff of task %s: %s", job.task_path, wait.problem)
        return wait.delay

    def lost(self, job: ClaimedJob, why: str) -> Retried | Failed:
        """Return what becomes of a job whose worker died."""
        return self.failure(job, WorkerLost(why), Kind.LOST)

    def timed_out(self, job: ClaimedJob) -> Retried | Failed:
        """Return what becomes of a job whose body ran past its timeout."""
        return self.failure(job, self.overtime(job), Kind.TIMEOUT)

    def overtime(self, job: ClaimedJob) -> JobTimeout:
        """Return the error of a run that took too long."""
        task = registry.get(job.task_path)
        limit = None if task is None else self.timeout_of(task, job.queue_name)
        return JobTimeout(f"The run took longer than its timeout of {limit}.")

    def keep_failed(self, task: JobTask | None) -> timedelta | None:
        """Return how long a failed or cancelled job of `task` stays."""
        return self.rules.keep_failed if task is None or task.keep_failed is UNSET else task.keep_failed

    def timeout_of(self, task: JobTask, queue_name: str) -> timedelta | None:
        """Return how long one run may take: the task's own limit, its queue's, or the project's."""
        return timeout_of(self.rules, task, queue_name)


def in_pythons_words(error: BaseException) -> BaseException:
    """Return `error`; what this package says of a return value as the TypeError or ValueError that it is."""
    for ours, pythons in ((UnstorableType, TypeError), (UnstorableValue, ValueError)):
        if isinstance(error, ours):
            return pythons(str(error)).with_traceback(error.__traceback__)
    return error


def json_type(value: Any) -> str:
    """Return what a stranger's value is in JSON; the value itself would end up in logs."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
