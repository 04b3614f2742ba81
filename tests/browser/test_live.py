"""Pages that renew themselves while real workers run, and what that leaves alone."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from django_jobs import working_off
from django_jobs.models import Attempt, BulkAction, Job, Worker
from django_jobs.operations import Operations
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES, WORKERS, detail
from tests.browser import tasks
from tests.browser.conftest import BULKS
from tests.browser.driving import expect, in_browser
from tests.eventually import eventually

pytestmark = in_browser

HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Tells the page what a browser would that another tab was chosen in."""


def count(page, state):
    """Return where a page says how many jobs are in a state."""
    return page.locator(f".dj-summary .dj-{state} .dj-count")


def looks(page):
    """Return the list to which each look for news is added."""
    found = []
    page.on("request", lambda request: found.append(request) if PART in request.headers else None)
    return found


PART = "x-django-jobs-part"
RATE = "Refresh"


class TestWhileAWorkerRuns:
    def test_each_open_page_follows_a_job_through_its_life(self, visit, ada, runjobs):
        first = tasks.held.enqueue("first")
        overview = visit(ada)
        overview.goto(OVERVIEW)
        overview.get_by_label(RATE).select_option("2")
        pages = {"overview": overview}
        for name, address in {
            "queues": QUEUES, "queue": f"{QUEUES}mail/change/", "workers": WORKERS,
            "job": detail(Job.objects.get()),
        }.items():  # fmt: skip
            pages[name] = overview.context.new_page()
            pages[name].goto(address)
            expect(pages[name].get_by_label(RATE)).to_have_value("2")  # as chosen on another page
        for page in pages.values():
            page.evaluate("document.body.dataset.seen = 'yes'")
        expect(count(overview, "ready")).to_have_text("1")
        expect(overview.locator(".dj-warning").first).to_contain_text("worker")
        expect(pages["job"].locator("#dj-why")).to_be_visible()

        runjobs("--threads=2", "--processes=1")

        expect(count(overview, "running")).to_have_text("1", timeout=20_000)
        expect(count(overview, "ready")).to_have_text("0")
        expect(count(pages["queues"], "running")).to_have_text("1")
        expect(pages["queue"].locator(".fieldBox.field-running .readonly")).to_have_text("1")
        worker = Worker.objects.get()
        expect(pages["workers"].locator("#result_list")).to_contain_text(f"#{worker.pk}")
        expect(pages["job"].locator(".fieldBox.field-shown_state")).to_contain_text("running")
        expect(pages["job"].locator("#dj-why")).to_have_count(0)
        one = overview.context.new_page()
        one.goto(f"{WORKERS}{worker.pk}/change/")
        expect(one.locator("#content")).to_contain_text(f"#{first.id}")

        second = tasks.held.enqueue("second", fails=True)
        expect(count(overview, "running")).to_have_text("2")
        expect(one.locator("#content")).to_contain_text(f"#{second.id}")
        for key in ("first", "second"):
            runjobs.open(key)

        expect(count(overview, "failed")).to_have_text("1")
        expect(count(overview, "running")).to_have_text("0")
        expect(overview.locator("section", has=overview.locator("#dj-failures"))).to_contain_text(
            "ValueError"
        )
        expect(count(pages["queues"], "failed")).to_have_text("1")
        expect(pages["job"].locator(".fieldBox.field-shown_state")).to_contain_text("successful")
        pages["job"].locator(".dj-captured summary").click()
        expect(pages["job"].locator(".dj-log")).to_contain_text("waiting for first")
        expect(one.locator("#content")).to_contain_text("It runs nothing.")
        for page in pages.values():
            assert page.evaluate("document.body.dataset.seen") == "yes"  # none was loaded anew

    def test_processes_are_seen_under_their_supervisor_and_end_when_they_are_asked(self, visit, ada, runjobs):
        page = visit(ada)
        page.goto(WORKERS)
        page.get_by_label(RATE).select_option("2")
        process = runjobs("--threads=1", "--processes=2")

        expect(page.locator(".dj-tree [scope=rowgroup]")).to_contain_text("2 processes", timeout=20_000)
        expect(page.locator(".dj-tree .dj-process")).to_have_count(2)
        page.locator(".dj-tree tr").first.get_by_role("link", name="Stop").click()
        expect(page.get_by_label("All that its supervisor started")).to_be_checked()
        page.locator("#content").get_by_role("button", name="Stop").click()

        expect(page.locator(".messagelist")).to_contain_text("Asked 2 processes to stop.")
        assert process.ends() == 0
        expect(page.locator(".dj-tree")).to_have_count(0)
        expect(page.locator("#result_list")).to_contain_text("stopped")

    def test_a_worker_that_is_drained_ends_once_its_job_has(self, visit, ada, runjobs):
        running = tasks.held.enqueue("last")
        process = runjobs("--threads=1", "--processes=1")
        eventually(lambda: Job.objects.get(pk=running.id).state == "RUNNING", timeout=20)
        page = visit(ada)
        page.goto(WORKERS)
        page.get_by_label(RATE).select_option("2")
        page.locator("#result_list th a").click()

        page.locator("#content").get_by_role("link", name="Drain").click()
        expect(page.locator("#content")).to_contain_text("It runs 1 job now.")
        page.locator("#content").get_by_role("button", name="Drain").click()

        expect(page.locator(".messagelist")).to_contain_text("to drain")
        expect(page.locator("#result_list")).to_contain_text("asked to drain")
        waiting = tasks.held.enqueue("next")
        eventually(lambda: Worker.objects.get().state == "STOPPING")
        expect(page.locator("#result_list")).to_contain_text("1/1")
        assert process.status is None
        runjobs.open("last")
        assert process.ends() == 0
        expect(page.locator("#result_list")).to_contain_text("stopped")
        assert Job.objects.get(pk=running.id).state == "SUCCESSFUL"
        assert Job.objects.get(pk=waiting.id).state == "READY"

    def test_a_bulk_action_whose_job_was_cancelled_goes_on(self, visit, ada, make_job, runjobs):
        failed = [make_job("FAILED", queue_name="nobody's").pk for _ in range(3)]
        bulk = working_off.ask_for(
            "delete", {}, {}, alias="default", matching="all", per_second=100, total=3, is_estimate=False
        )
        assert bulk.job is not None
        Operations().cancel([bulk.job])
        page = visit(ada)
        page.goto(f"{BULKS}{bulk.pk}/change/")
        page.get_by_label(RATE).select_option("2")
        expect(page.locator("#content")).to_contain_text("Its job has ended before its time")

        page.locator("#content").get_by_role("link", name="Go on").click()
        page.locator("#content").get_by_role("button", name="Go on").click()

        expect(page.locator(".messagelist")).to_contain_text("A job was enqueued that goes on with it.")
        runjobs("--threads=1", "--processes=1")
        expect(page.locator("#dj-progress-words")).to_contain_text("3 done", timeout=20_000)
        expect(page.locator(".fieldBox.field-shown_state")).to_contain_text("done")
        assert not Job.objects.filter(pk__in=failed).exists()

    def test_a_bulk_action_shows_how_far_it_is_and_can_be_stopped(
        self, visit, ada, make_job, runjobs, monkeypatch
    ):
        monkeypatch.setattr("django_jobs.dashboard.bulk_asking.LOGGED", 5)
        for _ in range(90):
            make_job("FAILED", queue_name="nobody's")
        page = visit(ada)
        page.goto(f"{JOBS}?state=failed")
        page.get_by_role("link", name="Retry all failed").click()
        page.get_by_label("By a job of its own").check()
        page.get_by_label("Jobs per second, at most").fill("20")
        page.locator("#content").get_by_role("button", name="Retry").click()
        expect(page.locator("progress")).to_have_js_property("value", 0)
        page.get_by_label(RATE).select_option("2")

        runjobs("--threads=1", "--processes=1")

        expect(page.locator("#dj-progress-words")).to_contain_text(re.compile("^[1-9]"), timeout=20_000)
        page.locator("#content").get_by_role("link", name="Stop").click()
        page.locator("#content").get_by_role("button", name="Stop").click()
        expect(page.locator(".messagelist")).to_contain_text("Stopped it.")
        expect(page.locator(".fieldBox.field-shown_state")).to_contain_text("stopped")
        assert BulkAction.objects.get().stopped_by == "ada"
        assert 0 < Job.objects.filter(state="READY", queue_name="nobody's").count() < 90


