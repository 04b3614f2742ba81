"""Construction: the backend can be made at any time, and holds nothing but its configuration."""

from __future__ import annotations

import subprocess
import sys

import pytest

from django_jobs.backend import JobsBackend
from django_jobs.framework import BaseTaskBackend, InvalidTask, task_backends
from django_jobs.models import Job
from django_jobs.tasks import JobTask
from tests.contract import tasks
from tests.contract.processes import run_python

BACKEND = "django_jobs.backend.JobsBackend"


@pytest.mark.parametrize(
    "flag", ["supports_defer", "supports_async_task", "supports_get_result", "supports_priority"]
)
def test_all_four_flags_are_true(flag):
    assert getattr(JobsBackend, flag) is True
    assert issubclass(JobsBackend, BaseTaskBackend)
    assert JobsBackend.task_class is JobTask


@pytest.mark.parametrize(
    ("params", "queues"),
    [({}, {"default"}), ({"QUEUES": []}, set()), ({"QUEUES": ["a", "b", "a"]}, {"a", "b"})],
)
def test_alias_queues_and_options_are_those_of_the_settings(params, queues):
    options = {"max_attempts": 3}

    backend = JobsBackend(alias="x", params={"BACKEND": BACKEND, "OPTIONS": options, **params})

    assert (backend.alias, backend.queues, backend.options) == ("x", queues, options)
    assert isinstance(backend.queues, set)
    assert JobsBackend("x", {"BACKEND": BACKEND}).options == {}


def test_tasks_may_be_defined_before_the_apps_are_loaded():
    """As in a `tasks.py` that a model module imports; the backend is made by the first decorator."""
    run_python(
        """
        from django.conf import settings
        settings.configure(
            TASKS={"default": {"BACKEND": "django_jobs.backend.JobsBackend", "QUEUES": ["mail"]}},
            INSTALLED_APPS=["django_jobs"],
        )
        from django.apps import apps
        from django.utils.module_loading import import_string
        from django_jobs.framework import IN_CORE
        task = import_string(("django.tasks" if IN_CORE else "django_tasks") + ".task")
        assert not apps.ready and not apps.models_ready

        @task(queue_name="mail", priority=5)
        def send(): ...

        later = send.using(priority=7)
        assert not apps.ready
        import django
        django.setup()
        assert later.get_backend().check() == [], later.get_backend().check()
        """
    )


def test_a_change_of_the_settings_makes_it_anew(project):
    before = task_backends["default"]
    project.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": ["letters"]}}

    after = task_backends["default"]

    assert after is not before
    assert after.queues == {"letters"}
    with pytest.raises(InvalidTask, match="'default' is not valid"):
        tasks.noop.enqueue()


def test_it_keeps_no_state_beside_its_configuration(db):
    one = JobsBackend("default", {"QUEUES": []})
    result = one.enqueue(tasks.noop, [1], {})

    another = JobsBackend("default", {"QUEUES": []})

    assert vars(one) | {"known": {}} == vars(another), "nothing but a cache"
    assert another.get_result(result.id) == result


def test_several_aliases_work_side_by_side(db, project):
    project.TASKS = {
        "default": {"BACKEND": BACKEND, "QUEUES": ["default"], "OPTIONS": {"max_attempts": 2}},
        "letters": {"BACKEND": BACKEND, "QUEUES": ["letters"], "OPTIONS": {"max_attempts": 9}},
    }
    with pytest.raises(InvalidTask, match="letters"):
        tasks.noop.using(queue_name="letters")

    letter = tasks.noop.using(queue_name="letters", backend="letters").enqueue("a")
    tasks.noop.enqueue("b")

    assert list(Job.objects.order_by("pk").values_list("queue_name", "max_attempts")) == [
        ("letters", 9),
        ("default", 2),
    ]
    assert (letter.backend, task_backends["letters"].get_result(letter.id)) == ("letters", letter)


def test_the_wheel_of_imports_needs_no_settings():
    subprocess.run([sys.executable, "-c", "import django_jobs.backend"], check=True, timeout=60)
