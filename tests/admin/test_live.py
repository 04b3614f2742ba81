"""Pages that renew themselves: what they send to the script, and the script itself in a browser."""

from __future__ import annotations

import re

import pytest
from django.http import HttpRequest

from django_jobs.models import Job
from tests.admin.browsing import dom, needs_chromium, serving
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES, WORKERS, detail


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


class Happening:
    """Has a job fail between two looks at a page, and counts the looks."""

    looks = 0

    def __call__(self, request: HttpRequest) -> None:
        if request.headers.get("X-Django-Jobs-Part"):
            self.looks += 1
            if self.looks == 1:
                Job.objects.create(
                    queue_name="q", task_path="t", state="FAILED", finished_at="2026-01-01T00:00Z", attempt=1
                )


@pytest.mark.slow
@needs_chromium
@pytest.mark.django_db(transaction=True)
class TestBrowser:
    def failed(self, page: str) -> str:
        found = re.search(r'<span class="dj-count">(\d+)</span> <span class="dj-title">failed</span>', page)
        assert found is not None
        return found[1]

    @pytest.mark.parametrize("page", [OVERVIEW, QUEUES])
    def test_a_page_shows_what_has_happened_since_it_was_loaded(self, tmp_path, page):
        happening = Happening()

        with serving(before=happening) as site:
            content, complaints = dom(f"{site}{page}", tmp_path)

        assert self.failed(content) == "1"
        assert '<form class="dj-live" data-dj-live="dj-live">' in content  # no longer hidden
        assert complaints == []
        assert happening.looks > 0

    def test_it_does_not_for_who_prefers_less_motion(self, tmp_path):
        happening = Happening()

        with serving(before=happening) as site:
            content, complaints = dom(f"{site}{OVERVIEW}", tmp_path, "--force-prefers-reduced-motion")

        assert self.failed(content) == "0"
        assert complaints == []
        assert happening.looks == 0
