"""Rows and users for the tests of the admin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone, translation

from django_jobs.models import Attempt, Job, Stat, Worker
from django_jobs.store.statistics import Tally

JOBS = "/admin/django_jobs/job/"
QUEUES = "/admin/django_jobs/queue/"
WORKERS = "/admin/django_jobs/worker/"
OVERVIEW = "/admin/django_jobs/overview/"
TASKS = "/admin/django_jobs/knowntask/"
ACTIONS = ("retry", "cancel", "run", "delete")
EVIL = """<script>alert("x")</script><img src=x onerror='alert(1)'>"""

MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def in_english() -> Iterator[None]:
    """Have no test speak the language of another one's visitor, which Django leaves in force."""
    with translation.override("en"):
        yield


@pytest.fixture
def make_job(db: None) -> MakeJob:
    """Create a job in a state with what belongs to it."""

    def make(state: str = "READY", **columns: Any) -> Job:
        now = timezone.now()
        belongs: dict[str, Any] = {
            "queue_name": "default",
            "task_path": "shop.tasks.send_receipt",
            "max_attempts": 5,
        }
        if state == "SCHEDULED":
            belongs |= {"run_after": now + timedelta(hours=1)}
        elif state == "RETRYING":
            belongs |= {"run_after": now + timedelta(hours=1), "attempt": 1}
        elif state == "RUNNING":
            belongs |= {"attempt": 1, "worker": 1, "last_attempted_at": now, "started_at": now}
        elif state in ("SUCCESSFUL", "FAILED", "CANCELLED"):
            belongs |= {"attempt": 1, "finished_at": now, "last_attempted_at": now - timedelta(seconds=2)}
        stored = {"SCHEDULED": "READY", "RETRYING": "READY"}.get(state, state)
        return Job.objects.create(**belongs | {"state": stored} | columns)

    return make


@pytest.fixture
def put(db):
    """Write figures of a minute and of an hour, as workers do."""

    def put(ago=timedelta(0), seconds=(60, 3600), queue="mail", task="shop.tasks.send", lengths=(), **counts):
        tally = Tally()
        for waited, ran in lengths:
            tally.took(waited, ran)
        for length in seconds:
            Stat.objects.create(
                seconds=length,
                at=timezone.now().replace(second=0, microsecond=0) - ago,
                queue_name=queue,
                task_path=task,
                waits=tally.waits,
                runs=tally.runs,
                **counts,
            )

    return put


@pytest.fixture
def make_worker(db: None) -> Callable[..., Worker]:
    """Create the row of a worker that lives, or that was last heard of some seconds ago."""

    def make(silent: float = 0, **columns: Any) -> Worker:
        heard = timezone.now() - timedelta(seconds=silent)
        row: dict[str, Any] = {"name": "w", "host": "host", "pid": 7, "threads": 8, "heartbeat_at": heard}
        return Worker.objects.create(**row | columns)

    return make


@pytest.fixture
def client_of(db: None) -> Callable[..., Client]:
    """Sign in a member of staff with the permissions of this app that are named."""

    def sign_in(*codenames: str, enforce_csrf_checks: bool = False) -> Client:
        user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True)
        found = Permission.objects.filter(content_type__app_label="django_jobs", codename__in=codenames)
        assert found.count() == len(codenames)
        user.user_permissions.set(found)
        client = Client(enforce_csrf_checks=enforce_csrf_checks)
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def viewer(client_of: Callable[..., Client]) -> Client:
    """Someone who may see everything but the arguments, and do nothing."""
    return client_of("view_job", "view_overview", "view_queue", "view_worker")


@pytest.fixture
def evil_job(make_job: MakeJob) -> Job:
    """A failed job with markup in every text."""
    job = make_job(
        "FAILED",
        queue_name=EVIL,
        task_path=EVIL,
        args=[EVIL],
        kwargs={EVIL: EVIL},
        meta={EVIL: EVIL},
        return_value=EVIL,
        reason=EVIL,
    )
    Attempt.objects.create(
        job=job,
        number=1,
        worker=1,
        kind="ERROR",
        decision="FAILED",
        exception_class=EVIL,
        message=EVIL,
        traceback=EVIL,
    )
    return job


def one(job: Job, action: str) -> str:
    """Return the address of the page that asks about one job."""
    return f"{JOBS}{action}/{job.pk}/"


def detail(job: Job) -> str:
    return f"{JOBS}{job.pk}/change/"


def texts(response: Any) -> list[str]:
    """Return the messages on a page."""
    return [str(message) for message in response.context["messages"]]


def listed(response: Any) -> list[int]:
    """Return the ids of the jobs on a list."""
    return [job.pk for job in response.context["cl"].result_list]
