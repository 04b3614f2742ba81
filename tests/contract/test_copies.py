"""Tasks and results can be pickled, copied and made dicts of, on every version of Django."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.core.cache.backends.locmem import LocMemCache

from django_jobs import Constant
from django_jobs.framework import TaskResultStatus, task_backends
from django_jobs.tasks import JobTask
from django_jobs.testing import run_due
from tests import rich_tasks
from tests.contract import tasks
from tests.rows import row

LATER = datetime(2031, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

TASKS = {
    "plain": lambda: tasks.noop,
    "async": lambda: tasks.double,
    "used": lambda: tasks.noop.using(priority=5, queue_name="mail", run_after=LATER),
    "with a delay": lambda: tasks.noop.using(run_after=HOUR),
    "with options of ours": lambda: tasks.noop.using(max_attempts=None, meta={"tags": ["a", {"b": 1}]}),
    "with a policy": lambda: dataclasses.replace(tasks.noop, backoff=Constant(HOUR), fail_on=(KeyError,)),
    "rich": lambda: rich_tasks.echo,
}


def pickled(protocol: int) -> Any:
    return lambda value: pickle.loads(pickle.dumps(value, protocol=protocol))


WAYS = {
    **{f"pickle {protocol}": pickled(protocol) for protocol in (2, 4, 5)},
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}

each_way = pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)


@each_way
@pytest.mark.parametrize("make", TASKS.values(), ids=TASKS)
def test_a_copy_of_a_task_is_equal_in_every_field(make, again):
    task = make()

    found = again(task)

    assert found == task
    assert type(found) is JobTask
    assert {f.name: getattr(found, f.name) for f in dataclasses.fields(task)} == {
        f.name: getattr(task, f.name) for f in dataclasses.fields(task)
    }
    assert found.func is task.func


def test_a_deep_copy_shares_nothing_that_can_change():
    task = tasks.noop.using(meta={"tags": []})

    copy.deepcopy(task).meta["tags"].append("x")

    assert task.meta == {"tags": []}


def ready():
    return tasks.noop.using(priority=3, meta={"a": 1}).enqueue([1], key={"b": 2})


def ended(task, *args):
    result = task.enqueue(*args)
    run_due()
    result.refresh()
    return result


RESULTS = {
    "ready": (ready, TaskResultStatus.READY),
    "successful": (lambda: ended(tasks.give, "emoji"), TaskResultStatus.SUCCESSFUL),
    "failed": (lambda: ended(tasks.fail, "group"), TaskResultStatus.FAILED),
    "rich": (lambda: ended(rich_tasks.echo, date(2024, 1, 1)), TaskResultStatus.SUCCESSFUL),
    "of a removed task": (
        lambda: task_backends["default"].get_result(str(row(task_path="shop.tasks.gone", args=[1]).pk)),
        TaskResultStatus.READY,
    ),
    "of a queue that is gone": (
        lambda: tasks.noop.get_result(
            str(row(task_path=tasks.noop.module_path, queue_name="gone", priority=500).pk)
        ),
        TaskResultStatus.READY,
    ),
}


@each_way
@pytest.mark.parametrize(("make", "status"), RESULTS.values(), ids=RESULTS)
def test_a_copy_of_a_result_is_equal_in_every_field(db, make, status, again):
    result = make()
    assert result.status == status

    found = again(result)

    assert found == result
    for name in [f.name for f in dataclasses.fields(result)]:
        assert getattr(found, name) == getattr(result, name)
    found.refresh()
    assert found == result


@pytest.mark.parametrize(("make", "status"), RESULTS.values(), ids=RESULTS)
def test_a_result_can_be_made_a_dict(db, make, status):
    result = make()

    found = dataclasses.asdict(result)

    assert found["id"] == result.id
    assert found["status"] == status
    assert found["task"]["func"] is result.task.func
    assert found["task"]["meta"] == result.task.meta
    assert json.dumps(
        {name: found[name] for name in ("id", "status", "args", "kwargs", "errors", "worker_ids")}
    )


def test_a_result_may_lie_in_the_cache(db):
    cache = LocMemCache("contract", {})
    result = ready()

    cache.set("result", result)

    assert cache.get("result") == result


def test_a_pickled_task_that_is_gone_says_so():
    data = pickle.dumps(tasks.noop).replace(b"tests.contract.tasks.noop", b"tests.contract.tasks.nope")

    with pytest.raises(
        ValueError, match=r"Expected 'tests\.contract\.tasks\.nope' to point to a Task instance"
    ):
        pickle.loads(data)


def test_a_pickled_task_outlives_the_settings_it_was_made_under(project):
    data = pickle.dumps(tasks.noop.using(queue_name="mail"))
    project.TASKS = {**tasks.TASKS, "default": {**tasks.TASKS["default"], "QUEUES": ["default"]}}

    assert pickle.loads(data).queue_name == "mail"
