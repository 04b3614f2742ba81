"""
Django's Tasks framework, from wherever this Django has it.

Django 6.0 and later carry it as `django.tasks`; on 5.2 the `django-tasks` package is the same framework
under its own name and, up to 0.12, with two exception names of its own. The rest of django_jobs imports
these names from here and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
from django.core.exceptions import ImproperlyConfigured

IN_CORE = django.VERSION >= (6, 0)
"""True where the framework is part of Django itself."""

if TYPE_CHECKING or IN_CORE:
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        TASK_MAX_PRIORITY,
        TASK_MIN_PRIORITY,
        Task,
        TaskError,
    )
    from django.tasks.exceptions import (
        InvalidTask,
        InvalidTaskBackend,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.tasks.signals import task_enqueued, task_finished, task_started
else:
    try:
        import django_tasks  # noqa: F401  (asked for first, so that its absence gets the message below)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"django_jobs on Django {django.get_version()} needs the package 'django-tasks', which brings "
            "Django's Tasks framework to versions before 6.0. Install it with: "
            'pip install "django-pg-jobs[backport]"'
        ) from error
    from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django_tasks import exceptions as backport_exceptions
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        TASK_MAX_PRIORITY,
        TASK_MIN_PRIORITY,
        Task,
        TaskError,
    )
    from django_tasks.exceptions import TaskResultMismatch
    from django_tasks.signals import task_enqueued, task_finished, task_started

    def renamed(name: str, old_name: str) -> type[Exception]:
        """Return the exception under core's name or, up to django-tasks 0.12, its older one."""
        found: type[Exception] = getattr(backport_exceptions, name, None) or getattr(
            backport_exceptions, old_name
        )
        return found

    InvalidTask = renamed("InvalidTask", "InvalidTaskError")
    InvalidTaskBackend = renamed("InvalidTaskBackend", "InvalidTaskBackendError")
    TaskResultDoesNotExist = renamed("TaskResultDoesNotExist", "ResultDoesNotExist")

if TYPE_CHECKING:
    AnyResult = TaskResult[..., Any]
else:
    AnyResult = TaskResult  # generic in the stubs and the backport only

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_PRIORITY",
    "DEFAULT_TASK_QUEUE_NAME",
    "IN_CORE",
    "TASK_MAX_PRIORITY",
    "TASK_MIN_PRIORITY",
    "AnyResult",
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