class TestRate:
    def test_it_rests_while_the_tab_is_hidden_and_when_it_is_off(self, visit, ada, make_job):
        page = visit(ada)
        page.clock.install()
        page.goto(OVERVIEW)
        found = looks(page)
        expect(count(page, "failed")).to_have_text("0")
        make_job("FAILED")

        page.evaluate(HIDE, True)
        page.clock.run_for(120_000)
        assert found == []
        page.evaluate(HIDE, False)
        page.clock.run_for(5_000)
        expect(count(page, "failed")).to_have_text("1")
        page.get_by_label(RATE).select_option("0")
        seen = len(found)
        page.clock.run_for(120_000)
        assert len(found) == seen
        page.reload()
        expect(page.get_by_label(RATE)).to_have_value("0")

    def test_who_prefers_less_motion_has_to_ask_for_it(self, visit, ada, make_job):
        page = visit(ada, reduced_motion="reduce")
        page.clock.install()
        page.goto(OVERVIEW)
        found = looks(page)
        expect(page.get_by_label(RATE)).to_have_value("0")
        make_job("FAILED")

        page.clock.run_for(120_000)
        assert found == []
        page.get_by_label(RATE).select_option("15")
        page.clock.run_for(15_000)

        expect(count(page, "failed")).to_have_text("1")

    def test_without_javascript_one_reloads(self, visit, ada, make_job):
        page = visit(ada, java_script_enabled=False)
        page.goto(OVERVIEW)
        expect(count(page, "failed")).to_have_text("0")
        expect(page.get_by_label(RATE)).to_be_hidden()
        job = make_job("FAILED")

        page.reload()
        expect(count(page, "failed")).to_have_text("1")
        count(page, "failed").click()
        page.locator("#result_list th a").click()
        page.locator("#content").get_by_role("link", name="Retry", exact=True).click()
        page.get_by_role("button", name="Retry").click()

        expect(page.locator(".messagelist")).to_contain_text("Retried 1 job.")
        assert Job.objects.get(pk=job.pk).state == "READY"


