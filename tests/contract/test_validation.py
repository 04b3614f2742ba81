"""validate_task: what is refused, and that it is refused at definition, by `using()` and again at enqueue."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import django
import pytest
from django.apps import apps
from django.utils import timezone

import django_jobs
from django_jobs.framework import IN_CORE, InvalidTask, TaskResultStatus, task_backends
from django_jobs.models import Job
from django_jobs.tasks import JobTask, registry
from tests.contract import tasks
from tests.contract.tasks import django_task

our_task: Any = django_jobs.task
AWARE = datetime(2031, 1, 1, tzinfo=UTC)
NAIVE = datetime(2031, 1, 1)  # noqa: DTZ001  (that is the point)


@pytest.fixture(autouse=True)
def kept_registry():
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


def plain() -> None: ...


def with_context(context: Any) -> None: ...


def context_second(first: Any, context: Any) -> None: ...


def rebound() -> None: ...


nameless = lambda: None  # noqa: E731  (that is the point)


class Holder:
    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...

    def __call__(self) -> None: ...


def made_inside() -> Any:
    def inner() -> None: ...

    return inner


BAD_FUNCTIONS = {
    "builtin": any,
    "class": Holder,
    "callable object": Holder(),
    "bound method": Holder().method,
    "method": Holder.method,
    "static method": Holder.static,
    "nested": made_inside(),
    "lambda": nameless,
}


class TestFunctions:
    @pytest.mark.parametrize("function", BAD_FUNCTIONS.values(), ids=BAD_FUNCTIONS)
    @pytest.mark.parametrize("decorator", [django_task, our_task], ids=["django", "ours"])
    def test_only_plain_ones_at_module_level_are_tasks(self, decorator, function):
        with pytest.raises(InvalidTask, match=r"module level|is a lambda"):
            decorator()(function)

    def test_one_that_is_not_found_under_its_name_is_refused_at_enqueue(self, db):
        """Which can't be known before: at its definition its module isn't there yet."""
        elsewhere = django_task(rebound)

        for call in (elsewhere.enqueue, lambda: asyncio.run(elsewhere.aenqueue())):
            with pytest.raises(InvalidTask, match=r"test_validation\.rebound.*name of its own"):
                call()
        assert not Job.objects.exists()

    def test_sync_and_async_ones_are_fine(self):
        assert django_task(plain).func is plain
        assert tasks.double.is_async


class TestContext:
    def test_comes_first(self):
        assert django_task(takes_context=True)(with_context).takes_context

    @pytest.mark.parametrize("function", [plain, context_second])
    def test_elsewhere_is_refused(self, function):
        with pytest.raises(InvalidTask, match="context"):
            django_task(takes_context=True)(function)


PRIORITIES = [-101, 101, 3.5, float("nan"), float("inf"), "5", None, 10**30, [1]]


class TestPriority:
    @pytest.mark.parametrize("priority", [-100, -1, 0, 1, 100, 5.0, Decimal(7)])
    def test_is_a_whole_number_from_minus_to_plus_a_hundred(self, db, priority):
        django_task(priority=priority)(plain)

        tasks.noop.using(priority=priority).enqueue()

        assert Job.objects.get().priority == priority

    @pytest.mark.parametrize("priority", PRIORITIES, ids=str)
    def test_is_nothing_else(self, priority):
        with pytest.raises(InvalidTask, match="priority must be a whole number between -100 and 100"):
            django_task(priority=priority)(plain)
        if priority is not None:  # which means: keep
            with pytest.raises(InvalidTask, match="priority"):
                tasks.noop.using(priority=priority)


class TestRunAfter:
    def test_is_aware_where_time_zones_are_used(self):
        assert tasks.noop.using(run_after=AWARE).run_after == AWARE
        with pytest.raises(InvalidTask, match="aware"):
            tasks.noop.using(run_after=NAIVE)

    def test_may_be_naive_where_they_are_not(self, settings):
        settings.USE_TZ = False

        assert tasks.noop.using(run_after=NAIVE).run_after == NAIVE

    @pytest.mark.parametrize("run_after", ["tomorrow", 60, date(2031, 1, 1), 1.5])
    def test_is_a_datetime_or_a_timedelta(self, run_after):
        with pytest.raises(InvalidTask, match="run_after must be a datetime, a timedelta or None"):
            tasks.noop.using(run_after=run_after)

    def test_may_be_a_timedelta(self, db):
        result = tasks.noop.using(run_after=timedelta(minutes=5)).enqueue()

        assert result.task.run_after - result.enqueued_at == timedelta(minutes=5)
        assert tasks.noop.get_result(result.id) == result

    def test_a_timedelta_is_also_taken_by_our_task_on_a_backend_of_djangos(self):
        before = timezone.now()

        result = tasks.noop.using(backend="dummy", run_after=timedelta(minutes=5)).enqueue()

        assert result.task.run_after >= before + timedelta(minutes=5)

    def test_is_no_option_of_the_decorator(self):
        """Django 6.0's own decorator, like the backport's, says so only as a wrong keyword."""
        for decorator in (django_task, our_task):
            with pytest.raises(TypeError, match=r"run_after|multiple values"):
                decorator(run_after=AWARE)(plain)


NAMES = ["", "a\0b", "\ud800", "x" * 129, 7, None, b"mail", ["mail"]]


class TestQueue:
    def test_is_one_of_the_backends(self):
        assert django_task(queue_name="mail")(plain).queue_name == "mail"
        with pytest.raises(InvalidTask, match="'letters' is not valid"):
            django_task(queue_name="letters")(plain)

    def test_is_any_where_the_backend_lists_none(self):
        assert tasks.noop.using(backend="any", queue_name="letters").queue_name == "letters"

    @pytest.mark.parametrize("name", ["x" * 128, "日本 語/+!", "é"])
    def test_may_have_128_characters_of_any_kind(self, db, name):
        result = tasks.noop.using(backend="any", queue_name=name).enqueue()

        assert Job.objects.get().queue_name == name
        assert task_backends["any"].get_result(result.id).task.queue_name == name

    @pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:10])
    def test_that_no_queue_can_have_is_refused_at_definition(self, name):
        with pytest.raises(InvalidTask, match="queue_name"):
            django_task(backend="any", queue_name=name)(plain)
        if name is not None:
            with pytest.raises(InvalidTask, match="queue_name"):
                tasks.noop.using(backend="any", queue_name=name)


class TestAgainAtEnqueue:
    """The settings may have changed since the task was defined, and `run_after` is old."""

    def test_an_unknown_queue(self, db, project, django_assert_num_queries):
        mail = tasks.noop.using(queue_name="mail")
        project.TASKS = {**tasks.TASKS, "default": {**tasks.TASKS["default"], "QUEUES": ["default"]}}

        for call in (mail.enqueue, lambda: asyncio.run(mail.aenqueue()), lambda: mail.enqueue_many([()])):
            with pytest.raises(InvalidTask, match="mail"), django_assert_num_queries(0):
                call()

    def test_a_naive_time(self, db, settings, django_assert_num_queries):
        settings.USE_TZ = False
        later = tasks.noop.using(run_after=NAIVE)
        settings.USE_TZ = True

        with pytest.raises(InvalidTask, match="aware"), django_assert_num_queries(0):
            later.enqueue()


class TestExtraOptions:
    """Options of ours, beyond Django's, on each version and each backend."""

    OPTIONS: dict[str, Any] = {"max_attempts": 3, "timeout": timedelta(seconds=5), "meta": {"a": 1}}

    @pytest.mark.skipif(django.VERSION[:2] == (6, 0), reason="Django 6.0's own decorator takes none")
    def test_djangos_own_decorator_takes_them(self):
        made = django_task(**self.OPTIONS)(plain)

        assert isinstance(made, JobTask)
        assert (made.max_attempts, made.timeout, made.meta) == tuple(self.OPTIONS.values())

    @pytest.mark.skipif(django.VERSION[:2] != (6, 0), reason="only Django 6.0's own decorator takes none")
    def test_on_django_6_0_they_are_an_error_at_import(self):
        with pytest.raises(TypeError, match="max_attempts"):
            django_task(**self.OPTIONS)

    def test_ours_takes_them_everywhere(self):
        made = our_task(**self.OPTIONS)(plain)

        assert (made.max_attempts, made.timeout, made.meta) == tuple(self.OPTIONS.values())

    @pytest.mark.parametrize("kind", ["DummyBackend", "ImmediateBackend"])
    def test_our_test_backends_take_them(self, project, kind):
        project.TASKS = {"default": {"BACKEND": f"django_jobs.testing.{kind}", "QUEUES": []}}
        made = our_task(**self.OPTIONS)(noted)
        if django.VERSION[:2] != (6, 0):
            assert django_task(**self.OPTIONS)(noted) == made

        result = tasks.note.using(max_attempts=3).enqueue("word")

        expected = {"DummyBackend": TaskResultStatus.READY, "ImmediateBackend": TaskResultStatus.SUCCESSFUL}
        assert result.status == expected[kind]

    @pytest.mark.parametrize("kind", ["dummy.DummyBackend", "immediate.ImmediateBackend"])
    def test_our_decorator_brings_them_to_djangos_test_backends_too(self, project, kind):
        module = "django.tasks" if IN_CORE else "django_tasks"
        project.TASKS = {"default": {"BACKEND": f"{module}.backends.{kind}", "QUEUES": []}}

        made = our_task(**self.OPTIONS)(noted)

        assert made.max_attempts == 3
        assert made.enqueue().status in (TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL)

    def test_an_unknown_one_is_refused_with_a_suggestion(self):
        with pytest.raises(TypeError, match=r"max_atempts.*'max_attempts'"):
            our_task(max_atempts=3)(plain)
        if django.VERSION[:2] != (6, 0):
            with pytest.raises(TypeError, match="max_atempts"):
                django_task(max_atempts=3)(plain)


