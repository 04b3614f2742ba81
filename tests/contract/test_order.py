"""Order: by priority, then by due time, then in the order of enqueueing. More: tests/store/test_claim.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from django_jobs.framework import TaskResultStatus
from django_jobs.models import Job
from django_jobs.testing import run_due
from tests.contract import tasks
from tests.eventually import eventually
from tests.worker.workers import running, settled, state_of


def heard():
    found = []
    while not tasks.seen.empty():
        found.append(tasks.seen.get_nowait())
    return found


def test_priority_goes_before_due_time_and_due_time_before_enqueueing(transactional_db):
    now = timezone.now()
    for word, priority, ago in [
        ("6", -100, 5),
        ("5", 0, 1),
        ("3", 0, 3),
        ("4", 0, 2),
        ("1", 100, 1),
        ("2", 1, 1),
    ]:
        tasks.note.using(priority=priority, run_after=now - timedelta(minutes=ago)).enqueue(word)

    with running(threads=1, async_slots=1):
        eventually(settled)

    assert heard() == ["1", "2", "3", "4", "5", "6"]


def test_jobs_that_are_alike_run_first_in_first_out(transactional_db):
    for number in range(20):
        tasks.note.enqueue(str(number))

    with running(threads=1, async_slots=1):
        eventually(settled)

    assert heard() == [str(number) for number in range(20)]


def test_none_runs_early(transactional_db):
    soon = [tasks.note.using(run_after=timedelta(milliseconds=m)).enqueue(str(m)) for m in (400, 50, 200)]
    tomorrow = tasks.note.using(run_after=timedelta(days=1)).enqueue("tomorrow")

    with running(threads=1, async_slots=1):
        eventually(lambda: all(state_of(result) == "SUCCESSFUL" for result in soon))

    for result in soon:
        result.refresh()
        assert result.started_at >= result.task.run_after
    assert heard() == ["50", "200", "400"]
    assert state_of(tomorrow) == "READY"


def test_the_year_9999_is_a_date(db):
    due = datetime(9999, 1, 1, tzinfo=UTC)
    result = tasks.note.using(run_after=due).enqueue("late")

    assert Job.objects.get().run_after == due == tasks.note.get_result(result.id).task.run_after
    assert not run_due(at=due - timedelta(microseconds=1))
    assert run_due(at=due).completed == 1
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_its_last_day_is_one_in_every_time_zone(db, zone):
    due = datetime(9999, 12, 31, 9, 59, 59, tzinfo=UTC)

    result = tasks.note.using(run_after=due).enqueue("late")

    with timezone.override(zone):
        shown = tasks.note.get_result(result.id).task.run_after
        assert timezone.localtime(shown) == due
        assert Job.objects.get().run_after == due


def test_a_past_year_is_one_too(db):
    tasks.note.using(run_after=datetime(1, 1, 3, tzinfo=UTC)).enqueue("long ago")

    assert run_due().completed == 1
