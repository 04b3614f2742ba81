"""Actions on many jobs from the list's menu."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.dashboard import acting
from django_jobs.models import Job
from tests.admin.conftest import JOBS, texts

pytestmark = pytest.mark.django_db


def choose(client, action, jobs, address=JOBS, **more):
    """Send what the list's menu sends for ticked jobs."""
    data = {"action": f"{action}_jobs", "_selected_action": [job.pk for job in jobs], "index": "0"}
    return client.post(address, data | more)


def answer(client, question, address=JOBS, **more):
    """Send the form of the page that asks, as a browser would."""
    asked = question.context["question"]
    data: dict[str, Any] = {"confirmed": "yes"}
    for name, value in asked.hidden:
        data[name] = [*data.get(name, []), value]
    return client.post(address, data | more, follow=True)


class TestMenu:
    def test_it_offers_what_the_user_may_do(self, admin_client, client_of, make_job):
        make_job()

        def offered(client):
            return [
                name
                for name, _words in client.get(JOBS).context["action_form"].fields["action"].choices
                if name
            ]

        assert offered(admin_client) == ["retry_jobs", "run_jobs", "cancel_jobs", "delete_jobs"]
        assert offered(client_of("view_job", "cancel_job")) == ["cancel_jobs"]

    def test_djangos_own_deletion_is_not_offered(self, admin_client, make_job):
        job = make_job("RUNNING")

        admin_client.post(JOBS, {"action": "delete_selected", "_selected_action": [job.pk], "post": "yes"})

        assert Job.objects.filter(pk=job.pk).exists()


class TestTicked:
    def test_first_it_asks_with_numbers_and_examples(self, admin_client, make_job):
        jobs = [make_job("FAILED") for _ in range(12)] + [make_job("RUNNING")]

        page = choose(admin_client, "retry", jobs)

        words = page.content.decode()
        assert "12 failed or cancelled jobs will wait in their queues again, due at once." in words
        assert "Left as they are: 1 running." in words
        assert str(jobs[11]) in words
        assert "and 2 more" in words
        assert Job.objects.filter(state="READY").count() == 0
        assert not LogEntry.objects.exists()

    def test_then_it_acts_and_counts_what_was_done_and_skipped(self, admin_client, make_job):
        jobs = [make_job("FAILED"), make_job("CANCELLED"), make_job("RUNNING"), make_job("SUCCESSFUL")]

        done = answer(admin_client, choose(admin_client, "retry", jobs))

        assert texts(done) == ["Retried 2 jobs. Skipped 2: 1 running, 1 successful."]
        assert Job.objects.filter(state="READY").count() == 2
        assert LogEntry.objects.count() == 2

    def test_what_changed_between_question_and_answer_is_skipped_with_its_state(self, admin_client, make_job):
        jobs = [make_job("FAILED") for _ in range(3)]
        asked = choose(admin_client, "retry", jobs, f"{JOBS}?state=failed")
        jobs[0].retry()
        jobs[1].delete()

        done = answer(admin_client, asked, f"{JOBS}?state=failed")

        assert texts(done) == ["Retried 1 job. Skipped 2: 1 no longer there, 1 ready."]

    def test_the_choice_of_the_question_counts_for_all(self, admin_client, make_job):
        jobs = [make_job("FAILED", attempt=5) for _ in range(2)]

        answer(admin_client, choose(admin_client, "retry", jobs), attempts="one")

        assert {job.max_attempts for job in Job.objects.all()} == {6}

    def test_waiting_and_running_jobs_are_told_apart_when_cancelled(self, admin_client, make_job):
        jobs = [make_job(), make_job("SCHEDULED"), make_job("RUNNING"), make_job("FAILED")]

        done = answer(admin_client, choose(admin_client, "cancel", jobs), reason="no more")

        assert texts(done) == ["Cancelled 2 jobs. Asked 1 running job to stop. Skipped 1: 1 failed."]

    def test_ids_that_are_none_are_passed_over(self, admin_client, make_job):
        page = admin_client.post(
            JOBS, {"action": "delete_jobs", "_selected_action": ["-1", "9" * 40], "index": "0"}
        )

        assert "There is nothing to do." in page.content.decode()


