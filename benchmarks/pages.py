"""
How long the admin's pages take beside millions of jobs: `python -m benchmarks.pages [--jobs 5000000]`.

Makes a database of its own (the tests' server, or DATABASE_URL), fills it, asks for each page as a superuser
through the whole of Django but no network, and prints the median and the longest of some requests.
"""

from __future__ import annotations

import argparse
import os
import statistics
from time import perf_counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

# ruff: noqa: E402  (Django's own modules want it to be set up)
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import (
    CaptureQueriesContext,
    setup_databases,
    setup_test_environment,
    teardown_databases,
)

from django_jobs.models import Job, Queue, Worker
from django_jobs.working_off import ask_for

PART = 500_000
BASE = "/admin/django_jobs"

# Of a hundred jobs: 88 done, 4 failed, 1 cancelled, 4 scheduled, 3 due; in 20 queues, of 10 tasks.
FILL = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, worker, meta,
        enqueued_at, run_after, started_at, last_attempted_at, finished_at, expires_at, reason)
    SELECT 'queue-' || n %% 20, 'shop.tasks.task_' || n %% 10, ('[' || n || ']')::json,
           ('{"order": ' || n || ', "note": "some text as arguments have it"}')::json, n %% 3, state,
           CASE WHEN state = 'READY' THEN 0 ELSE 1 END, 0, 5, 1, '{"tags": ["shop"]}',
           at, CASE WHEN n %% 100 IN (93, 94, 95, 96) THEN now() + n %% 86400 * interval '1 s' ELSE at END,
           CASE WHEN state <> 'READY' THEN at END, CASE WHEN state <> 'READY' THEN at END,
           CASE WHEN state <> 'READY' THEN at + interval '1 s' END,
           CASE WHEN state <> 'READY' THEN now() + interval '1 day' END,
           CASE WHEN state = 'FAILED' THEN 'ConnectionError: no answer' END
      FROM (SELECT n, now() - (%(all)s - n) * interval '50 ms' AS at,
                   CASE WHEN n %% 100 < 88 THEN 'SUCCESSFUL' WHEN n %% 100 < 92 THEN 'FAILED'
                        WHEN n %% 100 < 93 THEN 'CANCELLED' ELSE 'READY' END AS state
              FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS made
"""

ATTEMPTS = """
    INSERT INTO django_jobs_attempt (
        job_id, number, worker, started_at, ended_at, kind, exception_class, message, traceback, decision)
    SELECT id, 1, 1, started_at, finished_at, 'ERROR', 'shop.errors.Error' || id % 7, 'no answer',
           repeat('Traceback …', 50), 'FAILED'
      FROM django_jobs_job WHERE state = 'FAILED'
"""

FIGURES = """
    INSERT INTO django_jobs_stat (
        seconds, at, queue_name, task_path, completed, failed, retried, cancelled, enqueued, waits, runs)
    SELECT length, date_trunc('hour', now()) - n * length * interval '1 s', 'queue-' || k,
           'shop.tasks.task_' || k, 1000, 10, 20, 0, 1030, array_fill(20, ARRAY[30]),
           array_fill(20, ARRAY[40])
      FROM unnest(ARRAY[60, 3600]) AS length, generate_series(0, 180) AS n, generate_series(1, 50) AS k
"""


def fill(jobs: int) -> None:
    """Create so many jobs and what belongs to them."""
    Worker.objects.create(name="w", host="h", pid=1, threads=10, holds_lock=True)
    Queue.objects.create(name="queue-1", paused_at="2026-01-01T00:00Z", paused_by="ada")
    with connection.cursor() as cursor:
        for first in range(1, jobs + 1, PART):
            last = min(jobs, first + PART - 1)
            cursor.execute(FILL, {"first": first, "last": last, "all": jobs})
        cursor.execute(ATTEMPTS)
        cursor.execute(FIGURES)
        cursor.execute("VACUUM (ANALYZE) django_jobs_job, django_jobs_attempt, django_jobs_stat")


def pages() -> dict[str, str]:
    """Return the pages that are measured, by what they show."""
    failed = Job.objects.filter(state="FAILED").latest("pk")
    bulk = ask_for(
        "retry", {}, {"labels": ["failed"]}, alias="default", matching="state=failed", per_second=500,
        total=200_000, is_estimate=True,
    )  # fmt: skip
    due = Job.objects.filter(state="READY", queue_name="queue-17").earliest("pk")
    return {
        "overview, last hour": f"{BASE}/overview/",
        "overview, last 7 days": f"{BASE}/overview/?period=week",
        "jobs": f"{BASE}/job/",
        "jobs: failed": f"{BASE}/job/?state=failed",
        "jobs: waiting": f"{BASE}/job/?state=waiting",
        "jobs: of a task, finished in an hour": f"{BASE}/job/?task=shop.tasks.task_3&finished=1h",
        "jobs: by an exception": f"{BASE}/job/?state=failed&exception=shop.errors.Error3",
        "jobs: by a tag that none has": f"{BASE}/job/?tag=none",
        "jobs: by a named value": f"{BASE}/job/?value=order%3D{failed.pk}",
        "jobs: by any value": f"{BASE}/job/?value=none",
        "a failed job": f"{BASE}/job/{failed.pk}/change/",
        "a waiting job, and why it waits": f"{BASE}/job/{due.pk}/change/",
        "retry 4 % of all: the question": f"{BASE}/job/retry-failed/",
        "a bulk action": f"{BASE}/bulkaction/{bulk.pk}/change/",
        "queues": f"{BASE}/queue/",
        "a queue": f"{BASE}/queue/queue-17/change/?period=week",
        "tasks": f"{BASE}/knowntask/",
        "workers": f"{BASE}/worker/",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        begun = perf_counter()
        fill(chosen.jobs)
        print(
            f"{chosen.jobs:,} jobs, made in {perf_counter() - begun:.0f} s; load {os.getloadavg()[0]:.1f}\n"
        )
        client = Client()
        client.force_login(User.objects.create_superuser("ada"))
        print("| page | median, ms | longest, ms | statements |\n| --- | --- | --- | --- |")
        for name, page in pages().items():
            client.get(page)
            took = []
            for _ in range(chosen.repeat):
                with CaptureQueriesContext(connection) as captured:
                    began = perf_counter()
                    answer = client.get(page)
                    took.append(1000 * (perf_counter() - began))
                assert answer.status_code == 200, (page, answer.status_code)
                assert "took too long" not in answer.content.decode(), page
            print(
                f"| {name} | {statistics.median(took):.0f} | {max(took):.0f} | {len(captured)} |", flush=True
            )
    finally:
        teardown_databases(databases, verbosity=0)


if __name__ == "__main__":
    main()
