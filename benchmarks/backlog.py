"""Backlogs: rows of finished, scheduled and waiting jobs, as many as asked for, by plain INSERTs."""

from __future__ import annotations

from benchmarks.ground import Ground, checkpoint

PART = 500_000
"""Rows of one INSERT."""

FINISHED = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, meta, worker,
        enqueued_at, run_after, started_at, last_attempted_at, finished_at, expires_at)
    SELECT 'default', 'benchmarks.tasks.nothing', ('[' || n || ']')::json, '{}', 0, 'SUCCESSFUL', 1, 0, 5,
           '{}', 1, at, at, at, at, at, now() + interval '1 day' + n * interval '1 ms'
      FROM (SELECT n, now() - interval '1 day' + n * interval '1 ms' AS at
              FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS past
"""

WAITING = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, meta,
        enqueued_at, run_after)
    SELECT CASE WHEN %(queues)s::int > 1 THEN 'q' || n %% %(queues)s::int ELSE %(queue)s::text END,
           %(task)s::text, ('[' || n || ']')::json, '{}',
           CASE WHEN %(mixed)s::bool THEN (n * 7919) %% 201 - 100 ELSE %(priority)s::int END,
           'READY', 0, 0, 5, '{}', now(), now() + %(ahead)s::interval
                                              + CASE WHEN %(ahead)s::interval > interval '0'
                                                     THEN (n %% 86400) * interval '1 second'
                                                     ELSE n * interval '1 microsecond' - interval '10 s' END
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
"""


def insert_finished(ground: Ground, count: int) -> None:
    """Insert jobs that are done and that no pruning deletes today."""
    for first in range(1, count + 1, PART):
        ground.execute(FINISHED, {"first": first, "last": min(count, first + PART - 1)})


def insert_waiting(
    ground: Ground,
    count: int,
    *,
    task: str = "benchmarks.tasks.nothing",
    queue: str = "default",
    queues: int = 1,
    priority: int = 0,
    mixed: bool = False,
    ahead: str = "0",
) -> None:
    """
    Insert jobs that are due, or `ahead` (an interval) and later.

    With `queues`, they are spread over q0, q1 …; `mixed` gives them every priority there is.
    """
    given = {
        "task": task,
        "queue": queue,
        "queues": queues,
        "priority": priority,
        "mixed": mixed,
        "ahead": ahead,
    }
    for first in range(1, count + 1, PART):
        ground.execute(WAITING, given | {"first": first, "last": min(count, first + PART - 1)})


def settle(ground: Ground) -> None:
    """Have what was inserted vacuumed, counted and written, as after a night."""
    ground.execute("VACUUM (ANALYZE, INDEX_CLEANUP ON) django_jobs_job")
    checkpoint(ground.connection)
