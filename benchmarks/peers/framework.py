"""The queues that are plain backends of Django's Tasks framework: django-tasks-db, dj-queue and django-ox."""

from __future__ import annotations

import os
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db import models, transaction
from django.tasks import task

from benchmarks.peers.marks import mark
from benchmarks.peers.models import look_up


@task
def nothing(number: int) -> None:
    mark(number)


@task
def query(number: int) -> None:
    look_up(number)
    mark(number)


TASKS = {"nothing": nothing, "query": query}


def prepare() -> None:
    call_command("migrate", verbosity=0)


def enqueue(kind: str, number: int) -> None:
    TASKS[kind].enqueue(number)


def enqueue_many(kind: str, numbers: range) -> None:
    job = TASKS[kind]
    backend = job.get_backend()
    calls: list[tuple[Any, list[int], dict[str, Any]]] = [(job, [number], {}) for number in numbers]
    if hasattr(backend, "enqueue_all"):  # dj-queue
        backend.enqueue_all(calls)
        return
    with transaction.atomic():
        for number in numbers:
            job.enqueue(number)


def unfinished() -> int:
    model: type[models.Model] = apps.get_model(os.environ["PEERS_MODEL"])
    # dj-queue's job has no state: it has an end, and rows beside it while it waits or runs.
    if any(field.name == "status" for field in model._meta.get_fields()):
        return model._default_manager.filter(status__in=["READY", "RUNNING"]).count()
    return model._default_manager.filter(finished_at=None).count()
