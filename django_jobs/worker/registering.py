"""What a worker says of itself in the database."""

from __future__ import annotations

import os
import platform
import socket

import django
import psycopg

import django_jobs
from django_jobs.store.workers import Registration
from django_jobs.tasks import registry
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.traces import storable


def registration(options: WorkerOptions, *, threads: int, async_slots: int) -> Registration:
    """Return the row of a worker in this process, with so many slots of each kind."""
    host = fitting(socket.gethostname(), 255)
    return Registration(
        name=fitting(options.name or f"{host[:180]}:{os.getpid()}", 200),
        host=host,
        pid=os.getpid(),
        supervisor=options.supervisor,
        supervisor_pid=options.supervisor_pid,
        queues=options.queues,
        excluded_queues=options.excluded_queues,
        limits=options.limits,
        tasks=sorted(registry),
        threads=threads,
        async_slots=async_slots,
        versions=versions(),
    )


def fitting(name: str, most: int) -> str:
    """Return a name as the row of a worker can hold it."""
    return storable(name, len(name))[:most]


def versions() -> dict[str, str]:
    """Return the versions that this process runs, as shown for a worker."""
    return {
        "python": platform.python_version(),
        "django": django.get_version(),
        "django_jobs": django_jobs.__version__,
        "psycopg": psycopg.__version__,
    }