class TestWhatItLeavesAlone:
    @pytest.fixture
    def page(self, visit, ada):
        page = visit(ada)
        page.clock.install()
        return page

    @pytest.fixture
    def failed_run(self, make_job):
        """A job that failed once and will be tried again."""
        job = make_job("RETRYING")
        Attempt.objects.create(
            job=job, number=1, worker=1, kind="ERROR", decision="RETRY", exception_class="shop.Down",
            message="no", traceback="Traceback …\n" + "no " * 90,
            started_at=timezone.now(), ended_at=timezone.now(),
        )  # fmt: skip
        return job

    def renew(self, page):
        """Have the page look for news, and wait until it is there."""
        page.evaluate(
            "document.querySelector('[data-dj-live]').nextElementSibling.firstElementChild.id = 'old'"
        )
        page.clock.run_for(5_000)
        expect(page.locator("#old")).to_have_count(0)

    def test_the_keyboard_stays_where_it_is(self, page, make_job, failed_run):
        make_job("FAILED", queue_name="mail")
        page.goto(QUEUES)
        pause = page.locator("#result_list tr", has_text="mail").get_by_role("link", name="Pause")
        pause.focus()
        self.renew(page)
        expect(pause).to_be_focused()

        page.goto(detail(failed_run))
        for place in (page.locator("summary").last, page.locator(".dj-traceback").last):
            place.focus()
            self.renew(page)
            expect(place).to_be_focused()

    def test_folds_and_what_was_scrolled_stay(self, page, failed_run):
        page.set_viewport_size({"width": 390, "height": 500})
        page.goto(detail(failed_run))
        fold, text = page.locator(".dj-run details"), page.locator(".dj-traceback")
        text.evaluate("(one) => { one.scrollLeft = 90; }")
        page.evaluate("scrollTo(0, 300)")

        self.renew(page)

        assert page.evaluate("scrollY") == 300
        assert text.evaluate("(one) => one.scrollLeft") == 90
        page.locator("summary").click()
        self.renew(page)
        assert fold.get_attribute("open") is None

    def test_what_is_being_copied_stays(self, page, make_job):
        make_job(queue_name="mail")
        page.goto(QUEUES)
        page.evaluate("getSelection().selectAllChildren(document.querySelector('#result_list tbody th'))")
        found = looks(page)

        page.clock.run_for(5_000)
        eventually(lambda: found)

        assert page.evaluate("String(getSelection())") == "default"

    def test_a_site_that_does_not_answer_is_told_until_it_does(self, page, complaints):
        page.goto(JOBS)
        page.goto(OVERVIEW)
        page.context.set_offline(True)
        page.clock.run_for(5_000)
        expect(page.locator(".dj-stale")).to_be_visible()

        page.context.set_offline(False)
        page.clock.run_for(5_000)

        expect(page.locator(".dj-stale")).to_be_hidden()
        complaints.clear()  # of the line that was cut

    def test_who_was_signed_out_meanwhile_is_led_to_the_login(self, page):
        page.goto(OVERVIEW)
        page.context.clear_cookies()

        page.clock.run_for(5_000)

        expect(page.get_by_label("Username")).to_be_visible()
