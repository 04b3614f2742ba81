"""django_jobs, with sync jobs."""

from __future__ import annotations

from django.core.management import call_command

from benchmarks.peers.marks import mark
from benchmarks.peers.models import look_up
from django_jobs import task
from django_jobs.models import Job


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
    TASKS[kind].enqueue_many((number,) for number in numbers)


def unfinished() -> int:
    return Job.objects.filter(state__in=["READY", "RUNNING"]).count()
