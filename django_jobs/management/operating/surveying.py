"""
What goes on in the queue, as `manage.py jobs status` writes it, and whether that is well, for `health`.

`dashboard.surveying` finds it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django_jobs.dashboard.surveying import MOST_SHOWN, Survey
from django_jobs.management.operating.printing import moment, number, span, table
from django_jobs.store import overview


def as_json(found: Survey) -> dict[str, Any]:
    """Return a survey as the documented object."""
    by_worker: dict[int, list[overview.RunningJob]] = {}
    for job in found.running:
        by_worker.setdefault(job.worker, []).append(job)
    return {
        "database": found.database,
        "at": found.at,
        "states": found.states,
        "queues": found.queues,
        "oldest_due": found.oldest[:MOST_SHOWN],
        "paused": found.paused,
        "workers": [
            {
                "id": worker.id,
                "name": worker.name,
                "host": worker.host,
                "pid": worker.pid,
                "state": worker.state.lower(),
                "queues": worker.queues,
                "excluded_queues": worker.excluded_queues,
                "threads": worker.threads,
                "async_slots": worker.async_slots,
                "limits": worker.limits,
                "supervisor_pid": worker.supervisor_pid,
                "memory_bytes": worker.memory_bytes,
                "asked_to": worker.asked_to.lower() or None,
                "silent_seconds": worker.silent_seconds,
                "up_seconds": worker.up_seconds,
                "stale": worker in found.stale,
                "runs": by_worker.get(worker.id, []),
            }
            for worker in found.workers
        ],
        "unserved_queues": found.unserved,
        "long_runs": found.long_runs,
    }


MOST_RUNS = 5
"""Jobs shown for each worker."""


def as_text(found: Survey) -> str:
    """Return a survey for people."""
    parts = ["Jobs:  " + ", ".join(f"{number(count)} {state}" for state, count in found.states.items())]
    warnings = warnings_of(found)
    if warnings:
        parts.append("\n".join(f"! {warning}" for warning in warnings))
    if found.queues:
        headers = ("queue", "due", "later", "running", "failed", "oldest due", "workers", "slots", "")
        rows = [
            (
                queue.name,
                queue.due,
                queue.later,
                queue.running,
                queue.failed,
                span(queue.oldest_due_seconds),
                queue.workers,
                queue.slots,
                "paused" if queue.paused else "nobody serves it" if queue.is_unserved else "",
            )
            for queue in found.queues
        ]
        parts.append("Queues:\n" + table(headers, rows))
    if found.oldest:
        oldest = [
            (f"#{job.id}", job.queue_name, job.task_path, span(job.due_seconds),
             "" if job.task_is_known else "no live worker knows this task")
            for job in found.oldest[:MOST_SHOWN]
        ]  # fmt: skip
        parts.append("Due for longest:\n" + table(("job", "queue", "task", "for", ""), oldest))
    for queue in found.paused:
        why = f": {queue.reason}" if queue.reason else ""
        parts.append(f"Paused: {queue.name} since {moment(queue.at)} by {queue.by or 'somebody'}{why}")
    parts.append(workers_text(found))
    return "\n\n".join(parts)


def workers_text(found: Survey) -> str:
    """Return the live workers with what they run."""
    if not found.workers:
        return "Workers: none. Start one with: manage.py runjobs"
    lines = []
    for worker in found.workers:
        limited = (with_limit(name, worker.limits) for name in worker.queues or ())
        names = "all queues" if worker.queues is None else f"queues {', '.join(limited)}"
        without = f" but {', '.join(worker.excluded_queues)}" if worker.excluded_queues else ""
        state = "silent" if worker in found.stale else worker.state.lower()
        lines.append(
            f"  #{worker.id} {worker.name}: {state}, heartbeat {span(worker.silent_seconds)} ago, "
            f"up {span(worker.up_seconds)}, {names}{without}"
            + (f", {worker.memory_bytes // 2**20} MB" if worker.memory_bytes else "")
            + (f", asked to {worker.asked_to.lower()}" if worker.asked_to else "")
        )
        runs = [job for job in found.running if job.worker == worker.id]
        lines += [
            f"      #{job.id} {job.task_path}, attempt {job.attempt}, for {span(job.seconds)}"
            + (", asked to stop" if job.cancel_requested else "")
            for job in runs[:MOST_RUNS]
        ]
        if len(runs) > MOST_RUNS:
            lines.append(f"      and {len(runs) - MOST_RUNS} more")
    return "Workers:\n" + "\n".join(lines)


def with_limit(name: str, limits: Mapping[str, int]) -> str:
    """Return a queue as the command line names it."""
    return f"{name}:{limits[name]}" if name in limits else name


def warnings_of(found: Survey) -> list[str]:
    """Return what someone should look at."""
    warnings = [f"queue {name} has due jobs, but no live worker serves it" for name in found.unserved]
    warnings += [
        f"worker #{worker.id} {worker.name} hasn't been heard of for {span(worker.silent_seconds)}"
        for worker in found.stale
    ]
    warnings += [
        f"job #{job.id} {job.task_path} has been running for {span(job.seconds)}" for job in found.long_runs
    ]
    return warnings


def problems_of(found: Survey, max_wait: timedelta | None) -> list[dict[str, str]]:
    """Return what is unhealthy: objects with a stable `id` and a `message`."""
    problems = []
    live = [worker for worker in found.workers if worker not in found.stale and worker.state == "RUNNING"]
    if not live:
        problems.append({"id": "no_worker", "message": "no live worker: start one with manage.py runjobs"})
    problems += [
        {
            "id": "stale_heartbeat",
            "message": f"worker #{worker.id} {worker.name} hasn't been heard of for "
            f"{span(worker.silent_seconds)} (limit {span(found.dead_after_seconds)})",
        }
        for worker in found.stale
    ]
    problems += [
        {"id": "unserved_queue", "message": f"queue {name} has due jobs, but no live worker serves it"}
        for name in found.unserved
    ]
    job = found.oldest[0] if found.oldest else None
    if max_wait is not None and job is not None and job.due_seconds > max_wait.total_seconds():
        problems.append(
            {
                "id": "waits_too_long",
                "message": f"job #{job.id} {job.task_path} in queue {job.queue_name} has been due for "
                f"{span(job.due_seconds)}",
            }
        )
    return problems
