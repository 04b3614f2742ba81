"""The backend in Django's Tasks framework: with and without settings, on any alias, from async code."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction
from django.utils.connection import ConnectionDoesNotExist
from django.utils.module_loading import import_string

from django_jobs.backend import JobsBackend
from django_jobs.exceptions import UnknownSetting
from django_jobs.framework import IN_CORE, InvalidTask, TaskResultStatus, task_backends, task_enqueued
from django_jobs.models import Job
from django_jobs.tasks import JobTask, registry, task
from tests import jobs

BACKEND = "django_jobs.backend.JobsBackend"


def tasks_setting(**options):
    return {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}


class TestUnconfigured:
    def test_the_default_alias_is_ours_with_any_queue(self, db):
        assert isinstance(jobs.ok.get_backend(), JobsBackend)

        jobs.ok.using(queue_name="whatever").enqueue()

        assert Job.objects.get().queue_name == "whatever"

    def test_the_same_backend_serves_all(self):
        assert jobs.ok.get_backend() is jobs.give.get_backend()


class TestConfigured:
    def test_options_go_before_the_settings(self, db, settings):
        settings.DJANGO_JOBS = {"max_attempts": 7, "max_argument_bytes": 100}
        settings.TASKS = tasks_setting(max_attempts=2, max_argument_bytes=10)

        jobs.ok.enqueue("1234")
        with pytest.raises(ValueError, match="over the limit of 10"):
            jobs.ok.enqueue("x" * 20)

        assert Job.objects.get().max_attempts == 2

    @pytest.mark.parametrize(
        ("options", "told"), [({"max_atempts": 2}, "max_attempts"), ({"max_attempts": 0}, "from 1 to")]
    )
    def test_wrong_options_are_refused_before_any_sql(
        self, db, settings, django_assert_num_queries, options, told
    ):
        settings.TASKS = tasks_setting(**options)

        with pytest.raises(UnknownSetting, match=told), django_assert_num_queries(0):
            jobs.ok.enqueue()

    def test_settings_that_change_hold_for_the_next_job(self, db, settings):
        for attempts in (7, 3):
            settings.DJANGO_JOBS = {"max_attempts": attempts}
            jobs.ok.enqueue()
        for attempts in (8, 4):
            settings.TASKS = tasks_setting(max_attempts=attempts)
            jobs.ok.enqueue()

        assert list(Job.objects.order_by("pk").values_list("max_attempts", flat=True)) == [7, 3, 8, 4]

    def test_a_router_is_asked_for_each_job(self, db, settings):
        chosen = ["default", "elsewhere"]

        class Tenants:
            def db_for_write(self, model, **hints):
                return chosen.pop(0)

        settings.DATABASE_ROUTERS = [Tenants()]
        jobs.ok.enqueue()

        with pytest.raises(ConnectionDoesNotExist, match="elsewhere"):
            jobs.ok.enqueue()

    def test_who_writes_into_a_result_s_task_changes_no_other_job(self, db):
        jobs.ok.enqueue().task.meta["tags"] = ["mine"]  # type: ignore[attr-defined]  # any task

        jobs.ok.enqueue()

        assert jobs.ok.meta == {}
        assert [job.meta for job in Job.objects.all()] == [{}, {}]

    def test_what_is_remembered_of_tasks_is_bounded(self, db, monkeypatch):
        monkeypatch.setattr("django_jobs.backend.MOST_KNOWN", 3)
        backend = jobs.ok.get_backend()
        assert isinstance(backend, JobsBackend)

        for priority in range(10):
            jobs.ok.using(priority=priority).enqueue()
            jobs.ok.using(priority=priority, run_after=timedelta(hours=1)).enqueue()

        assert len(backend.known) <= 3
        assert list(Job.objects.order_by("pk").values_list("priority", flat=True)[::2]) == list(range(10))

    def test_queues_may_be_named(self, settings):
        settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": ["default"]}}

        with pytest.raises(InvalidTask, match="mail"):
            jobs.ok.using(queue_name="mail")

    def test_several_aliases_may_be_ours(self, db, settings):
        settings.TASKS = {
            name: {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"max_attempts": attempts}}
            for name, attempts in [("default", 1), ("patient", 9)]
        }

        result = jobs.ok.using(backend="patient").enqueue()

        assert Job.objects.get().max_attempts == 9
        assert result.backend == "patient"
        assert task_backends["patient"].get_result(result.id) == result

    def test_other_backends_work_beside_it(self, db, settings):
        module = JobsBackend.__mro__[1].__module__.rpartition(".")[0]
        settings.TASKS = {
            "default": {"BACKEND": BACKEND, "QUEUES": []},
            "dummy": {"BACKEND": f"{module}.dummy.DummyBackend", "QUEUES": []},
        }
        elsewhere = jobs.ok.using(backend="dummy")

        elsewhere.enqueue()

        assert not Job.objects.exists()
        with pytest.raises(TypeError, match="no enqueue_many"):
            elsewhere.enqueue_many([()])


class TestAsync:
    def test_jobs_are_enqueued_and_looked_up(self, transactional_db):
        async def view():
            result = await jobs.give.aenqueue(1)
            await jobs.give.aenqueue_many([(2,), (3,)])
            return await jobs.give.aget_result(result.id)

        result = async_to_sync(view)()

        assert (result.status, result.args) == (TaskResultStatus.READY, [1])
        assert Job.objects.count() == 3

    def test_inside_of_a_transaction_of_sync_code(self, transactional_db):
        async def view():
            await jobs.ok.aenqueue()

        with transaction.atomic():
            async_to_sync(view)()
            assert Job.objects.count() == 1
            transaction.set_rollback(True)

        assert not Job.objects.exists()

    def test_from_sync_code_inside_of_async_code(self, transactional_db):
        def enqueue():
            with transaction.atomic():
                return jobs.ok.enqueue()

        async def view():
            return await sync_to_async(enqueue, thread_sensitive=True)()

        assert async_to_sync(view)().status == TaskResultStatus.READY

    def test_refusals_are_the_same(self, db):
        with pytest.raises(ValueError, match="nan"):
            asyncio.run(jobs.ok.aenqueue(float("nan")))


class TestSignals:
    def test_each_job_is_told_of_with_its_result(self, db):
        told = []

        def receive(sender, task_result, **kwargs):
            told.append((sender, task_result))

        task_enqueued.connect(receive)
        try:
            result = jobs.ok.enqueue(1)
            jobs.ok.enqueue_many([(2,), (3,)])
        finally:
            task_enqueued.disconnect(receive)

        assert [(sender, found.args) for sender, found in told] == [(JobsBackend, [n]) for n in (1, 2, 3)]
        assert told[0][1] == result

    def test_receivers_that_raise_harm_nothing(self, db):
        def receive(**kwargs):
            raise jobs.Unwell

        task_enqueued.connect(receive)
        try:
            jobs.ok.enqueue()
        finally:
            task_enqueued.disconnect(receive)

        assert Job.objects.exists()


def local_name_taken():
    """Do nothing; the name is bound to something else below."""


taken = task(local_name_taken)
nameless = lambda: None  # noqa: E731  (that is the point)


class TestTasksThatWorkersCanNotFind:
    def test_are_refused_before_any_sql(self, db, django_assert_num_queries):
        for call in (taken.enqueue, lambda: taken.enqueue_many([()])):
            with pytest.raises(InvalidTask, match="name of its own"), django_assert_num_queries(0):
                call()

    def test_are_those_inside_of_functions(self):
        def inner():
            pass

        with pytest.raises(InvalidTask, match="module level"):
            task(inner)

    def test_are_lambdas(self):
        with pytest.raises(InvalidTask, match="lambda"):
            task(nameless)


def by_django():
    """Be made a task by Django's own decorator."""


def test_djangos_own_decorator_makes_our_tasks(settings):
    settings.TASKS = tasks_setting()
    django_task = import_string(f"{'django.tasks' if IN_CORE else 'django_tasks'}.task")

    made = django_task(queue_name="mail", priority=3)(by_django)

    assert isinstance(made, JobTask)
    assert registry.pop("tests.test_backend.by_django") is made
