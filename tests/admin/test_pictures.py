"""The picture of a job's timeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_jobs.dashboard import pictures
from django_jobs.dashboard.pictures import WIDTH, Picture
from django_jobs.models import Attempt, Job
from tests.admin.conftest import detail

T = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def job(state="READY", *, attempt=0, due=T, **columns):
    return Job(state=state, attempt=attempt, enqueued_at=T, run_after=due, **columns)


def run(number, begin, end=None, kind="", decision="", due=None):
    minutes = [None if at is None else T + at * MINUTE for at in (begin, end, due)]
    return Attempt(
        number=number, started_at=minutes[0], ended_at=minutes[1], next_run_after=minutes[2], kind=kind,
        decision=decision,
    )  # fmt: skip


def picture(*given: Any) -> Picture:
    """Return the picture, which there is."""
    found = pictures.picture(*given)
    assert found is not None
    return found


def drawn(found):
    """Return the pieces with where they begin and how wide they are, in hundredths of the whole."""
    return [
        (p.key, round(100 * float(p.x) / WIDTH), round(100 * float(p.width) / WIDTH)) for p in found.pieces
    ]


def test_a_job_that_ran_at_once_waited_and_ran():
    found = picture(job("SUCCESSFUL", attempt=1), [run(1, 1, 4, decision="SUCCEEDED")], T + 9 * MINUTE)

    assert drawn(found) == [("ready", 0, 25), ("successful", 25, 75)]
    assert [piece.says for piece in found.pieces] == ["waits for a worker: 1 min 0 s", "Run 1: 3 min 0 s"]
    assert found.now_x == ""
    assert found.legend == [("ready", "waits for a worker"), ("successful", "successful")]


def test_retries_show_the_waits_between_them():
    runs = [
        run(1, 0, 10, "ERROR", "RETRY", due=30),
        run(2, 40, 50, "TIMEOUT", "RETRY", due=60),
        run(3, 60, 100, decision="SUCCEEDED"),
    ]

    found = picture(job("SUCCESSFUL", attempt=3, due=T + 60 * MINUTE), runs, T + 200 * MINUTE)

    assert drawn(found) == [
        ("error", 0, 10),
        ("scheduled", 10, 20),
        ("ready", 30, 10),
        ("timeout", 40, 10),
        ("scheduled", 50, 10),
        ("successful", 60, 40),
    ]


def test_a_scheduled_job_shows_what_lies_ahead_and_the_present():
    found = picture(job(due=T + 10 * MINUTE), [], T + 4 * MINUTE)

    assert drawn(found) == [("scheduled", 0, 100)]
    assert float(found.now_x) == pytest.approx(WIDTH * 0.4)


def test_a_due_job_waits_for_a_worker_until_now():
    found = picture(job(due=T + 5 * MINUTE), [], T + 10 * MINUTE)

    assert drawn(found) == [("scheduled", 0, 50), ("ready", 50, 50)]


def test_a_run_under_way_reaches_to_the_present():
    found = picture(job("RUNNING", attempt=1), [run(1, 5)], T + 10 * MINUTE)

    assert drawn(found) == [("ready", 0, 50), ("running", 50, 50)]


def test_a_run_that_took_nothing_is_seen_and_stays_within():
    runs = [run(1, 60, 60, decision="SUCCEEDED")]

    found = picture(job("SUCCESSFUL", attempt=1), runs, T + 99 * MINUTE)

    last = found.pieces[-1]
    assert float(last.width) == 4.0
    assert float(last.x) + float(last.width) <= WIDTH


def test_a_job_that_was_cancelled_while_it_waited_waited_until_then():
    finished = T + 10 * MINUTE
    never_ran = job("CANCELLED", due=T + 99 * MINUTE, finished_at=finished)
    ran_once = job("CANCELLED", attempt=1, due=T + 99 * MINUTE, finished_at=finished)

    assert drawn(picture(never_ran, [], T + 50 * MINUTE)) == [("scheduled", 0, 100)]
    assert drawn(picture(ran_once, [run(1, 0, 5, "ERROR", "RETRY", due=99)], T)) == [
        ("error", 0, 50),
        ("scheduled", 50, 50),
    ]


def test_runs_that_are_left_out_leave_no_gap_before_the_first():
    found = picture(job("FAILED", attempt=80), [run(80, 600, 660, "ERROR", "FAILED")], T + 999 * MINUTE)

    assert drawn(found) == [("error", 0, 100)]


@pytest.mark.parametrize(
    ("enqueued", "begin", "end"),
    [(9, 1, 4), (0, 4, 1), (0, 0, 0)],
    ids=["enqueued later", "backwards", "at once"],
)
def test_times_that_make_no_sense_break_no_page(enqueued, begin, end):
    made = job("SUCCESSFUL", attempt=1)
    made.enqueued_at = T + enqueued * MINUTE

    found = picture(made, [run(1, begin, end, decision="SUCCEEDED")], T)

    for piece in found.pieces:
        assert 0 <= float(piece.x) <= WIDTH
        assert 0 <= float(piece.width) <= WIDTH


@pytest.mark.django_db
@pytest.mark.parametrize(
    "state", ["READY", "SCHEDULED", "RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED", "BLOCKED"]
)
def test_every_job_s_page_has_one(viewer, make_job, state):
    job = make_job(state, enqueued_at=timezone.now() - timedelta(hours=2))

    page = viewer.get(detail(job)).content.decode()

    assert '<svg class="dj-picture"' in page
    assert "<rect " in page
