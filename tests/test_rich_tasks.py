"""Rich tasks from end to end: what goes in comes out, in every way to run a job."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from django_jobs.framework import TaskResultStatus, task_finished, task_started
from django_jobs.testing import assert_enqueued, assert_not_enqueued, immediate, run_due
from tests import rich_tasks
from tests.worker.workers import job_of, running

DAY = date(2024, 2, 29)
VALUE = {"when": datetime(2024, 1, 1, tzinfo=UTC), 7: (Decimal("1.10"), b"\0"), "ids": {UUID(int=1)}}

each_task = pytest.mark.parametrize("task", rich_tasks.ECHOES, ids=lambda task: task.name)


@pytest.fixture(autouse=True)
def heard():
    """Somebody listens, so that results are built."""
    found = []

    def hear(sender, task_result, **rest):
        found.append(task_result)

    for signal in (task_started, task_finished):
        signal.connect(hear)
    yield found
    for signal in (task_started, task_finished):
        signal.disconnect(hear)


@each_task
def test_a_worker_gives_bodies_and_callers_the_values_themselves(transactional_db, task, heard):
    with running():
        result = task.enqueue(VALUE, key=DAY)
        assert job_of(result).state == "SUCCESSFUL"

    stored = task.get_result(result.id)
    assert stored.return_value == [VALUE, DAY]
    assert stored.args == result.args  # the form in which they are stored
    started, finished = heard
    assert (started.args, finished.return_value) == (result.args, [VALUE, DAY])


@each_task
def test_a_test_that_runs_what_is_due_too(db, task):
    result = task.enqueue(VALUE, key=DAY)

    run_due(raise_errors=True)

    assert task.get_result(result.id).return_value == [VALUE, DAY]


@each_task
def test_immediate_mode_too(db, task):
    with immediate(raise_errors=True):
        assert task.enqueue(VALUE, key=DAY).return_value == [VALUE, DAY]


@each_task
def test_the_immediate_backend_too(settings, task):
    settings.TASKS = {"default": {"BACKEND": "django_jobs.testing.ImmediateBackend", "QUEUES": []}}
    if task is rich_tasks.echo_with_context:
        return  # its body looks into the tables

    assert task.enqueue(VALUE, key=DAY).return_value == [VALUE, DAY]


def test_the_dummy_backend_records_the_stored_form(settings):
    settings.TASKS = {"default": {"BACKEND": "django_jobs.testing.DummyBackend", "QUEUES": []}}

    result = rich_tasks.echo.enqueue(DAY)

    assert (result.status, result.args) == (
        TaskResultStatus.READY,
        [{"$type": "date", "value": "2024-02-29"}],
    )


def test_assertions_take_the_values_themselves(db):
    rich_tasks.echo.enqueue(DAY, key={1, 2})

    assert_enqueued(rich_tasks.echo, [DAY], {"key": {2, 1}})
    assert_not_enqueued(rich_tasks.echo, [date(2024, 3, 1)])


def test_a_failure_is_told_as_ever(db):
    result = rich_tasks.fail_with.enqueue(DAY)

    run_due()

    result.refresh()
    assert (result.status, len(result.errors)) == (TaskResultStatus.FAILED, 1)
