"""What `runjobs` says of itself: at its start what it serves, after a drain what that did."""

from __future__ import annotations

import os
import platform

import django
from django.db import connections

import django_jobs
from django_jobs import conf
from django_jobs.management.operating.printing import plain
from django_jobs.models import Job
from django_jobs.tasks import registry
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker
from django_jobs.working_off import OwnTask

LISTED = 100
"""Failed jobs that a drain lists."""


def banner(chosen: WorkerOptions, processes: int) -> str:
    """Return what is served, by whom and from where."""
    settings = conf.current()
    target = connections[chosen.database or conf.database()].settings_dict
    where = f"{target['NAME']} on {target['HOST'] or 'a local socket'}"
    if chosen.queues is None:
        queues = "all"
    else:
        queues = ", ".join(
            f"{name} (at most {chosen.limits[name]})" if name in chosen.limits else name
            for name in chosen.queues
        )
    if chosen.excluded_queues:
        queues += f", but not {', '.join(chosen.excluded_queues)}"
    threads = settings.threads if chosen.threads is None else chosen.threads
    slots = settings.async_slots if chosen.async_slots is None else chosen.async_slots
    listens = settings.notify if chosen.listen is None else chosen.listen
    poll = settings.poll_seconds if chosen.poll_seconds is None else chosen.poll_seconds
    return (
        f"django_jobs {django_jobs.__version__} on Django {django.get_version()}, "
        f"Python {platform.python_version()}\n"
        f"  database   {chosen.database}: {where}\n"
        f"  queues     {queues}\n"
        f"  tasks      {sum(not isinstance(task, OwnTask) for task in registry.values())} known\n"
        f"  slots      {processes} x ({threads} threads + {slots} async)\n"
        f"  wake-up    {'notifications, and ' if listens else ''}a poll every {poll:g} s\n"
        f"Stop it with Ctrl-C (process {os.getpid()})."
    )


def report(worker: Worker, seconds: float) -> str:
    """Return what a drain did, and the jobs that failed for good."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(worker.tally.items())) or "nothing to do"
    lines = [f"Drained in {seconds:.1f} s: {counts}."]
    dead = list(worker.dispatcher.ledger.dead)
    for job in Job.objects.using(worker.alias).filter(pk__in=dead[-LISTED:]).order_by("pk"):
        lines.append(f"  failed: #{job.pk} {plain(job.task_path)}: {plain(job.reason or '')}")
    if len(dead) > LISTED:
        lines.append(f"  and {len(dead) - LISTED} more; see: manage.py jobs status")
    return "\n".join(lines)
