"""Deleting what has expired, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.postgres.functions import TransactionNow as Now

from django_jobs.core.states import FINAL, Kind, State
from django_jobs.models import Attempt, Job, Worker, WorkerState
from django_jobs.store.cursor import run
from django_jobs.store.prune import BEGINNING, prune, prune_workers
from tests.rows import WORKER, row, worker_row

MINUTE = timedelta(minutes=1)


def pruned(cursor, limit=100, **choices):
    return run(cursor, prune(limit, **choices))[0]


def expired(state=State.SUCCESSFUL, *, since=MINUTE):
    return row(state, expires_at=Now() - since)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_jobs_go_when_they_have_expired(cursor, state):
    expired(state)
    kept = row(state, expires_at=Now() + MINUTE)
    for_ever = row(state, expires_at=None)

    assert pruned(cursor)[0] == 1
    assert set(Job.objects.all()) == {kept, for_ever}


@pytest.mark.parametrize("state", sorted(set(State) - FINAL))
def test_jobs_that_wait_or_run_stay_whatever_their_row_says(cursor, state):
    row(state, expires_at=Now() - MINUTE)

    assert pruned(cursor)[0] == 0
    assert Job.objects.count() == 1


def test_their_attempts_go_with_them(cursor):
    gone, kept = expired(), row(State.FAILED)
    for job in (gone, kept):
        for number in (1, 2):
            Attempt.objects.create(job=job, number=number, kind=Kind.ERROR)

    pruned(cursor)

    assert set(Attempt.objects.values_list("job", flat=True)) == {kept.pk}


def test_a_batch_takes_the_oldest(cursor):
    newest, oldest, middle = (expired(since=MINUTE * age) for age in (1, 3, 2))

    assert pruned(cursor, limit=2) == (2, middle.expires_at)
    assert Job.objects.get() == newest
    assert oldest.expires_at < middle.expires_at


def test_the_next_batch_goes_on_where_the_last_one_ended(cursor):
    jobs = [expired(since=MINUTE * age) for age in (4, 3, 3, 1)]
    after = BEGINNING
    counts = []
    for _ in range(3):
        count, last = pruned(cursor, limit=2, after=after)
        counts.append(count)
        after = last or after

    assert counts == [2, 2, 0]
    assert len(jobs) == 4
    assert not Job.objects.exists()


def test_nothing_to_do_is_no_error(cursor):
    assert pruned(cursor) == (0, None)


def test_a_time_of_grace_can_be_given(cursor):
    expired(since=MINUTE)
    kept_by_grace = pruned(cursor, grace=2 * MINUTE)[0]

    assert (kept_by_grace, pruned(cursor, grace=MINUTE / 2)[0]) == (0, 1)


def test_two_at_once_share_the_work(links):
    for _ in range(10):
        expired()
    one, other = links(), links()

    with one.transaction():
        first = pruned(one.cursor(), limit=6)[0]
        second = pruned(other.cursor(), limit=6)[0]

    assert (first, second) == (6, 4)
    assert not Job.objects.exists()


class TestWorkers:
    def test_that_ended_long_ago_go(self, cursor):
        for state in (WorkerState.STOPPED, WorkerState.LOST):
            worker_row(state=state, stopped_at=Now() - 2 * MINUTE)
        recent = worker_row(state=WorkerState.STOPPED, stopped_at=Now())
        live = worker_row()

        assert run(cursor, prune_workers(MINUTE)) == [(2,)]
        assert set(Worker.objects.all()) == {recent, live}

    def test_whose_jobs_still_wait_for_rescue_stay(self, cursor):
        worker_row(id=WORKER, state=WorkerState.LOST, stopped_at=Now() - 2 * MINUTE)
        row(State.RUNNING)

        assert run(cursor, prune_workers(MINUTE)) == [(0,)]
