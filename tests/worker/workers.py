"""Real workers in threads of the tests' process, on the real database."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connection

from django_jobs.models import Job
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker
from tests import jobs
from tests.eventually import eventually

QUICK = {"heartbeat_seconds": 0.2, "dead_after_seconds": 60.0, "poll_seconds": 60.0}
"""Settings for workers that notice soon what they notice by a heartbeat, and nothing by polling."""


@contextmanager
def running(**options: Any):
    """A worker that runs, with two slots of each kind where nothing else is said."""
    worker = Worker(WorkerOptions(**{"threads": 2, "async_slots": 2} | options))
    worker.start()
    try:
        eventually(lambda: worker.dispatcher.worker)
        yield worker
    finally:
        for gate in jobs.gates.values():
            gate.set()
        worker.stop(10)


class Workers(ExitStack):
    def start(self, **options: Any) -> Worker:
        worker: Worker = self.enter_context(running(**options))
        return worker


def settled(*states: str, **columns: Any) -> bool:
    """Whether every job is in one of these states, or otherwise in a final one."""
    wanted = states or ("SUCCESSFUL", "FAILED", "CANCELLED")
    return not Job.objects.filter(**columns).exclude(state__in=wanted).exists()


def state_of(result: Any) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=result.id)


def job_of(result: Any, *states: str) -> Job:
    """Return the row of a result once it is in one of the states, or otherwise in a final one."""
    eventually(lambda: settled(*states, pk=result.id))
    return Job.objects.get(pk=result.id)


def end_sessions(*pids: int) -> None:
    """Cut connections, and wait until they are: those of the processes named, or all but the test's own."""
    condition = "pid = ANY(%(pids)s)" if pids else "pid <> pg_backend_pid()"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND {condition}",
            {"pids": list(pids)},
        )


def told() -> Any:
    return jobs.told.get(timeout=10)
