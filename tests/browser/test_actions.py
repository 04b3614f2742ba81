"""Everything that can be done, done by clicking, and what the database says afterwards."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from django_jobs.models import Job, Queue
from tests.admin.conftest import JOBS, QUEUES, TASKS, detail
from tests.browser import tasks
from tests.browser.driving import expect, in_browser

pytestmark = in_browser


@pytest.fixture
def page(visit, ada):
    return visit(ada)


def press(page, name):
    """Follow a button of a page of ours; it looks like one, and is a link."""
    page.locator("#content").get_by_role("link", name=name, exact=True).click()


def answer(page, name):
    """Send the form of the page that asks."""
    page.locator("#content").get_by_role("button", name=name, exact=True).click()


def choose(page, menu):
    """Choose from the list's menu. Its button is called "Go" before Django 6.1, and "Run" since."""
    page.get_by_label("Action:").select_option(menu)
    page.locator("button[name=index]").click()


def says(page, words):
    """Wait for the message that tells what was done."""
    expect(page.locator(".messagelist")).to_contain_text(words)


class TestOneJob:
    def test_retry(self, page, make_job):
        job = make_job("FAILED", attempt=5, max_attempts=5)
        page.goto(detail(job))

        press(page, "Retry")
        page.get_by_label("Just one more").check()
        answer(page, "Retry")

        says(page, "Retried 1 job.")
        job.refresh_from_db()
        assert (job.state, job.max_attempts) == ("READY", 6)
        expect(page.locator(".fieldBox.field-shown_state")).to_contain_text("ready")
        press(page, "History")
        expect(page.locator("#change-history")).to_contain_text("Retried with one more attempt.")

    def test_cancel_with_a_reason_or_think_better_of_it(self, page, make_job):
        job = make_job()
        page.goto(detail(job))

        press(page, "Cancel job")
        answer(page, "No, take me back")
        assert Job.objects.get().state == "READY"
        press(page, "Cancel job")
        page.get_by_label("Reason").fill("no longer wanted")
        answer(page, "Cancel job")

        says(page, "Cancelled 1 job.")
        job.refresh_from_db()
        assert (job.state, job.reason) == ("CANCELLED", "no longer wanted")

    def test_one_that_runs_is_asked_to_stop(self, page, make_job):
        job = make_job("RUNNING")
        page.goto(detail(job))

        press(page, "Cancel job")
        answer(page, "Cancel job")

        says(page, "Asked 1 running job to stop.")
        job.refresh_from_db()
        assert job.state == "RUNNING"
        assert job.cancel_requested_at is not None

    def test_run_now_from_its_row(self, page, make_job):
        job = make_job("SCHEDULED")
        page.goto(JOBS)

        page.get_by_role("list", name=f"What can be done to {job}").get_by_role(
            "link", name="Run now"
        ).click()
        answer(page, "Run now")

        says(page, "1 job is due now.")
        assert Job.objects.get().run_after <= timezone.now()

    def test_edit(self, page, make_job):
        make_job()
        page.goto(JOBS)
        page.locator("#result_list th a").click()

        press(page, "Edit")
        page.get_by_label("Queue").fill("mail")
        page.get_by_label("Priority").fill("9")
        page.get_by_label("Due").fill("2031-05-06T07:08")
        answer(page, "Save")

        says(page, "Changed ")
        job = Job.objects.get()
        assert (job.queue_name, job.priority, f"{job.run_after:%F %R}") == ("mail", 9, "2031-05-06 07:08")

    def test_enqueue_a_copy(self, page, make_job):
        job = make_job("SUCCESSFUL", kwargs={"a": 1})
        page.goto(detail(job))

        press(page, "Enqueue a copy")
        answer(page, "Enqueue")

        says(page, "Enqueued ")
        copy = Job.objects.exclude(pk=job.pk).get()
        assert (copy.state, copy.kwargs, copy.meta["copy_of"]) == ("READY", {"a": 1}, job.pk)

    def test_delete(self, page, make_job):
        job = make_job("FAILED")
        page.goto(detail(job))

        press(page, "Delete")
        answer(page, "Delete")

        says(page, "Deleted 1 job.")
        assert not Job.objects.exists()
        assert LogEntry.objects.get().object_id == str(job.pk)


