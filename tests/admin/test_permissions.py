"""Who may see and who may do what."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_jobs.models import Job, Queue
from tests.admin.conftest import ACTIONS, JOBS, OVERVIEW, QUEUES, TASKS, WORKERS, detail, one
from tests.jobs import give

pytestmark = pytest.mark.django_db

STATE = {"retry": "FAILED", "cancel": "READY", "run": "SCHEDULED", "delete": "FAILED"}
PERMISSION = {"retry": "retry_job", "cancel": "cancel_job", "run": "run_job", "delete": "delete_job"}


class TestViewer:
    def test_someone_who_may_only_look_sees_everything_and_is_offered_nothing(
        self, viewer, make_job, make_worker
    ):
        jobs = [make_job(state) for state in STATE.values()]
        worker = make_worker()

        for page in (
            OVERVIEW,
            JOBS,
            QUEUES,
            WORKERS,
            f"{WORKERS}{worker.pk}/change/",
            f"{QUEUES}default/change/",
            *map(detail, jobs),
        ):
            content = viewer.get(page)
            assert content.status_code == 200, page
            for action in (*ACTIONS, "retry-failed", "pause", "resume"):
                assert f"/{action}/" not in content.content.decode().partition('id="content"')[2], (
                    page,
                    action,
                )
        assert viewer.get(JOBS).context["action_form"] is None

    @pytest.mark.parametrize("action", ACTIONS)
    def test_a_direct_post_to_an_action_is_refused(self, viewer, make_job, action):
        job = make_job(STATE[action])
        before = Job.objects.values().get()

        assert viewer.get(one(job, action)).status_code == 403
        assert viewer.post(one(job, action), {"confirmed": "yes"}).status_code == 403

        assert Job.objects.values().get() == before

    @pytest.mark.parametrize("action", ACTIONS)
    def test_a_direct_post_to_the_lists_menu_does_nothing(self, viewer, make_job, action):
        job = make_job(STATE[action])
        before = Job.objects.values().get()

        for across in ("0", "1"):
            data = {
                "action": f"{action}_jobs",
                "_selected_action": [job.pk],
                "select_across": across,
                "confirmed": "yes",
            }
            viewer.post(JOBS, data)
            viewer.post(JOBS, data | {"index": "0"})

        assert Job.objects.values().get() == before

    def test_a_direct_post_to_retry_all_failed_is_refused(self, viewer, make_job):
        make_job("FAILED")

        assert viewer.post(f"{JOBS}retry-failed/").status_code == 403
        assert Job.objects.get().state == "FAILED"

    @pytest.mark.parametrize("action", ["pause", "resume"])
    def test_a_direct_post_to_pause_or_resume_is_refused(self, viewer, make_job, action):
        make_job()
        Queue.objects.create(name="other", paused_at="2026-01-01T00:00Z")

        for queue in ("default", "other"):
            assert viewer.post(f"{QUEUES}{action}/{queue}/").status_code == 403

        assert list(Queue.objects.filter(paused_at__isnull=False).values_list("name", flat=True)) == ["other"]
        assert not LogEntry.objects.exists()


class TestPermissions:
    @pytest.mark.parametrize("action", ACTIONS)
    def test_each_action_needs_its_own_and_no_other(self, client_of, make_job, action):
        job = make_job(STATE[action])
        others = client_of(
            "view_job",
            "view_queue",
            "change_job",
            "add_job",
            *(set(PERMISSION.values()) - {PERMISSION[action]}),
        )
        has_it = client_of("view_job", PERMISSION[action])

        assert one(job, action) not in others.get(JOBS).content.decode()
        assert others.post(one(job, action)).status_code == 403
        assert one(job, action) in has_it.get(JOBS).content.decode()
        assert has_it.post(one(job, action)).status_code == 302
        assert LogEntry.objects.count() == 1

    @pytest.mark.parametrize("action", ACTIONS)
    def test_an_action_on_jobs_that_one_may_not_see_is_refused(self, client_of, make_job, action):
        job = make_job(STATE[action])

        assert client_of(PERMISSION[action]).post(one(job, action)).status_code == 403

    def test_pausing_needs_its_own(self, client_of, make_job):
        make_job()

        assert client_of("view_queue", "retry_job").post(f"{QUEUES}pause/default/").status_code == 403
        assert client_of("view_queue", "pause_queue").post(f"{QUEUES}pause/default/").status_code == 302
        assert Queue.objects.get().is_paused

    def test_links_to_pages_that_one_may_not_see_are_left_out(self, client_of, make_job, make_worker):
        worker = make_worker(name="secret-name")
        job = make_job("RUNNING", worker=worker.pk)

        assert "secret-name" not in client_of("view_job").get(detail(job)).content.decode()
        page = client_of("view_worker").get(f"{WORKERS}{worker.pk}/change/").content.decode()
        assert str(job) not in page
        assert JOBS not in client_of("view_queue").get(QUEUES).content.decode()


class TestStrangers:
    def pages(self, job, worker):
        return [
            OVERVIEW, TASKS, f"{TASKS}run/{give.module_path}/",
            JOBS, detail(job), f"{JOBS}{job.pk}/history/", f"{JOBS}retry-failed/",
            QUEUES, f"{QUEUES}default/change/", f"{QUEUES}pause/default/", f"{QUEUES}resume/default/",
            WORKERS, f"{WORKERS}{worker.pk}/change/", *(one(job, action) for action in ACTIONS),
        ]  # fmt: skip

    def test_staff_without_permissions_gets_nothing(self, client_of, make_job, make_worker):
        client = client_of()

        for page in self.pages(make_job("FAILED"), make_worker()):
            assert client.get(page).status_code == 403, page
            assert client.post(page).status_code == 403, page
        assert "django_jobs" not in client.get("/admin/").content.decode()

    @pytest.mark.parametrize("signed_in", [False, True])
    def test_who_is_not_staff_is_sent_to_the_login(self, make_job, make_worker, signed_in):
        client = Client()
        if signed_in:
            client.force_login(User.objects.create_user("customer"))

        for page in self.pages(make_job("FAILED"), make_worker()):
            for answer in (client.get(page), client.post(page)):
                assert answer.status_code == 302, page
                assert answer.headers["Location"].startswith("/admin/login/"), page
        assert Job.objects.get().state == "FAILED"
