"""Bulk actions while workers die, stop, and come back."""

from __future__ import annotations

import os
import signal

from django.utils import timezone

from django_jobs.models import BulkAction, Job
from django_jobs.working_off import PATH, ask_for
from tests.eventually import eventually
from tests.scenarios.facts import rows

TWO = ("--processes", "2", "--threads", "1", "--queue", "default")

# Each time that a job of the set is sent round again is a row.
COUNT_RETRIES = """
    CREATE TABLE retried (job bigint);
    CREATE FUNCTION count_retry() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO retried VALUES (NEW.id); RETURN NULL; END';
    CREATE TRIGGER count_retries AFTER UPDATE ON django_jobs_job FOR EACH ROW
        WHEN (OLD.state = 'FAILED' AND NEW.state = 'READY') EXECUTE FUNCTION count_retry();
    SELECT 1
"""
FORGET = (
    "DROP TRIGGER count_retries ON django_jobs_job; DROP FUNCTION count_retry; DROP TABLE retried; SELECT 1"
)


def failed(count: int) -> None:
    Job.objects.bulk_create(
        Job(queue_name="nobody", task_path="a.b", state="FAILED", finished_at=timezone.now())
        for _ in range(count)
    )


def retry_all(per_second: int) -> BulkAction:
    return ask_for(
        "retry", {}, {"labels": ["failed"]}, alias="default", matching="all", per_second=per_second, total=0,
        is_estimate=False,
    )  # fmt: skip


def working() -> int:
    """Return the process that works the bulk action off, once one does."""

    def found():
        done = BulkAction.objects.get().done
        return done and rows(
            "SELECT worker.pid FROM django_jobs_job AS job JOIN django_jobs_worker AS worker"
            "  ON worker.id = job.worker WHERE job.task_path = %s AND job.state = 'RUNNING'",
            PATH,
        )

    return int(eventually(found)[0][0])


class TestKilledWorker:
    def test_another_goes_on_from_there_and_no_job_is_sent_round_twice(self, runjobs):
        runjobs(*TWO).is_ready(2)
        failed(600)
        rows(COUNT_RETRIES)
        try:
            bulk = retry_all(150)
            victim = working()
            os.kill(victim, signal.SIGKILL)

            eventually(lambda: BulkAction.objects.get().finished_at, 30)

            assert rows("SELECT count(*), count(DISTINCT job) FROM retried") == [(600, 600)]
        finally:
            rows(FORGET)
        bulk.refresh_from_db()
        assert (bulk.done, bulk.skipped) == (600, 0)
        assert Job.objects.get(task_path=PATH).attempt == 2


class TestStoppedWorker:
    def test_the_next_one_goes_on(self, runjobs):
        worker = runjobs("--queue", "default", "--shutdown-timeout", "0.2").is_ready()
        failed(200)
        bulk = retry_all(100)
        working()

        worker.tell(signal.SIGTERM)
        worker.ends()
        between = BulkAction.objects.get()
        assert 0 < between.done < 200
        assert between.finished_at is None
        runjobs("--queue", "default").is_ready()

        eventually(lambda: BulkAction.objects.get().finished_at, 20)
        bulk.refresh_from_db()
        assert (bulk.done, bulk.skipped) == (200, 0)
