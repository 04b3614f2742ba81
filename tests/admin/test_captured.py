"""What was captured of a run, on the job's page: folded, and for who may see arguments."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.models import Attempt, Capture
from tests.admin.conftest import EVIL, detail

pytestmark = pytest.mark.django_db

AT = 1_800_000_000.25


def line(text, level="INFO"):
    return [AT, level, "shop.tasks", text]


@pytest.fixture
def job(make_job):
    """A job that failed once and then succeeded."""
    job = make_job("SUCCESSFUL", attempt=2)
    Attempt.objects.create(job=job, number=1, kind="ERROR", decision="RETRY", message="no")
    return job


def test_each_run_has_its_lines_and_its_queries(admin_client, job):
    Capture.objects.create(job=job, number=1, lines=[line("first"), line("second", "ERROR")])
    Capture.objects.create(job=job, number=2, lines=[line("third")], queries=1234, query_seconds=0.5)

    response = admin_client.get(detail(job))

    first, second = response.context["runs"]
    assert (first.captured, second.captured) == ("2 log lines", "1 log line · 1,234 queries in 500 ms")
    text = response.content.decode()
    assert text.index("first") < text.index("second") < text.index("third")
    assert text.count('<details class="dj-captured">') == 2  # folded
    assert [(shown.level, shown.logger, shown.when[-4:]) for shown in first.log] == [
        ("INFO", "shop.tasks", ".250"),
        ("ERROR", "shop.tasks", ".250"),
    ]


@pytest.mark.parametrize(("cut_at", "place"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_what_was_cut_is_marked_in_its_place(admin_client, job, cut_at, place):
    Capture.objects.create(job=job, number=2, lines=[line("a"), line("b")], cut=1500, cut_at=cut_at)

    [_, run] = admin_client.get(detail(job)).context["runs"]

    assert [shown.text for shown in run.log][place] == "… 1,500 lines were cut …"
    assert run.captured == "1,502 log lines"


def test_a_run_without_any_says_nothing(admin_client, job):
    assert "dj-captured" not in admin_client.get(detail(job)).content.decode()


def test_they_are_for_who_may_see_arguments(client_of, job):
    Capture.objects.create(job=job, number=2, lines=[line("for-your-eyes-only")], queries=1, query_seconds=1)
    client = client_of("view_job")
    with CaptureQueriesContext(connection) as captured:
        text = client.get(detail(job)).content.decode()

    assert "for-your-eyes-only" not in text
    assert "dj-captured" not in text
    assert not [query for query in captured.captured_queries if "django_jobs_capture" in query["sql"]]


def test_they_are_escaped(admin_client, job):
    Capture.objects.create(job=job, number=2, lines=[[AT, EVIL, EVIL, EVIL]])

    assert EVIL not in admin_client.get(detail(job)).content.decode()


@pytest.mark.parametrize("odd", ["x", [1, "a"], {"a": 1}, [[1e99, "a", "b", "c"]], None])
def test_what_a_stranger_wrote_breaks_nothing(admin_client, job, odd):
    Capture.objects.create(job=job, number=2, lines=odd if odd is not None else [])

    assert admin_client.get(detail(job)).status_code == 200
