"""A worker's own row, its lock, and what is asked about its jobs."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from django_jobs.core.states import State
from django_jobs.models import Worker, WorkerState
from django_jobs.store import workers
from django_jobs.store.cursor import run
from tests.rows import LONG_AGO, WORKER, row, worker_row

ME = workers.Registration(
    name="me",
    host="here",
    pid=42,
    queues=["mail"],
    excluded_queues=["slow"],
    tasks=["a.b", "c.d"],
    threads=3,
    async_slots=4,
    versions={"python": "3"},
    limits={"mail": 2},
    supervisor="a1",
    supervisor_pid=41,
)


def test_registering_enters_a_worker_that_lives(cursor):
    [[number, now]] = run(cursor, workers.register(ME))

    found = Worker.objects.get(pk=number)
    assert (found.name, found.host, found.pid, found.state) == ("me", "here", 42, WorkerState.RUNNING)
    assert (found.queues, found.excluded_queues, found.tasks) == (["mail"], ["slow"], ["a.b", "c.d"])
    assert (found.threads, found.async_slots, found.versions) == (3, 4, {"python": "3"})
    assert (found.limits, found.supervisor, found.supervisor_pid) == ({"mail": 2}, "a1", 41)
    assert (found.takes_requests, found.asked_to) == (True, "")
    assert found.is_live
    assert abs(found.heartbeat_at - now) < timedelta(seconds=1)


def test_each_start_is_another_worker(cursor):
    assert run(cursor, workers.register(ME))[0][0] != run(cursor, workers.register(ME))[0][0]


def test_a_heartbeat_renews_the_row_and_counts_the_others(cursor):
    mine = worker_row(heartbeat_at=LONG_AGO)
    for state in WorkerState:
        worker_row(state=state)

    statement = workers.heartbeat(mine.pk, stopping=True, holds_lock=True, memory=5 * 2**30)
    [[now, others, *asked]] = run(cursor, statement)

    mine.refresh_from_db()
    assert (mine.state, mine.holds_lock, mine.memory_bytes) == (WorkerState.STOPPING, True, 5 * 2**30)
    assert asked == ["", False, ""]
    assert abs(now - mine.heartbeat_at) < timedelta(seconds=1)
    assert others == 2


def test_signing_off_says_how_it_ended_once(cursor):
    mine = worker_row(holds_lock=True)

    assert run(cursor, workers.sign_off(mine.pk, "stopped"))
    assert not run(cursor, workers.sign_off(mine.pk, "again"))

    mine.refresh_from_db()
    assert (mine.state, mine.holds_lock, mine.ending) == (WorkerState.STOPPED, False, "stopped")


def test_a_lock_is_held_by_one_session_until_it_ends(links):
    one, other = links(), links()

    assert run(one.cursor(), workers.lock(7, 1)) == [(True,)]
    assert run(other.cursor(), workers.lock(7, 1)) == [(False,)]
    assert run(other.cursor(), workers.lock(7, 2)) == [(True,)]
    assert run(other.cursor(), workers.lock(8, 1)) == [(True,)]


def test_requests_to_cancel_are_those_of_its_own_running_jobs(cursor):
    now = timezone.now()
    mine = row(State.RUNNING, cancel_requested_at=now)
    row(State.RUNNING)
    row(State.RUNNING, worker=WORKER + 1, cancel_requested_at=now)
    row(State.FAILED, worker=WORKER, cancel_requested_at=now)

    assert run(cursor, workers.cancel_requests(WORKER)) == [(mine.pk,)]


def test_strays_are_what_runs_under_its_name_unknown_to_it(cursor):
    known, stray = row(State.RUNNING), row(State.RUNNING, attempt=4)
    row(State.RUNNING, worker=WORKER + 1)
    row(State.SUCCESSFUL, worker=WORKER)

    assert run(cursor, workers.strays(WORKER, [known.pk])) == [(stray.pk, 4)]
    assert len(run(cursor, workers.strays(WORKER, []))) == 2
