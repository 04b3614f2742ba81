"""Facts of the queue that the scenarios wait for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import connections

from django_jobs.models import Attempt, Job, StateChoices, Worker, WorkerState
from tests.eventually import eventually
from tests.scenarios.marks import Mark, marks

PATIENCE = 20.0
"""How long to wait for what takes milliseconds on an idle machine."""

LATER = timedelta(hours=1)


def job_of(result: Any) -> Job:
    """Return the row of an enqueued job as it is now."""
    return Job.objects.get(pk=result.id)


def begun(key: str, count: int = 1) -> list[Mark]:
    """Wait until bodies began `count` times under `key`, and return the marks."""

    def found() -> list[Mark]:
        begins = marks("begin", key)
        return begins if len(begins) >= count else []

    return eventually(found, PATIENCE)


def is_in(result: Any, state: StateChoices) -> Job:
    """Wait until the job is in `state`, and return it."""

    def row() -> Job:
        job = job_of(result)
        assert job.state == state, f"job {job.pk} is {job.state}: {job.reason}"
        return job

    return eventually(row, PATIENCE)


def is_done(*results: Any) -> None:
    """Wait until the jobs were successful."""
    for result in results:
        is_in(result, StateChoices.SUCCESSFUL)


def waits(*results: Any) -> list[float]:
    """Return for each job the seconds from its due time to the begin of its body, shortest first."""
    is_done(*results)
    began = {mark.job: mark.at for mark in marks("begin")}
    return sorted((began[int(r.id)] - job_of(r).run_after).total_seconds() for r in results)


def usual(seconds: list[float]) -> float:
    """Return the middle one of sorted times: others run on these two cores too."""
    return seconds[len(seconds) // 2]


def kinds(result: Any) -> list[str]:
    """Return how the runs of a job ended, but for its success."""
    return list(Attempt.objects.filter(job_id=result.id).order_by("number").values_list("kind", flat=True))


def nothing_runs() -> bool:
    """Tell whether no job is marked as running, and no worker as alive."""
    live = Worker.objects.filter(state__in=[WorkerState.RUNNING, WorkerState.STOPPING])
    return not Job.objects.filter(state=StateChoices.RUNNING).exists() and not live.exists()


def most_at_once(found: list[Mark]) -> int:
    """Return how many bodies ran at the same time, by their begin and end marks."""
    running = most = 0
    for mark in sorted(found, key=lambda mark: mark.at):
        running += 1 if mark.event == "begin" else -1
        most = max(most, running)
    return most


def rows(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Return what the database answers."""
    with connections["default"].cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def lock_holders() -> set[int]:
    """Return the server processes that hold a worker's lock: the listeners' sessions."""
    return {
        pid
        for [pid] in rows(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
    }


def other_sessions() -> list[int]:
    """Return the server processes of all sessions on this database but ours."""
    found = rows(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    return [pid for [pid] in found]


def terminate(pids: Iterable[int]) -> None:
    """End sessions, as an administrator or a failover does."""
    for pid in pids:
        rows("SELECT pg_terminate_backend(%s)", pid)
