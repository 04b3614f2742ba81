"""The page about one job."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from django_jobs import task
from django_jobs.core.masking import MASK
from django_jobs.core.rich import flatten
from django_jobs.dashboard import shown, story
from django_jobs.models import Attempt
from tests import rich_tasks
from tests.admin.conftest import JOBS, detail

pytestmark = pytest.mark.django_db


@task
def charge(order, card_number, *, token=None):
    """A task whose arguments have names that are sensitive and others that aren't."""


class TestArguments:
    def test_arguments_and_result_are_shown_as_indented_json(self, admin_client, make_job):
        job = make_job(
            "SUCCESSFUL",
            task_path=charge.module_path,
            args=[{"id": 7}],
            kwargs={"urgent": True},
            return_value={"paid": 1e22},
        )

        page = admin_client.get(detail(job)).content.decode()

        assert "[\n  {\n    &quot;id&quot;: 7\n  }\n]" in page
        assert "{\n  &quot;urgent&quot;: true\n}" in page
        assert "&quot;paid&quot;: 1e+22" in page

    def test_they_are_hidden_from_who_may_only_see_jobs(self, viewer, make_job):
        job = make_job(
            "SUCCESSFUL",
            args=["for-your-eyes-only"],
            kwargs={"a": "for-your-eyes-only"},
            return_value="for-your-eyes-only",
        )

        page = viewer.get(detail(job)).content.decode()

        assert "for-your-eyes-only" not in page
        assert "Can see the arguments and results of jobs" in page

    def test_they_are_shown_to_who_has_the_permission(self, client_of, make_job):
        job = make_job(kwargs={"order": "seven"})

        assert "seven" in client_of("view_job", "view_arguments").get(detail(job)).content.decode()

    @pytest.mark.parametrize("nested", [False, True])
    def test_what_has_a_sensitive_name_is_masked_among_rich_values_too(self, admin_client, make_job, nested):
        value: object = {7: "shown", "password": "p-1", ("token", 1): "shown too", "day": date(2031, 1, 2)}
        value = flatten({"inner": (value,)} if nested else value)
        job = make_job(
            "SUCCESSFUL",
            task_path=rich_tasks.echo.module_path,
            args=[value],
            kwargs={"key": value},
            return_value=[value, value],
        )

        page = admin_client.get(detail(job)).content.decode()

        assert "p-1" not in page
        assert page.count(MASK) >= 4
        assert page.count("2031-01-02") == 4

    def test_what_has_a_sensitive_name_is_masked_by_name_and_by_position(self, admin_client, make_job):
        job = make_job(
            "SUCCESSFUL", task_path=charge.module_path, args=["order-1", "4111-1111"],
            kwargs={"token": "t-1", "x": {"API-KEY": "k-1"}},
            return_value={"password": "p-1"}, meta={"secret": "s-1"},
        )  # fmt: skip

        page = admin_client.get(detail(job)).content.decode()

        assert "order-1" in page
        assert MASK in page
        for hidden in ("4111-1111", "t-1", "k-1", "p-1", "s-1"):
            assert hidden not in page

    def test_the_names_are_a_setting(self, admin_client, make_job):
        job = make_job(task_path=charge.module_path, args=["order-1", "4111"], kwargs={"x": 1})

        with override_settings(DJANGO_JOBS={"sensitive_names": ["order"]}):
            page = admin_client.get(detail(job)).content.decode()

        assert "order-1" not in page
        assert "4111" in page

    def test_positions_of_a_task_that_is_not_known_here_are_all_hidden(self, admin_client, make_job):
        job = make_job(task_path="not.known.here", args=["4111-1111"])

        page = admin_client.get(detail(job)).content.decode()

        assert "4111-1111" not in page
        assert "this process doesn’t know the task" in page

    def test_a_huge_value_is_cut_with_a_mark(self, admin_client, make_job, monkeypatch):
        monkeypatch.setattr(shown, "LONGEST_JSON", 100)
        job = make_job(kwargs={"text": "x" * 1000})

        page = admin_client.get(detail(job)).content.decode()

        assert "x" * 200 not in page
        assert "cut off after 100 of 1,0" in page

    def test_meta_is_shown(self, viewer, make_job):
        job = make_job(meta={"enqueued_by": "ada"})

        assert "ada" in viewer.get(detail(job)).content.decode()


