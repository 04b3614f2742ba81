"""Pages that renew themselves: what they send to the script, and the script itself in a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.http import HttpRequest
from django.test import override_settings
from django.test.testcases import LiveServerThread

from django_jobs.models import Job
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES, WORKERS, detail

CHROMIUM = os.environ.get("CHROMIUM", "chromium")
POLICY = "default-src 'self'"


@pytest.mark.django_db
class TestPages:
    def test_the_part_that_is_renewed_is_there(self, admin_client, make_job, make_worker):
        waiting, worker = make_job(), make_worker()

        pages = [OVERVIEW, QUEUES, f"{QUEUES}default/change/", WORKERS, f"{WORKERS}{worker.pk}/change/"]
        for page in (*pages, detail(waiting)):
            content = admin_client.get(page).content.decode()
            [part] = re.findall(r'data-dj-live="([\w-]+)"', content)
            assert content.count(f'id="{part}"') == 1, page
            assert "django_jobs/live.js" in content, page

    def test_a_job_that_has_ended_stays_as_it_is(self, admin_client, make_job):
        for state in ("FAILED", "SUCCESSFUL", "CANCELLED"):
            assert "data-dj-live" not in admin_client.get(detail(make_job(state))).content.decode()

    def test_the_list_of_jobs_stays_while_someone_ticks_boxes(self, admin_client):
        assert "data-dj-live" not in admin_client.get(JOBS).content.decode()


class Visitor:
    """Signs a superuser in, sends a strict policy, and has a job fail between two looks at a page."""

    looks = 0

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest):
        request.user = User.objects.get(username="ada")
        if request.headers.get("X-Django-Jobs-Part"):
            Visitor.looks += 1
            if Visitor.looks == 1:
                Job.objects.create(
                    queue_name="q", task_path="t", state="FAILED", finished_at="2026-01-01T00:00Z", attempt=1
                )
        response = self.get_response(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="there is no chromium")
@pytest.mark.django_db(transaction=True)
class TestBrowser:
    def dom(self, url: str, folder: Path, *flags: str) -> tuple[str, list[str]]:
        """Return the page after some seconds of the browser's own time, and what it complained of."""
        done = subprocess.run(
            [
                CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-background-networking", f"--user-data-dir={folder}", "--enable-logging=stderr",
                "--virtual-time-budget=9000", *flags, "--dump-dom", url,
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.stdout, re.findall(r"CONSOLE.*", done.stderr)

    def failed(self, page: str) -> str:
        found = re.search(r'<span class="dj-count">(\d+)</span> <span class="dj-title">failed</span>', page)
        assert found is not None
        return found[1]

    @pytest.fixture
    def site(self):
        """A server with a superuser signed in; pytest-django's own is made before middleware can be added."""
        Visitor.looks = 0
        User.objects.create_superuser("ada")
        with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, f"{__name__}.Visitor"]):
            server = LiveServerThread("127.0.0.1", StaticFilesHandler)
            server.daemon = True
            server.start()
            server.is_ready.wait()
            assert server.error is None
            yield f"http://127.0.0.1:{server.port}"
            server.terminate()

    @pytest.mark.parametrize("page", [OVERVIEW, QUEUES])
    def test_a_page_shows_what_has_happened_since_it_was_loaded(self, site, tmp_path, page):
        content, complaints = self.dom(f"{site}{page}", tmp_path)

        assert self.failed(content) == "1"
        assert '<form class="dj-live" data-dj-live="dj-live">' in content  # no longer hidden
        assert complaints == []
        assert Visitor.looks > 0

    def test_it_does_not_for_who_prefers_less_motion(self, site, tmp_path):
        content, complaints = self.dom(f"{site}{OVERVIEW}", tmp_path, "--force-prefers-reduced-motion")

        assert self.failed(content) == "0"
        assert complaints == []
        assert Visitor.looks == 0