class TestAllThatMatch:
    def test_all_that_match_the_filters_are_taken_beyond_the_page(self, admin_client, make_job):
        for _ in range(60):
            make_job("FAILED", queue_name="mail")
        kept = make_job("FAILED", queue_name="web")
        address = f"{JOBS}?queue=mail"

        asked = choose(admin_client, "delete", [kept], address, select_across="1")
        done = answer(admin_client, asked, address)

        assert "Jobs that match: queue=mail." in asked.content.decode()
        assert texts(done) == ["Deleted 60 jobs."]
        assert list(Job.objects.all()) == [kept]

    def test_waiting_jobs_that_match_are_taken(self, admin_client, make_job):
        for number in range(60):
            make_job(priority=number % 3)
        address = f"{JOBS}?state=ready"

        asked = choose(admin_client, "cancel", [], address, select_across="1", _selected_action="0")

        assert texts(answer(admin_client, asked, address)) == ["Cancelled 60 jobs."]

    def test_at_most_so_many_are_taken_at_a_time_and_it_says_so(self, admin_client, make_job, monkeypatch):
        monkeypatch.setattr("django_jobs.dashboard.confirming.MOST", 5)
        for _ in range(7):
            make_job("FAILED")

        asked = choose(admin_client, "retry", [], select_across="1", _selected_action="0")
        done = answer(admin_client, asked)

        assert "More than 5 jobs match; so many are taken at a time." in asked.content.decode()
        assert texts(done)[0].startswith("Retried 5 jobs.")
        assert "Do it again for the others." in texts(done)[0]


@pytest.fixture
def many(db):
    """Two and a half thousand failed jobs."""
    return Job.objects.bulk_create(
        [
            Job(queue_name="mail", task_path="a.b", state="FAILED", finished_at="2026-01-01T00:00Z")
            for _ in range(2500)
        ]
    )


class TestVeryMany:
    def test_they_are_changed_in_batches_of_a_few_statements_each(self, admin_user, many):
        ids = [job.pk for job in many]

        with CaptureQueriesContext(connection) as captured:
            report = acting.carry_out(
                acting_retry(), ids, {}, alias="default", user_id=admin_user.pk, matching="x"
            )

        assert report.done == 2500
        assert len(captured) < 3 * 10
        assert Job.objects.filter(state="READY").count() == 2500

    def test_the_log_has_one_entry_with_how_many_the_filter_and_the_ids(self, admin_client, many):
        address = f"{JOBS}?state=failed"
        asked = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")

        answer(admin_client, asked, address)

        entry = LogEntry.objects.get()
        assert entry.object_repr == "2,500 jobs"
        assert entry.object_id is None
        message = entry.get_change_message()
        assert "Retried with all attempts anew." in message
        assert "Matching: state=failed." in message
        assert f"Ids: {many[0].pk}–{many[-1].pk}" in message

    def test_when_the_time_is_up_whole_batches_are_done_recorded_and_the_rest_is_told(
        self, admin_user, many, monkeypatch
    ):
        clock = iter(range(0, 1000, 15))
        monkeypatch.setattr(acting, "monotonic", lambda: next(clock))

        report = acting.carry_out(
            acting_retry(), [job.pk for job in many], {}, alias="default", user_id=admin_user.pk, matching="x"
        )

        assert (report.done, report.left) == (1000, 1500)
        assert "1,500 jobs were left as they are. Do it again to go on." in report.text(acting_retry())
        assert LogEntry.objects.get().object_repr == "1,000 jobs"

    def test_a_batch_that_fails_is_neither_done_nor_recorded(self, admin_user, many, monkeypatch):
        def fail(self, changed):
            raise RuntimeError("the log is full")

        monkeypatch.setattr(acting.Log, "write", fail)

        with pytest.raises(RuntimeError):
            acting.carry_out(
                acting_retry(), [many[0].pk], {}, alias="default", user_id=admin_user.pk, matching="x"
            )

        assert Job.objects.filter(state="FAILED").count() == 2500

    def test_ids_in_the_log_are_cut(self, monkeypatch):
        monkeypatch.setattr(acting, "MOST_RANGES", 3)
        ranges = acting.Ranges()

        ranges.add([1, 2, 3, 5])
        ranges.add([6, 9, 12, 15])

        assert str(ranges) == "1–3, 5–6, 9, …"


def acting_retry():
    from django_jobs.dashboard.actions import RETRY

    return RETRY