class TestStory:
    def test_every_attempt_has_its_result_decision_next_time_and_folded_traceback(
        self, admin_client, make_job, make_worker
    ):
        now = timezone.now()
        worker = make_worker(name="mailer")
        job = make_job("SUCCESSFUL", attempt=2, worker=worker.pk)
        Attempt.objects.create(
            job=job, number=1, worker=worker.pk, kind="TIMEOUT", decision="RETRY",
            started_at=now - timedelta(minutes=2), ended_at=now - timedelta(minutes=1), next_run_after=now,
            exception_class="shop.TooSlow", message="it took for ever",
            traceback="Traceback (most recent call last):\n  File x",
        )  # fmt: skip

        page = admin_client.get(detail(job)).content.decode()

        for words in (
            "Run 1",
            "timed out",
            "retry",
            "Next due",
            "mailer #",
            "shop.TooSlow: it took for ever",
            "Run 2",
            "successful",
            "done",
        ):
            assert words in page
        assert page.index("<details") < page.index("Traceback (most recent call last)")

    def test_the_timeline_is_in_order_of_time(self, admin_client, make_job):
        job = make_job(
            "RUNNING",
            enqueued_at=timezone.now() - timedelta(hours=1),
            cancel_requested_at=timezone.now() + timedelta(seconds=1) + timedelta(seconds=1),
        )

        events = [event.what for event in admin_client.get(detail(job)).context["timeline"]]

        assert events == ["Enqueued", "Run 1 started", "Asked to stop"]

    def test_what_is_to_come_is_marked(self, admin_client, make_job):
        events = admin_client.get(detail(make_job("SCHEDULED"))).context["timeline"]

        assert [(event.what, event.is_ahead) for event in events] == [("Enqueued", False), ("Due", True)]

    def test_of_very_many_attempts_the_latest_are_shown(self, admin_client, make_job, monkeypatch):
        monkeypatch.setattr(story, "MOST_RUNS", 3)
        job = make_job("FAILED", attempt=5)
        for number in range(1, 6):
            Attempt.objects.create(job=job, number=number, kind="ERROR", decision="RETRY")

        page = admin_client.get(detail(job))

        assert [run.number for run in page.context["runs"]] == [3, 4, 5]
        assert "2 earlier runs aren’t shown." in page.content.decode()

    def test_the_runs_are_those_of_its_history(self, make_job):
        for state in ("READY", "RUNNING", "SUCCESSFUL", "FAILED"):
            job = make_job(state, attempt=2)
            Attempt.objects.create(job=job, number=1, kind="ERROR", decision="RETRY")

            runs, earlier = story.runs_of(job)

            assert [(run.number, run.kind, run.decision) for run in runs] == [
                (run.number, run.kind, run.decision) for run in job.history()
            ]
            assert earlier == 0


class TestReadOnly:
    def test_nothing_can_be_added_edited_or_deleted_by_djangos_own_pages(self, admin_client, make_job):
        job = make_job()

        assert admin_client.get(f"{JOBS}add/").status_code == 403
        assert admin_client.post(detail(job), {"queue_name": "x"}).status_code == 403
        assert admin_client.post(f"{JOBS}{job.pk}/delete/", {"post": "yes"}).status_code == 403
        assert 'name="_save"' not in admin_client.get(detail(job)).content.decode()
        job.refresh_from_db()

    def test_a_job_that_is_gone_leads_to_the_start_page_with_a_message(self, admin_client):
        page = admin_client.get(f"{JOBS}424242/change/", follow=True)

        assert page.redirect_chain
        assert "doesn’t exist" in page.content.decode()
