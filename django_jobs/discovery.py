"""
Discovery: which tasks this process knows.

`registry` holds what was defined so far. Here the modules `tasks` of all apps are imported, and the plain
tasks of Django's that stand in them are taken up: a task is plain when it was defined for a backend that
isn't ours, and `using(backend=…)` may send it to ours all the same. Called by workers at their start, by
`backend` for a plain task, and by `results` for a row whose task wasn't imported yet.
"""

from __future__ import annotations

import sys
from functools import cache
from traceback import walk_tb

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from django_jobs.exceptions import UnloadableTasks
from django_jobs.framework import Task, task_backends
from django_jobs.tasks import JobTask, is_jobs_backend, registry
from django_jobs.telemetry import logger


def discover() -> None:
    """
    Import the module `tasks` of every app, and take up what it defines, and this package's own task.

    Raises UnloadableTasks when one ends the process, and otherwise what importing them raises.
    """
    from django_jobs import working_off  # not at import: it needs the models

    working_off.register(registry)
    try:
        autodiscover_modules("tasks")
    except SystemExit as error:
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        modules = [str(f.f_globals.get("__name__")) for f in frames if f.f_code.co_name == "<module>"]
        raise UnloadableTasks(modules[-1] if modules else "tasks", error.code) from error
    if not any(is_jobs_backend(task_backends[alias]) for alias in task_backends):
        return  # no plain task can come to us
    for app in apps.get_app_configs():
        module = sys.modules.get(f"{app.name}.tasks")
        for value in [] if module is None else list(vars(module).values()):
            if isinstance(value, Task) and not isinstance(value, JobTask):
                adopted(value)


def adopted(task: Task) -> JobTask:  # type: ignore[type-arg]  # generic in the backport only
    """Return a plain task as one of ours, entered in the registry; its options of ours are the defaults."""
    known = registry.get(task.module_path)
    if known is not None and known.func is task.func:
        return known
    return JobTask(
        func=task.func,
        priority=task.priority,
        queue_name=task.queue_name,
        backend=task.backend,
        run_after=task.run_after,
        takes_context=task.takes_context,
    )


@cache
def discover_once() -> None:
    """Have the tasks of all apps imported, whatever they raise; the error is logged, and not tried again."""
    try:
        discover()
    except Exception:  # noqa: BLE001  (someone looks at a result, and shall see it)
        logger.exception("the tasks of some apps could not be imported; results of their jobs show stand-ins")