class TestManyJobs:
    def test_all_failed_ones_that_the_filters_leave_are_retried(self, page, make_job):
        for queue in ("mail", "mail", "web"):
            make_job("FAILED", queue_name=queue)
        page.goto(f"{JOBS}?queue=mail")

        press(page, "Retry all failed")
        answer(page, "Retry")

        says(page, "Retried 2 jobs.")
        assert Job.objects.get(state="FAILED").queue_name == "web"

    def test_ticked_ones(self, page, make_job):
        for state, menu, button, after in [
            ("FAILED", "Retry selected jobs", "Retry", {"READY": 2, "FAILED": 1}),
            ("READY", "Cancel selected jobs", "Cancel job", {"CANCELLED": 2, "READY": 1}),
            ("SCHEDULED", "Run selected jobs now", "Run now", {"READY": 3}),
            ("CANCELLED", "Delete selected jobs", "Delete", {"CANCELLED": 1}),
        ]:
            Job.objects.all().delete()
            made = [make_job(state) for _ in range(3)]
            page.goto(JOBS)

            for job in made[:2]:
                page.locator(f"input.action-select[value='{job.pk}']").check()
            choose(page, menu)
            answer(page, button)

            says(page, "2 jobs")
            states = list(Job.objects.values_list("state", flat=True))
            assert {state: states.count(state) for state in states} == after
            due = set(Job.objects.filter(run_after__lte=timezone.now()).values_list("pk", flat=True))
            assert state != "SCHEDULED" or due == {job.pk for job in made[:2]}

    def test_all_that_match_beyond_the_page(self, page, make_job):
        kept = make_job("FAILED", queue_name="web")
        for _ in range(52):
            make_job("FAILED", queue_name="mail")
        page.goto(f"{JOBS}?queue=mail")

        page.get_by_label("Select all objects on this page for an action").check()
        page.locator("#content").get_by_text("Select all 52 jobs").click()
        choose(page, "Delete selected jobs")
        expect(page.locator("#content")).to_contain_text("Jobs that match: queue=mail.")
        answer(page, "Delete")

        says(page, "Deleted 52 jobs.")
        assert Job.objects.get() == kept


class TestQueues:
    def test_pause_with_a_reason_and_resume(self, page, make_job):
        make_job(queue_name="mail")
        page.goto(QUEUES)

        page.get_by_role("list", name="What can be done to mail").get_by_role("link", name="Pause").click()
        page.get_by_label("Reason").fill("the server is down")
        answer(page, "Pause")

        says(page, "Paused the queue “mail”.")
        expect(page.locator("#result_list")).to_contain_text("the server is down")
        queue = Queue.objects.get()
        assert (queue.is_paused, queue.paused_by, queue.pause_reason) == (True, "ada", "the server is down")
        page.locator("#result_list").get_by_role("link", name="mail").click()
        press(page, "Resume")
        answer(page, "Resume")
        says(page, "Resumed the queue “mail”.")
        queue.refresh_from_db()
        assert not queue.is_paused


class TestRunATask:
    def test_a_field_of_each_kind_and_an_error_beside_its_field(self, page):
        page.goto(TASKS)
        page.get_by_role("link", name=f"Run {tasks.each_kind.module_path}").click()

        page.get_by_label("number").fill("7")
        page.get_by_label("share").fill("0.5")
        page.get_by_label("price").fill("12.50")
        page.get_by_label("day").fill("2026-02-03")
        page.get_by_label("text").fill("some <b>words</b>")
        page.get_by_label("flag").check()
        page.get_by_label("size").select_option("m")
        page.get_by_label("lines").fill("[1, ")
        page.get_by_label("**more").fill('{"colour": "red"}')
        answer(page, "Enqueue")

        wrong = page.locator(".dj-field", has=page.locator(".errorlist"))
        expect(wrong).to_have_count(1)
        expect(wrong.get_by_label("lines")).to_have_value("[1, ")
        assert not Job.objects.exists()
        page.get_by_label("lines").fill("[1, 2]")
        answer(page, "Enqueue")

        says(page, "Enqueued ")
        job = Job.objects.get()
        assert job.meta["enqueued_by"] == "ada"
        assert (job.task_path, job.queue_name) == (tasks.each_kind.module_path, "mail")
        assert job.kwargs == {
            "number": 7, "share": 0.5, "text": "some <b>words</b>",
            "flag": True, "size": "m", "note": None, "lines": [1, 2], "colour": "red",
            "price": {"$type": "decimal", "value": "12.50"}, "day": {"$type": "date", "value": "2026-02-03"},
        }  # fmt: skip
