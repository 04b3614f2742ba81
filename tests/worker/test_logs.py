"""What is never in a log line: the arguments of jobs, unless the project asks for them."""

from __future__ import annotations

import logging

import pytest
from django.db import connection

from django_jobs.core.states import State
from tests import jobs
from tests.eventually import eventually
from tests.rows import row
from tests.worker.workers import QUICK, Workers, job_of, settled

SECRET = "4111-1111-1111-1111"


@pytest.fixture
def workers(transactional_db, settings, caplog):
    settings.DJANGO_JOBS = QUICK
    caplog.set_level(logging.DEBUG)
    with Workers() as found:
        yield found


def lines(caplog) -> str:
    """Return all that was logged, with tracebacks and extra fields, as a talkative handler shows it."""
    formatter = logging.Formatter("%(message)s")
    return "\n".join(f"{formatter.format(record)} {vars(record)}" for record in caplog.records)


class TestArguments:
    def test_are_in_no_line_however_a_run_ends_190(self, workers, caplog):
        workers.start()
        results = [
            jobs.ok.enqueue(SECRET, note=SECRET),
            jobs.give.enqueue(SECRET),
            jobs.agive.enqueue(SECRET),
            jobs.raising.enqueue("Cancel"),
            jobs.fail_once.enqueue(),
        ]
        odd = [
            row(args={"card": SECRET}),
            row(kwargs=[SECRET]),
            row(task_path=jobs.fail.module_path, args=[1, 2, SECRET], max_attempts=1),
        ]
        for result in results:
            job_of(result)
        eventually(lambda: settled(pk__in=[job.pk for job in odd]))
        eventually(lambda: "failed in attempt" in caplog.text)

        assert SECRET not in lines(caplog)

    def test_are_in_no_line_when_the_database_refuses_an_outcome_190(self, workers, caplog, monkeypatch):
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE django_jobs_job ADD CONSTRAINT picky"
                " CHECK (state <> 'SUCCESSFUL' OR priority = 0)"
            )
        try:
            workers.start()
            job = job_of(jobs.give.using(priority=1).enqueue(SECRET))
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE django_jobs_job DROP CONSTRAINT picky")

        assert job.state == State.FAILED
        eventually(lambda: "outcomes could not be written" in caplog.text)
        told = job.history()[-1]
        assert "violates check constraint" in told.message
        assert SECRET not in told.message + told.traceback
        eventually(lambda: "waits for a person" in caplog.text)
        assert SECRET not in lines(caplog)
