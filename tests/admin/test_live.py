"""Pages that renew themselves: what they send to the script, which tests/browser/test_live.py looks at."""

from __future__ import annotations

import re

import pytest

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
