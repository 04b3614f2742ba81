"""
django_jobs: a job queue for Django that keeps its jobs in PostgreSQL, in your own transactions.

The names below are the public ones; all of them can be imported before Django's apps are loaded.
"""

from __future__ import annotations

from django_jobs.context import JobContext
from django_jobs.core.backoff import Constant, Exponential, Linear
from django_jobs.enqueueing import enqueue_on_commit
from django_jobs.exceptions import (
    Cancel,
    Fail,
    JobsError,
    JobTimeout,
    Retry,
    Snooze,
    UnknownQueue,
    UnknownSetting,
)
from django_jobs.tasks import JobTask, task

__version__ = "0.1.0"

__all__ = [
    "Cancel",
    "Constant",
    "Exponential",
    "Fail",
    "JobContext",
    "JobTask",
    "JobTimeout",
    "JobsError",
    "Linear",
    "Retry",
    "Snooze",
    "UnknownQueue",
    "UnknownSetting",
    "enqueue_on_commit",
    "task",
]
