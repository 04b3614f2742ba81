"""The pages about workers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from tests import jobs
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


class TestTrees:
    def test_processes_of_one_supervisor_stand_together_with_their_sums(
        self, admin_client, make_worker, make_job
    ):
        def process(supervisor, **columns):
            of = {"host": "web-1", "supervisor": supervisor, "supervisor_pid": 41}
            return make_worker(**of | {"threads": 4, "memory_bytes": 100 * 2**20} | columns)

        alone = make_worker(host="web-1")
        first, other, second = process("a"), process("b", supervisor_pid=51), process("a")
        gone = process("a", state="STOPPED")
        for worker in (first, second, second, other):
            make_job("RUNNING", worker=worker.pk)

        response = admin_client.get(WORKERS)

        found = [worker.pk for worker in response.context["cl"].result_list]
        assert found == [alone.pk, second.pk, first.pk, other.pk, gone.pk]
        trees = [(t.supervisor, len(t.rows), t.busy) for t in response.context["trees"]]
        assert trees == [("", 1, ""), ("web-1:41", 2, "3/8"), ("web-1:51", 1, "1/4"), ("", 1, "")]
        page = response.content.decode()
        assert "runjobs web-1:41: 2 processes" in page
        assert "200.0\xa0MB" in page

    def test_a_size_that_is_not_known_is_shown_as_such(self, admin_client, make_worker):
        make_worker(supervisor="a", memory_bytes=2**20)
        make_worker(supervisor="a", memory_bytes=None)

        [tree] = admin_client.get(WORKERS).context["trees"]

        assert tree.memory == "unknown"
        assert [row[4] for row in tree.rows] == ["unknown", "1.0\xa0MB"]

    def test_without_workers_the_page_is_there_all_the_same(self, admin_client, db):
        assert "0 workers" in admin_client.get(WORKERS).content.decode()


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

    @pytest.mark.parametrize(
        ("path", "queue", "says"),
        [
            (jobs.timed.module_path, "default", "30 s, over for 10 s"),
            (jobs.ok.module_path, "quick", "1 min 0 s, 20 s left"),
            (jobs.ok.module_path, "default", "none"),
            ("gone.task", "default", "this process doesn’t know the task"),
        ],
    )
    def test_it_tells_how_long_each_may_take(self, admin_client, make_worker, make_job, path, queue, says):
        worker = make_worker()
        since = timezone.now() - timedelta(seconds=40)
        make_job("RUNNING", worker=worker.pk, last_attempted_at=since, task_path=path, queue_name=queue)

        with override_settings(DJANGO_JOBS={"queue_timeouts": {"quick": timedelta(seconds=60)}}):
            page = admin_client.get(f"{WORKERS}{worker.pk}/change/")

        [job] = page.context["running_jobs"]
        assert says in job["limit"]
        assert job["limit"] in page.content.decode()

    def test_it_tells_of_its_supervisor_its_limits_and_what_it_was_asked(self, admin_client, make_worker):
        worker = make_worker(
            host="web-1",
            supervisor="a",
            supervisor_pid=41,
            limits={"mail": 2},
            asked_to="DRAIN",
            asked_all=True,
            asked_by="ada",
            asked_at=timezone.now(),
        )

        page = admin_client.get(f"{WORKERS}{worker.pk}/change/").content.decode()

        for words in ("web-1:41", "mail: 2", "to drain, with all processes of its runjobs, by ada"):
            assert words in page

    def test_it_says_so_when_nothing_runs(self, admin_client, make_worker):
        assert "It runs nothing." in admin_client.get(f"{WORKERS}{make_worker().pk}/change/").content.decode()

    def test_nothing_can_be_added_edited_or_deleted(self, admin_client, make_worker):
        worker = make_worker()

        assert admin_client.get(f"{WORKERS}add/").status_code == 403
        assert admin_client.post(f"{WORKERS}{worker.pk}/change/", {"name": "x"}).status_code == 403
        assert admin_client.post(f"{WORKERS}{worker.pk}/delete/", {"post": "yes"}).status_code == 403
