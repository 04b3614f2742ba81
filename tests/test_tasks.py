"""The decorator and its options."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_jobs import Constant, JobTask, task
from django_jobs.framework import InvalidTask
from django_jobs.tasks import UNSET, registry
from tests import jobs

DAY = timedelta(days=1)


def plain() -> None:
    pass


def with_context(context: Any, value: int) -> None:
    pass


async def awaited() -> None:
    pass


@pytest.fixture(autouse=True)
def kept_registry():
    """Take out of the registry what a test entered."""
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


class TestDecorator:
    def test_works_with_and_without_options(self):
        assert isinstance(task(plain), JobTask)
        assert isinstance(task()(plain), JobTask)
        assert task(queue_name="mail", priority=7)(plain).queue_name == "mail"

    def test_enters_the_task_under_its_path(self):
        made = task(plain)

        assert registry["tests.test_tasks.plain"] is made
        assert made.module_path == "tests.test_tasks.plain"

    def test_leaves_the_function_callable(self):
        assert jobs.give.func(3) == 3
        assert jobs.give.call(3) == 3
        assert asyncio.run(jobs.agive.func(3)) == 3

    def test_knows_async_bodies(self):
        assert task(awaited).is_async
        assert not task(plain).is_async

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"max_atempts": 3}, "no option 'max_atempts'.*'max_attempts'"),
            ({"queue": "x"}, "no option 'queue'"),
            ({"run_after": DAY}, "using"),
        ],
    )
    def test_refuses_options_that_there_are_not(self, options, told):
        with pytest.raises(TypeError, match=told):
            task(**options)(plain)

    @pytest.mark.parametrize("given", ["mail", 5, DAY, {"queue_name": "mail"}, []])
    def test_says_that_it_takes_options_by_name(self, given):
        with pytest.raises(TypeError, match=r"takes its options by name: @task\(queue_name=") as raised:
            task(given)

        assert repr(given) in str(raised.value)

    @pytest.mark.parametrize(
        "options",
        [
            {"max_attempts": 0},
            {"max_attempts": 2**31},
            {"max_attempts": True},
            {"max_attempts": 1.0},
            {"backoff": 30},
            {"backoff": Constant},
            {"retry_on": ValueError},
            {"retry_on": ("ValueError",)},
            {"fail_on": (ValueError("x"),)},
            {"timeout": 30},
            {"timeout": timedelta(0)},
            {"timeout": timedelta.max},
            {"keep_successful": -DAY},
            {"keep_failed": 5},
            {"keep_failed": timedelta.max},
            {"meta": ["tag"]},
            {"priority": 101},
            {"queue_name": ""},
            {"encoding": "pickle"},
        ],
        ids=str,
    )
    def test_refuses_values_by_the_name_of_their_option(self, options):
        [name] = options

        with pytest.raises(InvalidTask, match=name):
            task(**options)(plain)

    def test_takes_the_values_that_mean_for_ever_and_at_once(self):
        made = task(max_attempts=None, timeout=None, keep_successful=timedelta(0), keep_failed=None)(plain)

        assert (made.max_attempts, made.timeout, made.keep_failed) == (None, None, None)
        assert task(plain).max_attempts is UNSET

    def test_refuses_a_path_that_no_row_takes(self, monkeypatch):
        monkeypatch.setattr(plain, "__qualname__", "x" * 500)

        with pytest.raises(
            InvalidTask, match=r"^The dotted path of task tests\.test_tasks\.xxx.* has 517 characters"
        ):
            task(plain)

    def test_refuses_async_transactions(self):
        with pytest.raises(InvalidTask, match="async and transactional"):
            task(transactional=True)(awaited)

    def test_wants_the_context_first(self):
        task(takes_context=True)(with_context)
        with pytest.raises(InvalidTask, match="context"):
            task(takes_context=True)(plain)


class TestUsing:
    def test_changes_a_copy(self):
        changed = jobs.ok.using(priority=5, max_attempts=None)

        assert (changed.priority, changed.max_attempts) == (5, None)
        assert (jobs.ok.priority, jobs.ok.max_attempts) == (0, UNSET)
        assert changed.func is jobs.ok.func

    def test_leaves_the_registered_task_as_it_is(self):
        jobs.ok.using(priority=5)

        assert registry["tests.jobs.ok"] is jobs.ok

    def test_can_be_repeated(self):
        due = datetime(2031, 1, 1, tzinfo=UTC)

        changed = jobs.ok.using(run_after=due).using(priority=1)

        assert (changed.run_after, changed.priority) == (due, 1)

    def test_takes_names_only(self):
        with pytest.raises(TypeError):
            jobs.ok.using(5)  # type: ignore[call-arg]


class TestValues:
    def test_tasks_compare_and_hash(self):
        assert jobs.ok == jobs.ok.using()
        assert jobs.ok != jobs.ok.using(priority=1)
        assert len({jobs.ok, jobs.ok.using(), jobs.ok.using(meta={"a": 1})}) == 2

    def test_tasks_can_be_pickled(self):
        for made in (jobs.fail, jobs.ok.using(priority=3, run_after=DAY, meta={"a": [1]})):
            again = pickle.loads(pickle.dumps(made))

            assert again == made
            assert again.func is made.func

    def test_a_pickled_task_that_is_gone_says_so(self):
        data = pickle.dumps(jobs.ok).replace(b"tests.jobs.ok", b"tests.jobs.xx")

        with pytest.raises(ValueError, match=r"tests\.jobs\.xx"):
            pickle.loads(data)
