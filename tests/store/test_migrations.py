"""Migrations of a project that is live, however many jobs its table has."""

from __future__ import annotations

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from django_jobs.models import Job
from tests import jobs
from tests.scenarios.marks import address

COLUMNS = (
    "queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, meta, enqueued_at, run_after"
)


@pytest.fixture
def first_version(transactional_db):
    """The tables as the first migration made them."""
    call_command("migrate", "django_jobs", "0001", verbosity=0)
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET lock_timeout")
    call_command("migrate", "django_jobs", verbosity=0)


def test_they_wait_for_nobody_who_enqueues_or_claims_and_nobody_waits_for_them_130(first_version):
    """
    A lock that one of them needed on the table of jobs, for a rewrite, a scan or just a moment, would have to
    wait for the transaction that is open here, and all that enqueue and claim would wait behind it.
    """
    jobs.ok.enqueue()
    with psycopg.connect(**address()) as busy:
        busy.execute(f"INSERT INTO django_jobs_job ({COLUMNS}) SELECT {COLUMNS} FROM django_jobs_job")
        busy.execute("UPDATE django_jobs_job SET state = 'RUNNING', attempt = 1, worker = 1")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '300ms'")

        call_command("migrate", "django_jobs", verbosity=0)

        busy.commit()
    assert Job.objects.filter(state="RUNNING").count() == 2
