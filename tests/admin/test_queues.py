"""The pages about queues."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import quote
from django.utils import timezone

from django_jobs import task
from django_jobs.models import Queue
from django_jobs.store import counting
from tests.admin.conftest import JOBS, QUEUES, texts

pytestmark = pytest.mark.django_db


@task(queue_name="of-a-known-task")
def known():
    """A task whose queue has no job yet."""


def view(client, name):
    """Return one queue as the page shows it."""
    return next(view for view in client.get(QUEUES).context["views"] if view.name == name)


class TestList:
    def test_queues_come_from_jobs_workers_tasks_and_settings(self, admin_client, make_job, make_worker):
        make_job(queue_name="waits")
        make_job("RUNNING", queue_name="runs")
        make_job("FAILED", queue_name="failed")
        make_worker(queues=["served"])
        make_worker(queues=None)
        Queue.objects.create(name="set")

        names = [view.name for view in admin_client.get(QUEUES).context["views"]]

        assert {"waits", "runs", "failed", "served", "set", "of-a-known-task"} <= set(names)
        assert names == sorted(names)

    def test_it_tells_what_comes_in_and_goes_out_and_draws_the_last_hour(self, admin_client, make_job, put):
        make_job(queue_name="mail")
        put(timedelta(minutes=20), seconds=(60,), enqueued=300, completed=50, retried=5)
        put(timedelta(minutes=20), seconds=(60,), task="a.b", failed=5)
        put(timedelta(minutes=70), seconds=(60,), enqueued=1000)

        page = admin_client.get(QUEUES)

        shown = next(view for view in page.context["views"] if view.name == "mail")
        assert (shown.rate_in, shown.rate_out) == ("5.0", "1.0")
        assert shown.spark.says == "Last hour: 300 enqueued, 60 ended, 5 failed"
        assert [float(bar.parts[0].height) for bar in shown.spark.bars] == [2.0]
        assert min(float(point.split(",")[1]) for point in shown.spark.line.split()) == 0.0
        content = page.content.decode()
        assert 'role="img" aria-label="Last hour: 300 enqueued, 60 ended, 5 failed"' in content

    def test_a_queue_without_figures_has_an_empty_chart(self, admin_client, make_job):
        make_job(queue_name="mail")

        spark = view(admin_client, "mail").spark

        assert (spark.area, spark.line, list(spark.bars)) == ("", "", [])
        assert spark.says == "Last hour: 0 enqueued, 0 ended, 0 failed"

    def test_it_tells_how_much_is_due_for_later_running_and_failed(self, admin_client, make_job):
        for state in (
            "READY",
            "READY",
            "SCHEDULED",
            "RETRYING",
            "RETRYING",
            "RUNNING",
            "FAILED",
            "SUCCESSFUL",
        ):
            make_job(state, queue_name="mail")

        shown = view(admin_client, "mail")

        assert (shown.due, shown.later, shown.running, shown.failed) == ("2", "3", "1", "1")

    def test_it_tells_how_long_the_oldest_due_job_waits_over_all_priorities(self, admin_client, make_job):
        for priority, minutes in ((9, 5), (0, 61), (-9, 30)):
            make_job(
                queue_name="mail", priority=priority, run_after=timezone.now() - timedelta(minutes=minutes)
            )

        assert view(admin_client, "mail").oldest.startswith("1 h 1 min")

    def test_it_tells_the_slots_of_live_workers_and_how_many_are_busy_with_it(
        self, admin_client, make_job, make_worker
    ):
        limited = make_worker(threads=4, queues=["mail"], limits={"mail": 2})
        wide = make_worker(threads=4, async_slots=2, limits={"other": 1, "mail": 99})
        make_worker(threads=4, limits=None, queues=["other"])
        make_worker(threads=4, state="STOPPING")
        make_worker(400, threads=4)
        for worker in (limited, wide):
            make_job("RUNNING", worker=worker.pk, queue_name="mail")
        make_job("RUNNING", worker=wide.pk, queue_name="other")
        make_job("RUNNING", worker=10**9, queue_name="mail")

        assert (view(admin_client, "mail").used, view(admin_client, "other").used) == ("2/8", "1/5")
        assert not view(admin_client, "mail").limit_reached

    def test_it_tells_on_how_many_workers_the_limit_is_reached(self, admin_client, make_job, make_worker):
        limited = make_worker(threads=4, limits={"mail": 1})
        make_worker(threads=4, limits={"mail": 2})
        make_job("RUNNING", worker=limited.pk, queue_name="mail")

        for page in (QUEUES, f"{QUEUES}mail/change/"):
            assert "limit reached on 1 of 2 workers" in admin_client.get(page).content.decode()
        assert view(admin_client, "mail").used == "1/3"

    def test_more_than_is_counted_is_shown_as_an_estimate(self, admin_client, make_job, monkeypatch):
        monkeypatch.setattr(counting, "COUNTED", 3)
        monkeypatch.setattr(counting, "SAMPLED", 10**9)
        for _ in range(5):
            make_job(queue_name="mail")
            make_job("SCHEDULED", queue_name="mail")

        shown = view(admin_client, "mail")

        assert (shown.due, shown.later) == ("≈\xa05", "≈\xa05")

    def test_a_queue_with_due_jobs_that_nobody_serves_is_warned_of(self, admin_client, make_job):
        make_job(queue_name="lonely")

        page = admin_client.get(QUEUES).content.decode()

        assert "Nobody serves the queue “lonely”: 1 due" in page
        assert "Start a worker for it with: manage.py runjobs --queue=lonely" in page
        assert "Nobody serves" in admin_client.get(f"{QUEUES}lonely/change/").content.decode()

    @pytest.mark.parametrize(
        ("worker", "stuck"),
        [
            ({"queues": ["mail"]}, False),
            ({"queues": None}, False),
            ({"queues": ["web"]}, True),
            ({"queues": None, "excluded_queues": ["mail"]}, True),
            ({"queues": None, "silent": 600}, True),
            ({"queues": None, "state": "STOPPING"}, True),
            ({"queues": None, "state": "LOST"}, True),
        ],
    )
    def test_only_a_live_worker_that_takes_its_jobs_serves_a_queue(
        self, admin_client, make_job, make_worker, worker, stuck
    ):
        make_job(queue_name="mail")
        make_worker(**worker)

        assert view(admin_client, "mail").is_stuck is stuck

    def test_no_warning_for_a_queue_that_is_paused_or_has_nothing_due(self, admin_client, make_job):
        make_job("SCHEDULED", queue_name="later")
        make_job(queue_name="paused")
        Queue.objects.create(name="paused", paused_at=timezone.now())

        assert "Nobody serves" not in admin_client.get(QUEUES).content.decode()

    def test_the_overview_counts_jobs_by_state_and_leads_to_their_lists(self, admin_client, make_job):
        for state in ("READY", "SCHEDULED", "RUNNING", "FAILED", "FAILED", "CANCELLED", "SUCCESSFUL"):
            make_job(state)

        page = admin_client.get(QUEUES)

        counts = {part["title"]: part["count"] for part in page.context["summary"]}
        assert counts == {
            "due": "1",
            "for later": "1",
            "running": "1",
            "failed": "2",
            "cancelled": "1",
            "successful": "1",
        }
        assert f"{JOBS}?state=failed" in page.content.decode()

    def test_it_says_so_when_there_are_no_queues(self, admin_client, monkeypatch):
        monkeypatch.setattr("django_jobs.dashboard.queues.registry", {})

        assert "There are no queues yet" in admin_client.get(QUEUES).content.decode()


class TestFigures:
    def page(self, client, **query):
        return client.get(f"{QUEUES}mail/change/", query)

    def test_a_queue_s_page_tells_its_throughput_and_no_other_s(self, admin_client, make_job, put):
        make_job(queue_name="mail")
        put(queue="mail", task="a", completed=54, failed=6, lengths=[(0.01, 1.0)] * 4)
        put(queue="web", task="b", completed=1000)

        page = self.page(admin_client)

        hour = page.context["periods"][0]
        assert (hour["rate"], hour["completed"], hour["failed"]) == ("1.0", "54", "6")
        assert page.context["chart"].says == "54 completed, 0 to be retried, 6 failed, 0 enqueued"
        [row] = page.context["tasks"]
        assert (row["ended"], row["run50"]) == ("60", "874 ms")
        assert f"{JOBS}?queue=mail&amp;task=a" in page.content.decode()

    def test_the_period_can_be_chosen(self, admin_client, make_job, put):
        make_job(queue_name="mail")
        put(timedelta(hours=5), (3600,), queue="mail", completed=7)

        assert self.page(admin_client).context["tasks"] == []
        page = self.page(admin_client, period="day")
        assert [row["ended"] for row in page.context["tasks"]] == ["7"]
        assert "Tasks, last 24 hours" in page.content.decode()

    def test_a_queue_can_be_paused_though_its_jobs_take_too_long_to_count(self, admin_client, monkeypatch):
        Queue.objects.create(name="mail")
        monkeypatch.setattr("django_jobs.dashboard.queues.hurried", lambda alias, read: None)

        page = admin_client.get(QUEUES).content.decode()
        admin_client.post(f"{QUEUES}pause/mail/", {"reason": "the database is busy"})

        assert "a part of this page took too long" in page
        assert ">mail</a>" in page
        assert "≈" not in page, "nothing was estimated"
        assert Queue.objects.get(name="mail").is_paused

    def test_figures_that_take_too_long_are_left_out(self, admin_client, make_job, monkeypatch):
        make_job(queue_name="mail")
        monkeypatch.setattr("django_jobs.dashboard.queues.hurried", lambda alias, read: None)

        page = self.page(admin_client).content.decode()

        assert "a part of this page took too long" in page
        assert "Pause" in page


class TestPause:
    def test_pausing_asks_and_then_keeps_who_when_and_why(self, admin_client, admin_user, make_job):
        make_job(queue_name="mail")

        asked = admin_client.get(f"{QUEUES}pause/mail/").content.decode()
        done = admin_client.post(f"{QUEUES}pause/mail/", {"reason": "the relay is down"}, follow=True)

        assert "No worker will start a job of the queue “mail” until it is resumed" in asked
        queue = Queue.objects.get()
        assert queue.is_paused
        assert (queue.paused_by, queue.pause_reason) == (admin_user.get_username(), "the relay is down")
        assert texts(done) == ["Paused the queue “mail”."]
        page = done.content.decode()
        for words in ("paused", admin_user.get_username(), "the relay is down", f"{QUEUES}resume/mail/"):
            assert words in page

    def test_resuming_lets_it_run_again(self, admin_client, make_job):
        Queue.objects.create(name="mail", paused_at=timezone.now(), paused_by="ada", pause_reason="x")

        asked = admin_client.get(f"{QUEUES}resume/mail/").content.decode()
        done = admin_client.post(f"{QUEUES}resume/mail/", follow=True)

        assert "Workers will start jobs of the queue “mail” again" in asked
        assert not Queue.objects.get().is_paused
        assert texts(done) == ["Resumed the queue “mail”."]

    def test_both_are_recorded_with_the_user_and_shown_as_the_queues_history(
        self, admin_client, admin_user, make_job
    ):
        make_job(queue_name="mail")

        admin_client.post(f"{QUEUES}pause/mail/", {"reason": "down"})
        admin_client.post(f"{QUEUES}resume/mail/")

        entries = LogEntry.objects.order_by("pk")
        assert [(e.user, e.object_id, e.action_flag, e.get_change_message()) for e in entries] == [
            (admin_user, "mail", CHANGE, "Paused: down"),
            (admin_user, "mail", CHANGE, "Resumed."),
        ]
        history = admin_client.get(f"{QUEUES}mail/history/").content.decode()
        assert "Paused: down" in history
        assert "Resumed." in history

    def test_what_is_so_already_is_skipped_and_told(self, admin_client, make_job):
        make_job(queue_name="mail")

        assert "It isn’t paused." in admin_client.get(f"{QUEUES}resume/mail/").content.decode()
        assert texts(admin_client.post(f"{QUEUES}resume/mail/", follow=True)) == [
            "Skipped: the queue “mail” wasn’t paused."
        ]
        admin_client.post(f"{QUEUES}pause/mail/", {"reason": "first"}, follow=True)
        assert texts(admin_client.post(f"{QUEUES}pause/mail/", {"reason": "second"}, follow=True)) == [
            "Skipped: the queue “mail” was paused already."
        ]
        assert Queue.objects.get().pause_reason == "first"
        assert LogEntry.objects.count() == 1

    @pytest.mark.parametrize("name", ["a/b", "a b", "ünï", "_2F", "%2F", "?x=1&y", "#", "pause/x"])
    def test_any_name_works(self, admin_client, make_job, name):
        make_job(queue_name=name)
        shown = view(admin_client, name)

        assert admin_client.get(shown.url).status_code == 200
        admin_client.post(shown.buttons[0]["path"])

        assert Queue.objects.get().name == name
        assert f"{QUEUES}pause/{quote(name)}/" in shown.buttons[0]["path"] or "%" in shown.buttons[0]["path"]

    def test_a_queue_that_nobody_knows_leads_to_the_start_page(self, admin_client):
        assert admin_client.post(f"{QUEUES}pause/unheard-of/").status_code == 302
        assert admin_client.get(f"{QUEUES}unheard-of/change/").status_code == 302
        assert not Queue.objects.exists()

    def test_nothing_can_be_added_edited_or_deleted_by_djangos_own_pages(self, admin_client, make_job):
        make_job(queue_name="mail")

        assert admin_client.get(f"{QUEUES}add/").status_code == 403
        assert admin_client.post(f"{QUEUES}mail/change/", {"name": "x"}).status_code == 403
        assert admin_client.post(f"{QUEUES}mail/delete/", {"post": "yes"}).status_code == 403
