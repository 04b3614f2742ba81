"""Another queue, priority or time for a job that waits, and a copy of a job."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.db import connection
from django.utils import timezone

from django_jobs.models import Job
from tests.admin.conftest import detail, one, texts

pytestmark = pytest.mark.django_db

SOON = timezone.make_aware(timezone.datetime(2030, 5, 1, 8, 30))  # type: ignore[attr-defined]


def answer(**given):
    return {"queue_name": "mail", "priority": "5", "run_after": "2030-05-01T08:30:00"} | given


class TestEdit:
    def test_a_waiting_job_gets_another_queue_priority_and_time(self, admin_client, admin_user, make_job):
        job = make_job("SCHEDULED", run_after=SOON - timedelta(days=1))

        asked = admin_client.get(one(job, "edit")).content.decode()
        done = admin_client.post(one(job, "edit"), answer(), follow=True)

        assert 'value="2030-04-30T08:30:00"' in asked
        assert 'value="default"' in asked
        job.refresh_from_db()
        assert (job.queue_name, job.priority, job.run_after) == ("mail", 5, SOON)
        assert texts(done) == [f"Changed {job}."]
        entry = LogEntry.objects.get()
        assert (entry.user, entry.object_id, entry.action_flag) == (admin_user, str(job.pk), CHANGE)
        words = entry.get_change_message()
        assert "Queue: default → mail; Priority: 0 → 5; Due: April 30, 2030, 08:30:00 → May 1, 2030" in words

    def test_what_is_left_as_it_is_stays_to_the_microsecond(self, admin_client, make_job):
        exact = SOON.replace(microsecond=123_456)
        job = make_job("SCHEDULED", run_after=exact)

        admin_client.post(one(job, "edit"), answer(queue_name="default"))

        job.refresh_from_db()
        assert (job.priority, job.run_after) == (5, exact)

    def test_nothing_given_is_nothing_done(self, admin_client, make_job):
        job = make_job("SCHEDULED", run_after=SOON, queue_name="mail", priority=5)

        done = admin_client.post(one(job, "edit"), answer(), follow=True)

        assert texts(done) == ["Nothing was changed."]
        assert not LogEntry.objects.exists()

    @pytest.mark.parametrize(
        "given",
        [
            {"priority": "101"},
            {"priority": "x"},
            {"queue_name": ""},
            {"queue_name": "q" * 129},
            {"queue_name": "a\0b"},
            {"run_after": "x"},
            {"run_after": "9999-12-31T23:00:00"},
        ],
    )
    def test_what_no_job_can_have_is_told_and_not_done(self, admin_client, make_job, given):
        job = make_job("SCHEDULED")
        before = Job.objects.values().get()

        page = admin_client.post(one(job, "edit"), answer(**given))

        assert page.status_code == 200
        assert 'class="errorlist"' in page.content.decode()
        assert Job.objects.values().get() == before

    @pytest.mark.parametrize("state", ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"])
    def test_a_job_that_does_not_wait_is_left_alone(self, admin_client, make_job, state):
        job = make_job(state)

        asked = admin_client.get(one(job, "edit")).content.decode()
        done = admin_client.post(one(job, "edit"), answer(), follow=True)

        assert "It isn’t waiting, so it can’t be changed." in asked
        assert 'type="submit"' not in asked.partition('id="content-main"')[2]
        assert texts(done) == ["Skipped: it isn’t waiting any more."]
        assert Job.objects.get().queue_name == "default"
        assert one(job, "edit") not in admin_client.get(detail(job)).content.decode()

    def test_one_that_is_not_there_leads_to_the_start_page(self, admin_client):
        assert admin_client.post("/admin/django_jobs/job/edit/77/", answer()).status_code == 302


class TestCopy:
    def test_a_job_like_it_is_due_at_once(self, admin_client, admin_user, make_job):
        job = make_job("FAILED", args=[1, {"b": 1e22, "a": -0.0}], kwargs={"x": [None]}, priority=7,
                       meta={"tags": ["vip"], "enqueued_by": "bob"}, attempt=4, reason="no",
                       queue_name="mail")  # fmt: skip

        asked = admin_client.get(one(job, "copy")).content.decode()
        done = admin_client.post(one(job, "copy"), follow=True)

        assert "A new job with the same task" in asked
        made = Job.objects.exclude(pk=job.pk).get()
        same = ("task_path", "queue_name", "args", "kwargs", "priority", "max_attempts")
        assert [getattr(made, name) for name in same] == [getattr(job, name) for name in same]
        assert (made.state, made.attempt, made.reason, made.finished_at) == ("READY", 0, None, None)
        assert made.run_after <= timezone.now()
        assert made.meta == {"tags": ["vip"], "copy_of": job.pk, "enqueued_by": "admin"}
        assert texts(done) == [f"Enqueued {made}."]
        entry = LogEntry.objects.get()
        assert (entry.user, entry.object_id, entry.action_flag) == (admin_user, str(made.pk), ADDITION)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(DISTINCT args::text), count(*) FROM django_jobs_job")
            assert cursor.fetchone() == (1, 2)

    @pytest.mark.parametrize("state", ["READY", "RUNNING", "SUCCESSFUL"])
    def test_any_job_can_be_copied(self, admin_client, make_job, state):
        job = make_job(state)

        admin_client.post(one(job, "copy"))

        assert Job.objects.filter(state="READY").exclude(pk=job.pk).count() == 1


class TestPermissions:
    PERMISSIONS = {"edit": "change_job", "copy": "add_job"}

    @pytest.mark.parametrize("action", PERMISSIONS)
    def test_each_needs_its_own(self, client_of, make_job, action):
        job = make_job("SCHEDULED", run_after=SOON - timedelta(days=1))
        every = ("view_job", "view_arguments", "retry_job", "run_job", "cancel_job", "delete_job")
        others = client_of(*every, *(set(self.PERMISSIONS.values()) - {self.PERMISSIONS[action]}))
        has_it = client_of("view_job", self.PERMISSIONS[action])

        assert one(job, action) not in others.get(detail(job)).content.decode()
        assert others.get(one(job, action)).status_code == 403
        assert others.post(one(job, action), answer()).status_code == 403
        assert not LogEntry.objects.exists()
        assert one(job, action) in has_it.get(detail(job)).content.decode()
        assert has_it.post(one(job, action), answer()).status_code == 302
        assert LogEntry.objects.count() == 1

    def test_a_copy_is_not_for_who_may_not_see_jobs(self, client_of, make_job):
        job = make_job("SCHEDULED")

        assert client_of("add_job").post(one(job, "copy"), answer()).status_code == 403

    @pytest.mark.parametrize("action", PERMISSIONS)
    def test_no_get_changes_anything(self, admin_client, make_job, action):
        job = make_job("SCHEDULED")
        before = list(Job.objects.values())

        admin_client.get(one(job, action), answer(confirmed="yes"))

        assert list(Job.objects.values()) == before
