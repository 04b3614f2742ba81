"""How long one run may take: one rule for the worker that holds to it and the page that tells it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from django_jobs.tasks import UNSET, JobTask


class Limits(Protocol):
    """What a project says of it: the settings, or a worker's part of them."""

    @property
    def timeout(self) -> timedelta | None: ...
    @property
    def queue_timeouts(self) -> Mapping[str, timedelta | None]: ...
    @property
    def transactional_timeout(self) -> timedelta | None: ...


def timeout_of(limits: Limits, task: JobTask, queue_name: str) -> timedelta | None:
    """Return how long one run may take: the task's own limit, its queue's, or the project's."""
    if task.timeout is not UNSET:
        return task.timeout
    limit = limits.queue_timeouts.get(queue_name, limits.timeout)
    return limits.transactional_timeout if limit is None and task.transactional else limit
