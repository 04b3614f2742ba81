"""The table in docs/explanation/failures.md: each row is run and compared with what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection

from django_jobs import JobTask
from django_jobs.core.states import State
from django_jobs.models import Attempt, Job
from django_jobs.store import rescue
from tests.docs import failing
from tests.docs.conftest import Start
from tests.eventually import eventually

PAGE = settings.BASE_DIR / "docs" / "explanation" / "failures.md"
HOUR, SEVEN_MINUTES, NOW = timedelta(hours=1), timedelta(minutes=7), timedelta(0)


@dataclass(frozen=True)
class Row:
    """What the page says of one case."""

    counts: bool
    state: str
    again: str
    recorded: tuple[str, ...]


def table() -> dict[str, Row]:
    """Return the rows of the page's table by their first column."""
    rows = {}
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 5 and cells[2] in State.__members__:
            kinds = () if cells[4] == "—" else tuple(cells[4].split(", "))
            rows[cells[0]] = Row(cells[1] == "yes", cells[2], cells[3], kinds)
    return rows


ROWS = table()


def agrees(case: str, job: Job, *, after: timedelta | None = None) -> None:
    """Check the job, which is over or due again, against the row of the page."""
    row = ROWS[case]
    job.refresh_from_db()
    attempts = list(Attempt.objects.filter(job=job).order_by("number"))
    assert job.state == row.state
    assert (job.counted_attempt == job.attempt and job.attempt > 0) == row.counts
    assert tuple((a.kind, a.decision) for a in attempts[-1:]) == ((row.recorded,) if row.recorded else ())
    assert (job.state == State.READY) == (row.again != "no")
    if after is not None:
        ended = attempts[-1].ended_at
        assert ended is not None
        assert after <= job.run_after - ended < after + timedelta(seconds=1)


def run_once(start_worker: Start, task: JobTask) -> Job:
    """Run a new job of `task` once and return it."""
    job = Job.objects.get(pk=int(task.enqueue().id))
    start_worker()
    eventually(lambda: is_over(job))
    return job


def is_over(job: Job) -> bool:
    job.refresh_from_db()
    return job.attempt > 0 and job.state != State.RUNNING


@pytest.mark.parametrize(
    ("case", "task", "after"),
    [
        ("the body returns", failing.returns, None),
        (
            "it raises what `retry_on` names (by default any `Exception`), attempts left",
            failing.raises,
            HOUR,
        ),
        ("the same in the last attempt", failing.raises_in_its_last_attempt, None),
        ("it raises what `retry_on` doesn't name", failing.raises_what_retry_on_does_not_name, None),
        ("it raises what `fail_on` names", failing.raises_what_fail_on_names, None),
        ("`raise Retry(after=…)`, attempts left", failing.asks_for_a_retry, SEVEN_MINUTES),
        ("`raise Retry` in the last attempt", failing.asks_for_a_retry_in_its_last_attempt, None),
        ("`raise Fail(reason)`", failing.fails_itself, None),
        ("`raise Snooze(after)`", failing.snoozes, SEVEN_MINUTES),
        ("`raise Cancel(reason)`", failing.cancels_itself, None),
        ("it runs past its timeout, attempts left", failing.takes_too_long, HOUR),
        ("it runs past its timeout, attempts left", failing.awaits_too_long, HOUR),
        ("the same, with `fail_on=(JobTimeout,)`", failing.takes_too_long_for_good, None),
        ("it returns what can't be stored", failing.returns_what_cannot_be_stored, None),
    ],
)
def test_a_run_ends_as_the_table_says(start_worker, case, task, after):
    agrees(case, run_once(start_worker, task), after=after)


@pytest.mark.parametrize(
    ("case", "attempt", "most", "at_once"),
    [
        ("its worker dies, the job's first attempt", 1, 5, True),
        ("its worker dies, a later attempt", 2, 5, False),
        ("its worker dies, the last attempt", 5, 5, True),
    ],
)
def test_a_job_of_a_dead_worker_goes_on_as_the_table_says(start_worker, case, attempt, most, at_once):
    job = Job.objects.get(pk=int(failing.raises.using(max_attempts=most).enqueue().id))
    Job.objects.update(state=State.RUNNING, attempt=attempt, worker=999)

    start_worker(queues=("another",), dead_for_certain=(999,))

    eventually(lambda: is_over(job))
    agrees(case, job, after=None if job.state == State.FAILED else NOW if at_once else HOUR)


@pytest.fixture
def under_way(start_worker):
    """Starts a job and returns it with its worker once its body has begun; it may go on at the end."""
    failing.begun.clear()
    failing.go_on.clear()

    def begin(task: JobTask):
        job = Job.objects.get(pk=int(task.enqueue().id))
        worker = start_worker()
        assert failing.begun.wait(10)
        return job, worker

    yield begin
    failing.go_on.set()


@pytest.mark.parametrize("task", [failing.runs_until_told, failing.sleeps_on_the_loop])
def test_a_job_that_is_handed_back_is_due_at_once(under_way, task):
    job, worker = under_way(task)

    assert not worker.stop(0.1)

    agrees("the worker stops and hands it back, the body had begun", job)
    assert job.run_after == job.enqueued_at


@pytest.mark.parametrize(
    ("case", "task"),
    [
        ("someone cancels it while it runs, and the body returns", failing.runs_until_told),
        ("the same, and the body fails with attempts left", failing.fails_once_told),
        ("the same, and the body is async", failing.sleeps_on_the_loop),
    ],
)
def test_a_cancel_meets_a_run_as_the_table_says(under_way, case, task):
    job, _ = under_way(task)

    assert job.cancel()
    failing.go_on.set()

    eventually(lambda: is_over(job))
    agrees(case, job)


def test_a_cancelled_body_that_looks_can_end_itself(under_way):
    job, _ = under_way(failing.looks_whether_it_is_cancelled)

    job.cancel()

    eventually(lambda: is_over(job))
    agrees("`raise Cancel(reason)`", job)


@pytest.mark.django_db
def test_a_waiting_job_is_cancelled_at_once():
    job = Job.objects.get(pk=int(failing.returns.enqueue().id))

    assert job.cancel("not needed")

    agrees("someone cancels it while it waits", job)


@pytest.mark.django_db
def test_a_job_whose_task_nobody_knows_fails_in_time():
    overdue = failing.returns.using(run_after=-HOUR).enqueue()
    job = Job.objects.get(pk=int(overdue.id))
    statement = rescue.fail_unknown(["default"], wait=timedelta(0), keep=HOUR, reason="nobody knows it")

    with connection.cursor() as cursor:
        cursor.execute(*statement)

    agrees("no live worker has known its task for `unknown_task_after`", job)


def test_every_row_is_run():
    source = (settings.BASE_DIR / "tests" / "docs" / "test_failures.py").read_text("utf-8")

    assert ROWS
    assert [case for case in ROWS if f'"{case}"' not in source] == []
