"""USE_TZ off, in time zones with and without daylight saving time: instants stay what they were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.utils import timezone

from django_jobs.framework import TaskResultStatus
from django_jobs.models import Job
from django_jobs.testing import run_due
from example_project.shop.models import Order
from tests.contract import tasks
from tests.eventually import eventually
from tests.worker.workers import job_of, running

ZONES = ["America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Kiritimati"]
SECOND = timedelta(seconds=1)


@pytest.fixture(params=ZONES)
def zone(request, settings):
    """A project without time zones, in this one."""
    settings.USE_TZ, settings.TIME_ZONE = False, request.param
    return ZoneInfo(request.param)


def instant(pk, column="run_after"):
    """Return a stored instant, by way of no time zone but UTC."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT extract(epoch FROM {column}) FROM django_jobs_job WHERE id = %s", [pk])
        return datetime.fromtimestamp(float(cursor.fetchone()[0]), UTC)


def next_change(zone):
    """Return noon of the day before the clock's next change; `None` where it has none."""
    day = datetime.now(zone).replace(hour=12, minute=0, second=0, microsecond=0)
    for _ in range(400):
        after = day + timedelta(days=1)
        if after.utcoffset() != day.utcoffset():
            return day.replace(tzinfo=None)
        day = after
    return None


def test_a_real_worker_tells_times_as_the_project_does(transactional_db, zone):
    def is_now(moment):
        return moment.tzinfo is None and abs(moment.replace(tzinfo=zone) - datetime.now(zone)) < 60 * SECOND

    with running():
        result = tasks.look.enqueue()
        context, stored = tasks.seen.get(timeout=20)
        job_of(result)

    result.refresh()
    assert is_now(result.enqueued_at)
    assert all(
        is_now(t) for t in (stored.started_at, stored.last_attempted_at, context.task_result.started_at)
    )
    assert context.task_result == stored
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert (result.status, is_now(result.finished_at)) == (TaskResultStatus.SUCCESSFUL, True)
    assert tasks.look.get_result(result.id) == result


def test_a_naive_run_after_is_the_projects_time_and_is_kept(transactional_db, zone):
    wanted = datetime(2031, 7, 1, 12, 30, 15, 123456)  # noqa: DTZ001  (as such a project writes it)
    past = datetime.now(zone).replace(tzinfo=None) - timedelta(minutes=1)

    result = tasks.noop.using(run_after=wanted).enqueue()
    with running():
        due = tasks.noop.using(run_after=past).enqueue()
        soon = tasks.noop.using(run_after=timezone.now() + timedelta(seconds=0.3)).enqueue()
        assert {job_of(due).state, job_of(soon).state} == {"SUCCESSFUL"}

    assert instant(result.id) == wanted.replace(tzinfo=zone)
    assert result.task.run_after == wanted == tasks.noop.get_result(result.id).task.run_after
    soon.refresh()
    assert soon.started_at >= soon.task.run_after


def test_at_a_change_of_the_clock_run_after_means_what_it_means_in_every_model(db, zone):
    noon = next_change(zone)
    if noon is None:
        return
    for minutes in range(0, 24 * 60, 30):
        wanted = noon + timedelta(minutes=minutes)
        order = Order.objects.create(email="a@example.com", price_cents=1)
        Order.objects.filter(pk=order.pk).update(placed_at=wanted)
        order.refresh_from_db()

        result = tasks.noop.using(run_after=wanted).enqueue()
        tasks.noop.using(run_after=wanted).enqueue_many([()])

        for job in Job.objects.order_by("-pk")[:2]:
            assert job.run_after == order.placed_at
        assert tasks.noop.get_result(result.id).task.run_after == order.placed_at


@pytest.mark.parametrize("many", [False, True], ids=["enqueue", "enqueue_many"])
def test_a_delay_over_a_change_of_the_clock_is_as_long_as_it_says(db, zone, many):
    noon = next_change(zone)
    days = 200 if noon is None else (noon - datetime.now(zone).replace(tzinfo=None)).days + 2
    later = tasks.noop.using(run_after=timedelta(days=days))

    pk = later.enqueue_many([()], ids=True)[0] if many else later.enqueue().id

    assert instant(pk) - instant(pk, "enqueued_at") == timedelta(days=days)


def test_a_retry_waits_as_long_as_it_says(transactional_db, zone):
    with running():
        result = tasks.third_time_lucky.enqueue()
        eventually(lambda: Job.objects.filter(state="READY", attempt=1).exists())

    assert abs(instant(result.id) - datetime.now(UTC) - timedelta(hours=1)) < 60 * SECOND
    assert run_due(at=timedelta(hours=1, minutes=1)).retried == 1
