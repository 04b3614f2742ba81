"""How many statements each page takes, and that more rows don't make it more."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.models import Attempt, Queue
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES, TASKS, WORKERS, detail

pytestmark = pytest.mark.django_db

SESSION_AND_USER = 2

LIMITS = 2 * 4
"""For what a page reads, and again for its rendering: a savepoint and a limit, both taken back."""


@pytest.fixture
def fill(make_job, make_worker):
    """Create `count` of everything."""

    def fill(count):
        for number in range(count):
            worker = make_worker(queues=[f"queue-{number}"], tasks=[f"task-{number}"])
            for state in ("READY", "SCHEDULED", "RUNNING", "FAILED", "SUCCESSFUL"):
                make_job(state, queue_name=f"queue-{number}", task_path=f"task-{number}", worker=worker.pk)
            Queue.objects.get_or_create(name=f"queue-{number}", defaults={"paused_at": "2026-01-01T00:00Z"})

    return fill


def statements(client, page):
    """Return how many statements a page takes, but for what Django looks up once in a process."""
    client.get(page)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(page).status_code == 200
    return len(captured) - SESSION_AND_USER


@pytest.mark.parametrize(
    ("page", "count"),
    [
        # depths, ended, with a savepoint and a limit, both taken back; choices, workers, exceptions,
        # count, rows
        (JOBS, 7 + 4 + LIMITS),
        (f"{JOBS}?state=failed", 7 + 4 + LIMITS),
        (f"{JOBS}?state=ready&queue=queue-0", 7 + 4 + LIMITS),
        (f"{JOBS}?task=task-0&enqueued=1h", 8 + 4 + LIMITS),  # and how far to look
        (f"{JOBS}?q=task", 8 + 4 + LIMITS),
        (f"{JOBS}?value=7&tag=vip&worker=1&level=high&exception=a.B", 8 + 4 + LIMITS),
        (
            f"{JOBS}retry-failed/",
            8 + 4 + LIMITS,
        ),  # depths, ended, choices, workers, exceptions, count, forecast, examples
        (WORKERS, 2 + LIMITS),  # count, rows
        # workers, paused, depths, ended, oldest, running, clock; totals, course, kinds; failures; table,
        # expired, transactions; and for each of these four a savepoint and a limit, both taken back
        (OVERVIEW, 7 + 3 + 1 + 3 + 4 * 4 + LIMITS),
        # the last hour; depths, ended; each of these two with a savepoint and a limit; running, settings,
        # workers
        (QUEUES, 1 + 2 + 4 * 2 + 3 + LIMITS),
        (TASKS, 2 + 4 + LIMITS),  # kinds and the last hour, with a savepoint and a limit
        # depths, ended; totals, course, kinds; each of these two with a savepoint and a limit; running,
        # settings, workers
        (f"{QUEUES}queue-0/change/", 2 + 3 + 4 * 2 + 3 + LIMITS),
        (f"{QUEUES}pause/queue-0/", 2 + 4 + 3 + LIMITS),
    ],
)
def test_a_page_takes_so_many_statements_whatever_there_is(admin_client, fill, page, count):
    fill(1)
    few = statements(admin_client, page)
    fill(12)
    many = statements(admin_client, page)

    assert many == few
    assert few == count


def test_a_job_takes_so_many_statements_however_many_attempts_it_has(admin_client, make_job, make_worker):
    job = make_job("FAILED", attempt=30)
    counts = []
    for number in range(1, 31):
        worker = make_worker()
        Attempt.objects.create(job=job, number=number, worker=worker.pk, kind="ERROR", decision="RETRY")
        if number in (1, 30):
            counts.append(statements(admin_client, detail(job)))

    assert counts == [4 + LIMITS] * 2  # job, attempts, workers, captures


def test_a_worker_takes_so_many_statements_however_many_jobs_it_runs(admin_client, make_job, make_worker):
    worker = make_worker()
    counts = []
    for number in range(12):
        make_job("RUNNING", worker=worker.pk)
        if number in (0, 11):
            counts.append(statements(admin_client, f"{WORKERS}{worker.pk}/change/"))

    assert counts == [2 + LIMITS] * 2  # worker, jobs
