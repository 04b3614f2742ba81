"""Migrations of a project that is live, however many jobs its table has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

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


def migrate():
    """Make all tables as they are now, on a connection of this thread's own."""
    try:
        call_command("migrate", "django_jobs", verbosity=0)
    finally:
        connection.close()


def waits():
    """Whether some session waits for another to end its transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone() != (0,)


def test_nobody_who_enqueues_or_claims_waits_for_them_130(first_version):
    """
    A lock that one of them needed on the table of jobs, for a rewrite, a scan or just a moment, would have to
    wait for the transaction that is open here, and all that enqueue and claim would wait behind it. Only an
    index may wait for it: its lock is one that is in the way of neither.
    """
    jobs.ok.enqueue()
    with psycopg.connect(**address()) as busy, ThreadPoolExecutor(1) as pool:
        busy.execute(f"INSERT INTO django_jobs_job ({COLUMNS}) SELECT {COLUMNS} FROM django_jobs_job")
        busy.execute("UPDATE django_jobs_job SET state = 'RUNNING', attempt = 1, worker = 1")
        migrating = pool.submit(migrate)
        try:
            waited = False
            while not waited and not migrating.done():
                waited = waits()
                with connection.cursor() as cursor:
                    cursor.execute("SET lock_timeout = '300ms'")
                new = jobs.ok.enqueue()
                Job.objects.filter(pk=new.id).update(state="RUNNING", attempt=1, worker=1)
        finally:
            busy.commit()
        migrating.result(30)
    assert not Job.objects.exclude(state="RUNNING").exists()


def test_one_that_was_broken_off_can_be_made_again(first_version):
    call_command("migrate", "django_jobs", "0005", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX django_jobs_about ON django_jobs_job (id)")

    call_command("migrate", "django_jobs", verbosity=0)

    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'django_jobs_about'")
        assert "meta ->> 'about'" in cursor.fetchone()[0]
