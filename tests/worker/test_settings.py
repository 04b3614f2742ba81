"""Settings that a worker acts on by itself, seen from the tables."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from django_jobs.core.states import State
from django_jobs.models import Job, Worker, WorkerState
from tests import jobs
from tests.eventually import eventually
from tests.rows import row, worker_row
from tests.worker.workers import job_of, running

DAY = timedelta(days=1)

pytestmark = pytest.mark.django_db(transaction=True)


class TestPruning:
    def test_goes_on_in_batches_until_nothing_has_expired(self, settings, caplog):
        caplog.set_level("DEBUG", "django_jobs")
        settings.DJANGO_JOBS = {"prune_seconds": 0.1, "prune_batch": 2}
        for _ in range(5):
            row(State.SUCCESSFUL, expires_at=Now() - DAY)
        kept = row(State.SUCCESSFUL, expires_at=Now() + DAY)

        with running():
            eventually(lambda: Job.objects.count() == 1)

        assert Job.objects.get() == kept
        deleted = [record.args for record in caplog.records if "expired jobs" in record.msg]
        assert deleted == [(2,), (2,), (1,)]

    def test_takes_rows_of_workers_that_ended_before_keep_workers(self, settings):
        settings.DJANGO_JOBS = {"prune_seconds": 0.1, "keep_workers": 2 * DAY}
        old, recent = (
            worker_row(state=WorkerState.STOPPED, stopped_at=Now() - age) for age in (3 * DAY, DAY)
        )

        with running():
            eventually(lambda: not Worker.objects.filter(pk=old.pk).exists())

        assert Worker.objects.filter(pk=recent.pk).exists()


class TestPreparedStatements:
    @pytest.mark.parametrize("prepared", [True, False])
    def test_are_made_on_a_session_that_is_set_up_or_neither(self, settings, prepared):
        settings.DJANGO_JOBS = {"prepared_statements": prepared, "poll_seconds": 0.1}

        with running(listen=prepared) as worker:
            done = [job_of(jobs.give.enqueue(number)) for number in range(5)]
            connection = worker.dispatcher.connection
            threshold = connection.prepare_threshold
            name = connection.info.parameter_status("application_name")

        assert [job.return_value for job in done] == list(range(5))
        assert (name == "django_jobs") is prepared
        assert (threshold is not None) is prepared
