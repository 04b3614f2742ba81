"""What must never happen: markup from jobs in a page, a change by a GET or without a token, inline code."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client

from django_jobs.models import Attempt, Job, Queue, Worker
from tests.admin.conftest import ACTIONS, EVIL, JOBS, OVERVIEW, QUEUES, TASKS, WORKERS, detail, one, texts
from tests.jobs import give

pytestmark = pytest.mark.django_db


@pytest.fixture
def everything(evil_job, make_job, make_worker):
    """Rows in every state with markup in every text; the addresses of all pages."""
    worker = make_worker(
        name=EVIL,
        host=EVIL,
        queues=[EVIL],
        excluded_queues=[EVIL],
        tasks=[EVIL],
        versions={EVIL: EVIL},
        ending=EVIL,
        limits={EVIL: 1},
        supervisor=EVIL[:32],
        takes_requests=True,
        asked_to="DRAIN",
        asked_by=EVIL,
    )
    Queue.objects.create(name=EVIL, paused_at="2026-01-01T00:00Z", paused_by=EVIL, pause_reason=EVIL)
    jobs = [evil_job]
    for state in ("READY", "SCHEDULED", "RUNNING", "SUCCESSFUL", "CANCELLED"):
        jobs.append(make_job(state, queue_name=EVIL, task_path=EVIL, reason=EVIL, worker=worker.pk))
    name = quote(EVIL)
    pages = [
        "/admin/", "/admin/django_jobs/", OVERVIEW, TASKS, f"{TASKS}run/{quote(give.module_path)}/",
        JOBS, f"{JOBS}?state=failed", f"{JOBS}retry-failed/",
        WORKERS, QUEUES,
        f"{WORKERS}{worker.pk}/change/", f"{WORKERS}{worker.pk}/history/",
        f"{WORKERS}drain/{worker.pk}/", f"{WORKERS}stop/{worker.pk}/",
        f"{QUEUES}{name}/change/", f"{QUEUES}{name}/history/",
        f"{QUEUES}pause/{name}/", f"{QUEUES}resume/{name}/",
    ]  # fmt: skip
    for job in jobs:
        pages += [detail(job), f"{JOBS}{job.pk}/history/", *(one(job, action) for action in ACTIONS)]
    return pages


def snapshot():
    """Return all rows that a page could change."""
    return [list(model.objects.order_by("pk").values()) for model in (Job, Attempt, Worker, Queue, LogEntry)]


class TestMarkup:
    def test_texts_of_jobs_workers_and_queues_are_escaped_on_every_page(self, admin_client, everything):
        for page in everything:
            response = admin_client.get(page)
            assert response.status_code == 200, page
            content = response.content.decode()
            assert "<script>alert" not in content, page
            assert "<img src=x" not in content, page
        assert "&lt;script&gt;" in admin_client.get(JOBS).content.decode()

    def test_arguments_are_escaped(self, admin_client, evil_job):
        page = admin_client.get(detail(evil_job)).content.decode()

        assert "<img" not in page
        assert page.count("onerror=") == page.count("&lt;img src=x onerror=")

    def test_the_page_that_asks_about_many_escapes(self, admin_client, evil_job):
        data = {"action": "retry_jobs", "_selected_action": [evil_job.pk], "index": "0"}

        page = admin_client.post(JOBS, data).content.decode()

        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page

    def test_filters_from_the_address_are_escaped(self, admin_client, evil_job):
        for address in (
            f"{JOBS}?queue={EVIL}&task={EVIL}",
            f"{JOBS}?q={EVIL}",
            f"{JOBS}retry-failed/?queue={EVIL}",
        ):
            page = admin_client.get(address).content.decode()
            assert "<script>alert" not in page
            assert "<img src=x" not in page

    def test_messages_are_escaped(self, admin_client, everything):
        resume = next(page for page in everything if "/resume/" in page)

        page = admin_client.post(resume, follow=True)

        assert EVIL in texts(page)[0]
        assert "<script>alert" not in page.content.decode()

    def test_reasons_that_users_give_are_escaped(self, admin_client, make_job):
        job = make_job()
        admin_client.post(one(job, "cancel"), {"reason": EVIL})

        for page in (JOBS, detail(job), f"{JOBS}{job.pk}/history/", "/admin/"):
            assert "<script>alert" not in admin_client.get(page).content.decode()


class TestChanges:
    def test_no_get_changes_anything(self, admin_client, everything):
        before = snapshot()

        for page in everything:
            for query in (
                "",
                "?confirmed=yes&attempts=all&action=retry_jobs&select_across=1&_selected_action=0",
            ):
                admin_client.get(page.partition("?")[0] + query)
                admin_client.head(page)

        assert snapshot() == before

    def test_every_change_needs_a_token(self, admin_user, everything, make_job):
        client = Client(enforce_csrf_checks=True)
        client.force_login(admin_user)
        before = snapshot()

        for page in everything:
            data = {
                "confirmed": "yes",
                "action": "delete_jobs",
                "select_across": "1",
                "_selected_action": "0",
            }
            assert client.post(page, data).status_code in (403, 405), page

        assert snapshot() == before

    def test_with_its_token_the_form_works(self, admin_user, make_job):
        client = Client(enforce_csrf_checks=True)
        client.force_login(admin_user)
        job = make_job("FAILED")
        page = client.get(one(job, "retry")).content.decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token is not None

        client.post(one(job, "retry"), {"csrfmiddlewaretoken": token[1], "confirmed": "yes"})

        job.refresh_from_db()
        assert job.state == "READY"


class TestNumbers:
    """Python refuses to read a number of more than 4,300 digits; a server lets 8,000 through."""

    @pytest.mark.parametrize("number", ["9" * 5_000, "0" * 5_000, "9" * 20, "-1"], ids=lambda text: text[:30])
    @pytest.mark.parametrize("pages", [JOBS, WORKERS])
    def test_that_no_row_has_break_no_page(self, admin_client, make_job, pages, number):
        make_job()
        names = ("q", "id", "id__exact", "id__in", "worker", "p", "state", "level")
        places = [f"{pages}?{name}={number}" for name in names]
        places += [f"{pages}{number}/change/", f"{pages}{number}/history/"]
        places += [f"{JOBS}{number}/{action}/" for action in ACTIONS]

        for place in places:
            assert admin_client.get(place).status_code < 500, place[:60]

    @pytest.mark.parametrize("number", ["9" * 5_000, "0" * 5_000, "9" * 20, "-1"], ids=lambda text: text[:30])
    @pytest.mark.parametrize("action", ACTIONS)
    def test_that_no_row_has_choose_none(self, admin_client, make_job, action, number):
        job = make_job("FAILED")
        chosen = {"action": f"{action}_jobs", "_selected_action": [number, str(job.pk)]}

        page = admin_client.post(JOBS, chosen)

        hidden = page.context["question"].hidden
        assert [value for name, value in hidden if name == "_selected_action"] == [str(job.pk)]


class Inline(HTMLParser):
    """Collects what a strict Content-Security-Policy would block."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in given):
            self.found.append(tag)
        for name, value in given.items():
            if name == "style" or name.startswith("on") or (value or "").startswith("javascript:"):
                self.found.append(f"{tag} {name}={value}")
            if name in ("src", "href") and (value or "").startswith(("http:", "https:", "//")):
                self.found.append(f"{tag} {name}={value}")


def test_no_page_has_inline_code_or_style_or_anything_from_elsewhere(admin_client, everything):
    for page in everything:
        parser = Inline()
        parser.feed(admin_client.get(page).content.decode())
        assert parser.found == [], page
