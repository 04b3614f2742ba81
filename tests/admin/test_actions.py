"""Retry, cancel, run now and delete, one job at a time and all failed ones at once."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry

from django_jobs import signals
from django_jobs.models import Attempt, Job
from tests.admin.conftest import ACTIONS, JOBS, detail, one, texts

pytestmark = pytest.mark.django_db

APPLIES = {
    "retry": {"FAILED", "CANCELLED"},
    "cancel": {"READY", "SCHEDULED", "RETRYING", "RUNNING", "BLOCKED"},
    "run": {"SCHEDULED", "RETRYING"},
    "delete": {"READY", "SCHEDULED", "RETRYING", "BLOCKED", "SUCCESSFUL", "FAILED", "CANCELLED"},
}
STATES = ("READY", "SCHEDULED", "RETRYING", "RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED", "BLOCKED")


class TestButtons:
    @pytest.mark.parametrize("state", STATES)
    def test_a_button_is_offered_where_it_applies_and_nowhere_else(self, admin_client, make_job, state):
        job = make_job(state)
        rows, page = admin_client.get(JOBS).content.decode(), admin_client.get(detail(job)).content.decode()

        for action in ACTIONS:
            offered = state in APPLIES[action]
            assert (one(job, action) in rows) is offered, action
            assert (one(job, action) in page) is offered, action

    def test_a_job_that_was_asked_to_stop_is_not_asked_again(self, admin_client, make_job):
        job = make_job("RUNNING")
        job.cancel()

        page = admin_client.get(detail(job)).content.decode()

        assert one(job, "cancel") not in page
        assert "asked to stop" in page


class TestQuestion:
    @pytest.mark.parametrize(
        ("action", "state", "says"),
        [
            ("retry", "FAILED", "1 failed or cancelled job will wait in its queue again, due at once."),
            ("cancel", "READY", "1 job will be cancelled."),
            ("run", "SCHEDULED", "1 job that waits for a later time will be due at once."),
            ("delete", "SUCCESSFUL", "1 job will be deleted for good, with its attempts."),
        ],
    )
    def test_it_says_what_will_happen_to_which_job(self, admin_client, make_job, action, state, says):
        job = make_job(state)

        page = admin_client.get(one(job, action)).content.decode()

        assert says in page
        assert str(job) in page
        assert 'name="csrfmiddlewaretoken"' in page

    def test_where_nothing_can_be_done_it_says_so_and_has_no_button(self, admin_client, make_job):
        page = admin_client.get(one(make_job("RUNNING"), "retry")).content.decode()

        assert "There is nothing to do." in page
        assert "Left as they are: 1 running." in page
        assert 'type="submit"' not in page.partition('id="content-main"')[2]

    def test_a_job_that_is_gone_leads_to_the_start_page(self, admin_client):
        assert admin_client.get(f"{JOBS}retry/424242/").status_code == 302
        assert admin_client.post(f"{JOBS}retry/424242/").status_code == 302

    def test_the_way_back_keeps_the_filters_of_the_list(self, admin_client, make_job):
        job = make_job("FAILED", queue_name="mail")
        rows = admin_client.get(f"{JOBS}?state=failed&queue=mail")
        link = next(
            button["path"]
            for button in rows.context["cl"].model_admin.buttons(
                rows.wsgi_request, ["django_jobs_job_retry"], job
            )
        )

        done = admin_client.post(link)

        assert done.status_code == 302
        assert sorted(done.url.partition("?")[2].split("&")) == ["queue=mail", "state=failed"]


class TestAnswer:
    def test_retry_gives_all_attempts_anew(self, admin_client, make_job):
        job = make_job("FAILED", attempt=5)

        done = admin_client.post(one(job, "retry"), {"attempts": "all"}, follow=True)

        job.refresh_from_db()
        assert (job.state, job.counted_attempt, job.attempt) == ("READY", 0, 5)
        assert texts(done) == ["Retried 1 job."]
        assert done.redirect_chain[0][0] == detail(job)

    def test_retry_can_give_just_one_more(self, admin_client, make_job):
        job = make_job("FAILED", attempt=5)

        admin_client.post(one(job, "retry"), {"attempts": "one"})

        job.refresh_from_db()
        assert (job.state, job.counted_attempt, job.max_attempts) == ("READY", 5, 6)

    def test_all_attempts_anew_is_what_happens_without_a_choice(self, admin_client, make_job):
        job = make_job("FAILED", attempt=5)

        assert 'value="all"' in admin_client.get(one(job, "retry")).content.decode()
        admin_client.post(one(job, "retry"))

        job.refresh_from_db()
        assert job.counted_attempt == 0

    def test_an_unknown_choice_changes_nothing(self, admin_client, make_job):
        job = make_job("FAILED")

        page = admin_client.post(one(job, "retry"), {"attempts": "a hundred"})

        job.refresh_from_db()
        assert job.state == "FAILED"
        assert "a hundred is not one of the available choices" in page.content.decode()

    def test_cancel_keeps_the_reason(self, admin_client, make_job):
        job = make_job("SCHEDULED")

        done = admin_client.post(one(job, "cancel"), {"reason": "withdrawn"}, follow=True)

        job.refresh_from_db()
        assert (job.state, job.reason) == ("CANCELLED", "withdrawn")
        assert texts(done) == ["Cancelled 1 job."]

    def test_cancel_asks_a_running_job_to_stop(self, admin_client, make_job):
        job = make_job("RUNNING")

        done = admin_client.post(one(job, "cancel"), follow=True)

        job.refresh_from_db()
        assert job.state == "RUNNING"
        assert job.cancel_requested_at is not None
        assert texts(done) == ["Asked 1 running job to stop."]

    def test_run_now_makes_a_scheduled_job_due(self, admin_client, make_job):
        job = make_job("SCHEDULED")

        admin_client.post(one(job, "run"))

        job.refresh_from_db()
        assert job.label == "ready"

    def test_run_now_leaves_a_job_that_is_due_in_its_place(self, admin_client, make_job):
        job = make_job("READY")

        done = admin_client.post(one(job, "run"), follow=True)

        assert Job.objects.get().run_after == job.run_after
        assert texts(done) == ["0 jobs are due now. Skipped 1: 1 ready."]

    def test_delete_takes_the_attempts_too_and_tells_receivers(
        self, admin_client, make_job, django_capture_on_commit_callbacks
    ):
        job = make_job("FAILED")
        Attempt.objects.create(job=job, number=1, kind="ERROR", decision="FAILED")
        told = []

        def receiver(job_ids, **kwargs):
            told.extend(job_ids)

        signals.job_deleted.connect(receiver)
        try:
            with django_capture_on_commit_callbacks(execute=True):
                done = admin_client.post(one(job, "delete"))
        finally:
            signals.job_deleted.disconnect(receiver)

        assert not Job.objects.exists()
        assert not Attempt.objects.exists()
        assert told == [job.pk]
        assert done.url == JOBS

    @pytest.mark.parametrize(
        ("action", "state", "skipped"),
        [
            ("retry", "RUNNING", "1 running"),
            ("cancel", "FAILED", "1 failed"),
            ("delete", "RUNNING", "1 running"),
        ],
    )
    def test_the_state_is_looked_at_again_and_what_was_skipped_is_told(
        self, admin_client, make_job, action, state, skipped
    ):
        job = make_job(state)

        done = admin_client.post(one(job, action), follow=True)

        job.refresh_from_db()
        assert job.state == state
        assert f"Skipped 1: {skipped}." in texts(done)[0]
        assert done.context["messages"]._loaded_data[0].level_tag == "warning"
        assert not LogEntry.objects.exists()


class TestLog:
    @pytest.mark.parametrize(
        ("action", "state", "data", "flag", "words"),
        [
            ("retry", "FAILED", {}, CHANGE, "Retried with all attempts anew."),
            ("retry", "FAILED", {"attempts": "one"}, CHANGE, "Retried with one more attempt."),
            ("cancel", "READY", {"reason": "withdrawn"}, CHANGE, "Cancelled: withdrawn"),
            ("run", "SCHEDULED", {}, CHANGE, "Made due at once."),
            ("delete", "FAILED", {}, DELETION, "Deleted."),
        ],
    )
    def test_who_did_what_to_which_job_is_recorded(
        self, admin_client, admin_user, make_job, action, state, data, flag, words
    ):
        job = make_job(state)

        admin_client.post(one(job, action), data)

        entry = LogEntry.objects.get()
        assert (entry.user, entry.object_id, entry.action_flag) == (admin_user, str(job.pk), flag)
        assert entry.object_repr == f"shop.tasks.send_receipt #{job.pk}"
        assert entry.get_change_message() == words

    def test_the_history_of_a_job_shows_it(self, viewer, admin_client, make_job):
        job = make_job("FAILED")
        admin_client.post(one(job, "retry"))

        assert "Retried with all attempts anew." in viewer.get(f"{JOBS}{job.pk}/history/").content.decode()


class TestRetryAllFailed:
    ALL = f"{JOBS}retry-failed/"

    def test_it_is_offered_on_the_list_with_the_filters_that_are_set(self, admin_client, make_job):
        make_job("FAILED")

        assert self.ALL in admin_client.get(JOBS).content.decode()
        assert (
            f"{self.ALL}?queue=mail&amp;task=x"
            in admin_client.get(f"{JOBS}?queue=mail&task=x").content.decode()
        )
        assert self.ALL not in admin_client.get(f"{JOBS}?state=running").content.decode()

    def test_it_retries_what_the_filters_leave_and_nothing_else(self, admin_client, make_job):
        wanted = [make_job("FAILED", queue_name="mail").pk for _ in range(3)]
        other = make_job("FAILED", queue_name="web")
        cancelled = make_job("CANCELLED", queue_name="mail")

        page = admin_client.get(f"{self.ALL}?queue=mail").content.decode()
        done = admin_client.post(f"{self.ALL}?queue=mail", follow=True)

        assert "Jobs that match: queue=mail, state=failed." in page
        assert "3 failed or cancelled jobs will wait in their queues again" in page
        assert texts(done) == ["Retried 3 jobs."]
        assert set(Job.objects.filter(state="READY").values_list("pk", flat=True)) == set(wanted)
        other.refresh_from_db()
        cancelled.refresh_from_db()
        assert (other.state, cancelled.state) == ("FAILED", "CANCELLED")

    def test_it_goes_beyond_the_page_of_the_list(self, admin_client, make_job):
        for _ in range(55):
            make_job("FAILED")

        assert texts(admin_client.post(f"{self.ALL}?p=1", follow=True)) == ["Retried 55 jobs."]

    def test_it_respects_the_search(self, admin_client, make_job):
        make_job("FAILED", task_path="a.b")
        make_job("FAILED", task_path="c.d")

        assert texts(admin_client.post(f"{self.ALL}?q=a.", follow=True)) == ["Retried 1 job."]
