"""A browser, who sits before it, the pages to look at, and real workers on the site's database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Lock
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core.signals import request_finished, request_started
from django.db import connection
from django.test import Client
from django.utils import timezone

from django_jobs import working_off
from django_jobs.captures import Capture
from django_jobs.models import Attempt, Job, Queue, Worker
from tests.admin.conftest import (  # noqa: F401  (fixtures)
    JOBS,
    OVERVIEW,
    QUEUES,
    TASKS,
    WORKERS,
    detail,
    in_english,
    make_job,
    make_worker,
    one,
    put,
)
from tests.browser import tasks
from tests.browser.driving import chromium_running
from tests.eventually import eventually
from tests.scenarios.harness import Processes

BULKS = "/admin/django_jobs/bulkaction/"
SEES = ("view_job", "view_overview", "view_queue", "view_worker", "view_knowntask")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser of this process."""
    with chromium_running() as browser:
        yield browser


@pytest.fixture
def ada(transactional_db) -> User:
    """Someone who may do everything."""
    return User.objects.create_superuser("ada", password="ada")


@pytest.fixture
def vera(transactional_db) -> User:
    """Someone who may see everything but arguments, and do nothing."""
    user = User.objects.create_user("vera", password="vera", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=SEES))
    return user


@pytest.fixture
def stranger(transactional_db) -> User:
    """Someone of the staff who has nothing to do with jobs."""
    return User.objects.create_user("sam", password="sam", is_staff=True)


class Complaints(list[str]):
    """What the browser has to say against the pages: errors, refused scripts and styles, missing files."""

    def watch(self, page: Any) -> None:
        page.on("console", self.told)
        page.on("pageerror", lambda error: self.append(f"{page.url}: {error}"))
        page.on("requestfailed", lambda request: self.failed(request))

    def told(self, message: Any) -> None:
        icon = message.location["url"].endswith("/favicon.ico")  # the site's, which may have none
        if message.type in ("error", "warning") and not icon:
            self.append(message.text)

    def failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # left for another page
            self.append(f"{request.url}: {request.failure}")


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """All that the browser had to complain of: nothing, at the end of each test."""
    complaints = Complaints()
    yield complaints
    assert complaints == []


@pytest.fixture
def requests_answered(live_server) -> Iterator[None]:
    """Waits at the end for requests whose window is closed, but which the site is still at."""
    at = Counter[str]()
    lock = Lock()

    def begun(**_: Any) -> None:
        with lock:
            at["begun"] += 1

    def ended(**_: Any) -> None:
        with lock:
            at["ended"] += 1

    request_started.connect(begun)
    request_finished.connect(ended)
    yield
    eventually(lambda: at["begun"] == at["ended"])
    request_started.disconnect(begun)
    request_finished.disconnect(ended)


@pytest.fixture
def visit(chromium, live_server, requests_answered, complaints) -> Iterator[Callable[..., Any]]:
    """Opens a window for someone who has signed in, or for nobody in particular: a page of Playwright's."""
    windows = []

    def visit(user: User | None = None, **options: Any) -> Any:
        window = chromium.new_context(base_url=live_server.url, **options)
        windows.append(window)
        window.on("page", complaints.watch)
        if user is not None:
            client = Client()
            client.force_login(user)
            value = client.cookies[settings.SESSION_COOKIE_NAME].value
            window.add_cookies(
                [{"name": settings.SESSION_COOKIE_NAME, "value": value, "url": live_server.url}]
            )
        page = window.new_page()
        page.set_default_timeout(10_000)
        return page

    yield visit
    for window in windows:
        for page in window.pages:
            page.goto("about:blank")  # so that it asks for nothing any more
        window.close()


@pytest.fixture
def runjobs(transactional_db, tmp_path) -> Iterator[Processes]:
    """Starts `runjobs` on the site's database, and ends it before that is emptied."""
    starter = Processes(
        tmp_path, {"SCENARIO_DATABASE": connection.settings_dict["NAME"], "SCENARIO_APPS": "tests.browser"}
    )
    yield starter
    starter.close()


@pytest.fixture
def pages(transactional_db, make_job, make_worker, put) -> dict[str, str]:  # noqa: F811
    """Rows that have every part of every page shown, and the address of each page by its name."""
    now = timezone.now()
    worker: Worker = make_worker(
        queues=["mail"], name="mailer", ending="", supervisor="host:1:a", takes_requests=True
    )
    make_worker(silent=300, name="silent")
    failed: Job = make_job(
        "FAILED",
        kwargs={"a": [1]},
        reason="Down: no",
        queue_name="mail",
        enqueued_at=now - timedelta(hours=1),
    )
    Attempt.objects.create(
        job=failed, number=1, worker=worker.pk, kind="ERROR", decision="FAILED",
        exception_class="shop.Down", message="no", traceback="Traceback …\nshop.Down: " + "no " * 90,
        started_at=now, ended_at=now,
    )  # fmt: skip
    Capture.objects.create(
        job=failed, number=1, queries=3, query_seconds=0.2,
        lines=[[now.timestamp(), "WARNING", "shop", "as it " + "were " * 60]],
    )  # fmt: skip
    waiting: Job = make_job(
        queue_name="lonely",
        task_path="shop.reports.nightly.write_accounts_of_all_subsidiaries_as_csv",
        run_after=now - timedelta(minutes=3),
    )
    others = {
        state: make_job(state, worker=worker.pk)
        for state in ("SCHEDULED", "RETRYING", "RUNNING", "SUCCESSFUL", "CANCELLED")
    }
    Queue.objects.create(name="paused", paused_at=now, paused_by="ada", pause_reason="no")
    put(queue="mail", completed=5, failed=2, retried=1, lengths=[(1.0, 1.0)])
    bulk = working_off.ask_for(
        "retry", {}, {"labels": ["failed"]}, alias="default", matching="state=failed", per_second=10,
        total=40, is_estimate=True,
    )  # fmt: skip
    return {
        "index": "/admin/",
        "app": "/admin/django_jobs/",
        "overview": OVERVIEW,
        "jobs": f"{JOBS}?tag=vip",
        "failed": f"{JOBS}?state=failed",
        "job": detail(failed),
        "waiting": detail(waiting),
        "history": f"{JOBS}{failed.pk}/history/",
        "queues": QUEUES,
        "queue": f"{QUEUES}mail/change/",
        "tasks": TASKS,
        "workers": WORKERS,
        "worker": f"{WORKERS}{worker.pk}/change/",
        "bulks": BULKS,
        "bulk": f"{BULKS}{bulk.pk}/change/",
        **{
            f"doing-{name}": address
            for name, address in {
                "retry": one(failed, "retry"),
                "cancel": one(waiting, "cancel"),
                "run": one(others["SCHEDULED"], "run"),
                "delete": one(failed, "delete"),
                "edit": one(waiting, "edit"),
                "copy": one(failed, "copy"),
                "retry-failed": f"{JOBS}retry-failed/?queue=mail",
                "pause": f"{QUEUES}pause/mail/",
                "resume": f"{QUEUES}resume/paused/",
                "drain": f"{WORKERS}drain/{worker.pk}/",
                "stop": f"{WORKERS}stop/{worker.pk}/",
                "stop-bulk": f"{BULKS}stop/{bulk.pk}/",
                "go-on": f"{BULKS}go-on/{bulk.pk}/",
                "task": f"{TASKS}run/{tasks.each_kind.module_path.replace('_', '_5F')}/",
            }.items()
        },
    }
