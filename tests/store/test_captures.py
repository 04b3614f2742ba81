"""What was captured of runs: stored with the outcome, not for a run that has moved on, gone with the job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from django_jobs.core.records import Captured, Completed
from django_jobs.core.states import State
from django_jobs.models import Attempt, Capture, Job
from django_jobs.store import control, prune
from django_jobs.store.cursor import run
from django_jobs.store.finish import finish, finish_here
from tests.rows import WORKER, row, run_of
from tests.store.test_finish import CANCELLED, DONE, FAILED, RELEASED, RETRIED, SNOOZED, name_of

LOG = Captured(lines='[[1.5, "INFO", "shop", "é"]]', cut=3, cut_at=1, queries=7, query_seconds=0.25)
DELETED = Completed(return_value=None, keep=timedelta(0))


def with_log(job, outcome=DONE):
    return replace(run_of(job, outcome), captured=LOG)


def write(cursor, ended, worker=WORKER):
    return [run(cursor, statement) for statement in finish(worker, ended, keep_cancelled=None)]


@pytest.mark.parametrize("outcome", [DONE, RETRIED, FAILED, SNOOZED, CANCELLED, RELEASED], ids=name_of)
def test_they_are_stored_with_any_outcome(cursor, outcome):
    job = row(State.RUNNING, attempt=4)

    written, outcomes = write(cursor, [with_log(job, outcome)])

    assert [found[0] for found in (*written, *outcomes)] == [job.pk] * 2
    found = Capture.objects.get(job=job)
    assert (found.number, found.cut, found.cut_at, found.queries, found.query_seconds) == (4, 3, 1, 7, 0.25)
    assert found.lines == [[1.5, "INFO", "shop", "é"]]


def test_they_take_one_statement_for_all_runs_that_have_them_and_none_for_others(cursor):
    runs = [row(State.RUNNING) for _ in range(6)]
    plain = [run_of(job, DONE) for job in runs[:3]]

    assert len(finish(WORKER, plain, keep_cancelled=None)) == 1
    assert len(finish(WORKER, [*plain, *map(with_log, runs[3:])], keep_cancelled=None)) == 2


def test_nothing_is_written_for_a_job_that_goes_at_once(cursor):
    job = row(State.RUNNING)

    assert len(write(cursor, [with_log(job, DELETED)])) == 1
    assert not Capture.objects.exists()


@pytest.mark.parametrize(
    "moved_on",
    [{"attempt": 2}, {"worker": WORKER + 1}, {"state": "READY", "worker": None}],
    ids=["claimed again", "another worker's", "handed back"],
)
def test_a_late_run_writes_nothing(cursor, moved_on):
    job = row(State.RUNNING)
    Job.objects.filter(pk=job.pk).update(**moved_on)

    assert write(cursor, [with_log(job)]) == [[], []]
    assert not Capture.objects.exists()


def test_in_a_bodys_transaction_the_outcome_decides_whether_the_run_was_still_ours(cursor):
    job, late = row(State.RUNNING), row(State.RUNNING)
    Job.objects.filter(pk=late.pk).update(attempt=2)

    assert finish_here(cursor, WORKER, with_log(job))
    assert not finish_here(cursor, WORKER, with_log(late))

    job.refresh_from_db()
    assert job.state == "SUCCESSFUL"
    assert Capture.objects.get().job == job


def finished(**columns):
    job = row(State.FAILED, expires_at=timezone.now() - timedelta(days=1), **columns)
    for number in (1, 2):
        Capture.objects.create(job=job, number=number)
        Attempt.objects.create(job=job, number=number, kind="ERROR", decision="RETRY")
    return job


def prune_all(cursor, job):
    run(cursor, prune.prune(10))


def prune_it(cursor, job):
    run(cursor, prune.prune_chosen([job.pk], state="FAILED", before=timezone.now()))


def discard(cursor, job):
    control.discard(cursor, [job.pk])


def complete(cursor, job):
    Job.objects.filter(pk=job.pk).update(
        state="RUNNING", worker=WORKER, finished_at=None, expires_at=None, attempt=3
    )
    job.refresh_from_db()
    write(cursor, [run_of(job, DELETED)])


def by_django(cursor, job):
    job.delete()


@pytest.mark.parametrize("delete", [prune_all, prune_it, discard, complete, by_django])
def test_they_go_with_their_job(cursor, delete):
    other = row()
    Capture.objects.create(job=other, number=1)

    delete(cursor, finished())

    assert list(Job.objects.all()) == [other]
    assert [found.job for found in Capture.objects.all()] == [other]
    assert not Attempt.objects.exists()