def noted() -> None: ...


class TestPlainTasks:
    """A task of Django's that was defined for another backend, and is sent to ours."""

    @pytest.fixture
    def plain_task(self, project, monkeypatch):
        project.TASKS = {**tasks.TASKS, "default": tasks.TASKS["dummy"], "ours": tasks.TASKS["any"]}
        made = django_task(priority=3)(plain)
        assert not isinstance(made, JobTask)
        monkeypatch.setitem(globals(), "plain", made)
        return made

    def test_is_enqueued_and_run(self, db, plain_task):
        from django_jobs.testing import run_due

        result = plain_task.using(backend="ours", queue_name="mail").enqueue()

        job = Job.objects.get()
        assert (job.queue_name, job.priority, job.task_path) == ("mail", 3, plain_task.module_path)
        assert (result.backend, result.task.func) == ("ours", plain_task.func)
        assert run_due(raise_errors=True).completed == 1
        assert task_backends["ours"].get_result(result.id).status == TaskResultStatus.SUCCESSFUL

    def test_is_known_to_workers_that_find_it(self, plain_task, monkeypatch):
        from django_jobs import discovery
        from tests.scenarios import tasks as module_of_an_app

        monkeypatch.setattr(module_of_an_app, "plain_one", plain_task, raising=False)
        monkeypatch.setattr(apps, "get_app_configs", lambda: [type("App", (), {"name": "tests.scenarios"})])

        discovery.discover()

        assert registry[plain_task.module_path].func is plain_task.func
