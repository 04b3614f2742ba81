"""
The announcer: tells the world what was stored, in a thread of its own.

Signals and log lines for outcomes come after the commit that stored them. Receivers may be slow and use
the database, so they run neither in the dispatcher, which must go on claiming, nor in a slot.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread

from django.db import DEFAULT_DB_ALIAS
from django.dispatch import Signal
from django.utils import timezone

from django_jobs import signals
from django_jobs.core.arguments import decode
from django_jobs.core.records import Cancelled, Completed, Ended, Failed, Outcome, Released, Retried, Snoozed
from django_jobs.core.states import Kind
from django_jobs.framework import TaskError, TaskResultStatus, task_finished
from django_jobs.results import alias_of, returned, task_at
from django_jobs.tasks import backend_of
from django_jobs.telemetry import DONE_LEVEL, FAILED_LEVEL, is_heard, job_ended, logger
from django_jobs.worker.connections import check_connections, keep_track, leave_idle, tidy_connections


class Announcer:
    """Sends signals and writes log lines for outcomes, in the order in which they were stored."""

    def __init__(self, database: str = DEFAULT_DB_ALIAS) -> None:
        self.database = database
        self.inbox: SimpleQueue[Ended | None] = SimpleQueue()
        self.thread: Thread | None = None

    def tell(self, ended: Ended) -> None:
        """Have `ended` announced, if anyone would notice. Called once it is stored."""
        if isinstance(ended.outcome, Completed) and not (
            logger.isEnabledFor(logging.DEBUG) or is_heard(task_finished, DONE_LEVEL)
        ):
            return
        if self.thread is None:
            self.thread = Thread(target=self.serve, name="django_jobs-announcer", daemon=True)
            self.thread.start()
        self.inbox.put(ended)

    def serve(self) -> None:
        """Announce until told to stop."""
        keep_track()
        while True:
            if self.inbox.empty():
                leave_idle()
            ended = self.inbox.get()
            if ended is None:
                break
            check_connections()
            try:
                announce(ended, self.database)
            except BaseException:  # noqa: BLE001  (the next outcome is announced all the same)
                logger.exception("job %s could not be announced", ended.job.id)
            tidy_connections("of a signal's receiver")
        leave_idle(close=True)

    def stop(self, seconds: float) -> None:
        """Announce what is left, for `seconds` at most."""
        if self.thread is not None:
            self.inbox.put(None)
            self.thread.join(seconds)


def announce(ended: Ended, database: str) -> None:
    """Write the log line and send the signals of one run that ended, of a job in `database`."""
    job_ended(ended.job, ended.outcome, ended.exception, ended.seconds)
    for signal in signals_of(ended.outcome):
        signal.send_robust(None, job=ended.job, outcome=ended.outcome)
    match ended.outcome:
        case Completed():
            finished(ended, TaskResultStatus.SUCCESSFUL, database)
        case Failed():
            try:
                raise ended.exception or RuntimeError(ended.outcome.trace.message)
            except BaseException:  # noqa: BLE001  (Django's contract: sent while it is being handled)
                finished(ended, TaskResultStatus.FAILED, database)
        case Cancelled():
            finished(ended, TaskResultStatus.FAILED, database)


def signals_of(outcome: Outcome) -> list[Signal]:
    """Return our own signals for an outcome; success has none but Django's."""
    match outcome:
        case Retried(kind=Kind.LOST):
            return [signals.job_rescued, signals.job_retrying]
        case Retried():
            return [signals.job_retrying]
        case Failed(kind=Kind.LOST):
            return [signals.job_rescued, signals.job_failed]
        case Failed():
            return [signals.job_failed]
        case Snoozed():
            return [signals.job_snoozed]
        case Cancelled():
            return [signals.job_cancelled]
        case Released():
            return [signals.job_released]
        case Completed():
            return []


def finished(ended: Ended, status: TaskResultStatus, database: str) -> None:
    """Send Django's `task_finished` with the result as it is stored."""
    level = DONE_LEVEL if status is TaskResultStatus.SUCCESSFUL else FAILED_LEVEL
    if not is_heard(task_finished, level):
        return
    task = task_at(ended.job.task_path)
    backend = backend_of(alias_of(task, ended.job.queue_name, database))
    if ended.result is None:  # the run was another worker's, so all that is known of it is in the tables
        result = backend.get_result(str(ended.job.id))
    else:
        # The moment at which receivers are told; the row has the database's own.
        told = [*ended.result.errors, *errors(ended)]
        result = replace(ended.result, status=status, finished_at=timezone.now(), errors=told)
        if isinstance(ended.outcome, Completed) and ended.outcome.return_value is not None:
            value = returned(task, decode(ended.outcome.return_value))
            object.__setattr__(result, "_return_value", value)
    task_finished.send_robust(type(backend), task_result=result)


def errors(ended: Ended) -> list[TaskError]:
    """Return the error that a failed run adds to its result."""
    if not isinstance(ended.outcome, Failed):
        return []
    trace = ended.outcome.trace
    return [TaskError(exception_class_path=trace.exception_class, traceback=trace.traceback)]
