"""How the tables fare, and that asking costs nothing."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.postgres.functions import TransactionNow

from django_jobs.core.states import State
from django_jobs.store import health, overview, statistics
from django_jobs.store.prune import BEGINNING
from tests.rows import row


def test_the_job_that_should_have_gone_first_is_found(cursor):
    for hours in (-1, 2, 5):
        row(State.SUCCESSFUL, expires_at=TransactionNow() - timedelta(hours=hours))
    row(State.READY, expires_at=TransactionNow() - timedelta(hours=9))

    found = health.condition(cursor, open_for_seconds=300.0)

    assert found.expired_seconds == pytest.approx(5 * 3600, abs=60)


def test_nothing_has_expired_where_nothing_has(cursor):
    row(State.SUCCESSFUL, expires_at=TransactionNow() + timedelta(hours=1))

    assert health.condition(cursor, open_for_seconds=300.0).expired_seconds == 0.0


def test_the_size_of_the_table_is_told(cursor):
    assert health.condition(cursor, open_for_seconds=300.0).table.size_bytes > 0


FILL_JOBS = """
    INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt, uncounted,
                                 enqueued_at, run_after, finished_at, expires_at, meta)
    SELECT 'q', 't', '[]', '{}', 0, 'SUCCESSFUL', 1, 0, now(), now(), now(),
           now() + (n - 50) * interval '1 second', '{}'
      FROM generate_series(1, 20000) AS n
"""
FILL_ATTEMPTS = """
    INSERT INTO django_jobs_attempt (job_id, number, kind, exception_class, message, traceback, decision)
    SELECT n, 1, 'ERROR', 'shop.E' || n % 7, '', '', 'RETRY' FROM generate_series(1, 20000) AS n
"""


def test_no_table_is_scanned_for_it(cursor):
    cursor.execute(FILL_JOBS)
    cursor.execute(FILL_ATTEMPTS)
    cursor.execute("ANALYZE django_jobs_job, django_jobs_attempt")

    for text, parameters, index in (
        (health.EXPIRED, {"beginning": BEGINNING}, "django_jobs_expiry"),
        (statistics.FAILURES, {"newest": 1000, "most": 10}, "django_jobs_attempt_pkey"),
    ):
        cursor.execute(f"EXPLAIN {text}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Seq Scan" not in plan
        assert index in plan


WALKED = re.compile(r"Rows Removed by (?:Filter|Index Recheck): (\d+)")


def test_no_walk_goes_on_into_the_future(cursor):
    """Where nothing has expired and nothing is due, one entry of the index tells so."""
    kept = FILL_JOBS.replace("- 50", "+ 50")
    later = kept.replace("now(), now(), now()", "now(), now() + n * interval '1 second', NULL")
    cursor.execute(kept)
    cursor.execute(later.replace("SUCCESSFUL", "READY"))
    cursor.execute("ANALYZE django_jobs_job")

    for text, parameters in (
        (health.EXPIRED, {"beginning": BEGINNING}),
        (overview.OLDEST, {"queues": None, "most": 10}),
    ):
        cursor.execute(f"EXPLAIN (ANALYZE) {text}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
        assert [number for number in WALKED.findall(plan) if int(number) > 10] == [], plan
