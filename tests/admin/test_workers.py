"""The pages about workers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from tests.admin.conftest import WORKERS

pytestmark = pytest.mark.django_db


class TestList:
    def test_live_workers_come_first_then_the_latest(self, admin_client, make_worker):
        stopped = make_worker(0, state="STOPPED")
        older = make_worker(20)
        lost = make_worker(50, state="LOST")
        newer = make_worker(3)

        found = [worker.pk for worker in admin_client.get(WORKERS).context["cl"].result_list]

        assert found == [newer.pk, older.pk, stopped.pk, lost.pk]

    def test_a_row_tells_heartbeat_slots_queues_and_process(self, admin_client, make_worker, make_job):
        worker = make_worker(
            3900,
            name="mailer",
            host="web-1",
            pid=42,
            threads=8,
            async_slots=4,
            queues=["mail"],
            excluded_queues=["x"],
        )
        make_job("RUNNING", worker=worker.pk)
        make_job("SUCCESSFUL", worker=worker.pk)

        page = admin_client.get(WORKERS).content.decode()

        for words in (f"mailer #{worker.pk}", "1 h 5 min ago", "1/12", "mail but x", "web-1:42"):
            assert words in page

    def test_a_worker_that_went_silent_is_marked(self, admin_client, make_worker):
        make_worker(31)

        assert "silent: probably dead" in admin_client.get(WORKERS).content.decode()

    def test_how_long_is_silent_is_a_setting(self, admin_client, make_worker):
        make_worker(31)

        with override_settings(DJANGO_JOBS={"dead_after_seconds": 60.0}):
            assert "silent" not in admin_client.get(WORKERS).content.decode()

    def test_one_that_ended_is_not_called_silent(self, admin_client, make_worker):
        make_worker(4000, state="STOPPED", ending="asked to stop")

        page = admin_client.get(WORKERS).content.decode()

        assert "silent" not in page
        assert "asked to stop" in page


class TestDetail:
    def test_it_lists_running_jobs_with_the_time_they_took_so_far(self, admin_client, make_worker, make_job):
        worker = make_worker()
        since = timezone.now() - timedelta(minutes=63)
        job = make_job("RUNNING", worker=worker.pk, last_attempted_at=since, attempt=2)
        other = make_job("RUNNING", worker=worker.pk + 1)

        page = admin_client.get(f"{WORKERS}{worker.pk}/change/").content.decode()

        assert str(job) in page
        assert "1 h 3 min" in page
        assert "2/5" in page
        assert str(other) not in page

    def test_it_says_so_when_nothing_runs(self, admin_client, make_worker):
        assert "It runs nothing." in admin_client.get(f"{WORKERS}{make_worker().pk}/change/").content.decode()

    def test_nothing_can_be_added_edited_or_deleted(self, admin_client, make_worker):
        worker = make_worker()

        assert admin_client.get(f"{WORKERS}add/").status_code == 403
        assert admin_client.post(f"{WORKERS}{worker.pk}/change/", {"name": "x"}).status_code == 403
        assert admin_client.post(f"{WORKERS}{worker.pk}/delete/", {"post": "yes"}).status_code == 403
