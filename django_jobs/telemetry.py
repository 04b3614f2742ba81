"""
What is said of events: every log line of the queue, and whether anybody listens to a signal.

One logger, `django_jobs`, one record for each transition. DEBUG tells a decision, INFO a start and a stop,
WARNING what someone should know, ERROR what someone should do. Arguments are left out unless the setting
`log_arguments` asks for them. Handlers and levels are the project's.
"""

from __future__ import annotations

import logging
from typing import Any
from weakref import ReferenceType

from django.dispatch import Signal

from django_jobs import conf
from django_jobs.core.arguments import UndecodableText, decode
from django_jobs.core.masking import masked, masked_positional
from django_jobs.core.records import (
    Cancelled,
    ClaimedJob,
    Completed,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
)
from django_jobs.core.states import Kind
from django_jobs.signatures import positional_names

logger = logging.getLogger("django_jobs")

FRAMEWORKS = {
    "django.tasks.signals": logging.getLogger("django.tasks"),
    "django_tasks.signals": logging.getLogger("django_tasks"),
}
"""What Django's own receivers log to, by their module."""

STARTED_LEVEL, DONE_LEVEL, FAILED_LEVEL = logging.INFO, logging.INFO, logging.ERROR
"""Levels at which Django's own receivers log a start, a success and a failure."""


def is_heard(signal: Signal, level: int) -> bool:
    """
    Whether anyone would notice `signal`.

    Django's own receivers only write a log line, at `level`: alone, and with that level off, they don't
    count, so that nothing is built for them.
    """
    if len(signal.receivers) != 1:
        return bool(signal.receivers)
    receiver = signal.receivers[0][1]
    function = receiver() if isinstance(receiver, ReferenceType) else receiver
    framework = FRAMEWORKS.get(getattr(function, "__module__", ""))
    return framework is None or framework.isEnabledFor(level)


def fields(job: ClaimedJob) -> dict[str, Any]:
    """Return what every record about a job carries in `extra`."""
    found = {
        "job_id": job.id,
        "task": job.task_path,
        "queue": job.queue_name,
        "attempt": job.counted_attempt,
    }
    settings = conf.current()
    if settings.log_arguments:
        found |= arguments(job, settings.sensitive_names)
    return found


def arguments(job: ClaimedJob, sensitive: tuple[str, ...]) -> dict[str, Any]:
    """Return a job's arguments for a log record, those with sensitive names masked."""
    try:
        args, kwargs = decode(job.call)
        shown = {
            "job_args": masked_positional(args, positional_names(job.task_path), sensitive),
            "job_kwargs": masked(kwargs, sensitive),
        }
    except (UndecodableText, ValueError, TypeError):
        return {"job_args": "(not readable)"}
    return shown


def job_ended(job: ClaimedJob, outcome: Outcome, exception: BaseException | None, seconds: float) -> None:
    """Write the one record for a run that ended, with its traceback when it failed."""
    extra = fields(job) | {"seconds": round(seconds, 6)}
    match outcome:
        case Completed():
            logger.debug("job %s %s done in %.3f s", job.id, job.task_path, seconds, extra=extra)
        case Retried(kind=kind, after=after):
            logger.warning(
                "job %s %s %s in attempt %s of %s; next attempt in %.1f s",
                job.id,
                job.task_path,
                WORDS[kind],
                job.counted_attempt,
                job.max_attempts or "any number",
                after.total_seconds(),
                exc_info=exception,
                extra=extra,
            )
        case Failed(kind=kind):
            logger.error(
                "job %s %s %s in attempt %s of %s and waits for a person",
                job.id,
                job.task_path,
                WORDS[kind],
                job.counted_attempt,
                job.max_attempts or "any number",
                exc_info=exception,
                extra=extra,
            )
        case Snoozed(after=after):
            logger.debug("job %s %s snoozed for %s", job.id, job.task_path, after, extra=extra)
        case Cancelled():  # why is a body's or a person's text: it stands in the row
            logger.info("job %s %s cancelled", job.id, job.task_path, extra=extra)
        case Released(reason=reason):
            logger.info("job %s %s handed back: %s", job.id, job.task_path, reason, extra=extra)


WORDS = {
    Kind.ERROR: "failed",
    Kind.TIMEOUT: "timed out",
    Kind.LOST: "was lost with its worker",
    Kind.UNKNOWN_TASK: "found no worker that knows its task",
}
