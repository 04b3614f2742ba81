"""What is left to do: asked by a worker that drains, and by tests that wait for calm."""

from __future__ import annotations

from collections.abc import Sequence

from django_jobs.store.cursor import Statement

# A job is left when it is due, or waits for another attempt; what was scheduled for later is not.
LEFT = """
    SELECT EXISTS (
        SELECT FROM django_jobs_job AS job
         WHERE job.state = 'READY' AND (job.run_after <= clock_timestamp() OR job.attempt > job.uncounted)
           AND (%(queues)s::text[] IS NULL OR job.queue_name = ANY(%(queues)s::text[]))
           AND job.queue_name <> ALL(%(excluded)s::text[])
           AND job.task_path = ANY(%(tasks)s::text[])
           AND NOT EXISTS (SELECT FROM django_jobs_queue AS paused
                            WHERE paused.name = job.queue_name AND paused.paused_at IS NOT NULL))
"""


def left(queues: Sequence[str] | None, excluded: Sequence[str], tasks: Sequence[str]) -> Statement:
    """Return the statement that tells whether a worker of these queues and tasks has anything left to do."""
    return LEFT, {"queues": queues, "excluded": list(excluded), "tasks": list(tasks)}
