"""Asking workers to drain or to stop: what is written down, and what is told of each."""

from __future__ import annotations

import pytest

from django_jobs.core.states import Wish
from django_jobs.models import Worker
from django_jobs.store import steering, workers
from django_jobs.store.cursor import run
from django_jobs.store.steering import Verdict
from tests.rows import LONG_AGO, worker_row
from tests.store.test_workers import ME


@pytest.fixture
def ask(cursor):
    """Ask a worker, and return what is told of each that was meant."""

    def ask(worker, wish=Wish.STOP, by="ada", all_processes=False):
        found = steering.ask(cursor, worker.pk, wish, all_processes=all_processes, by=by)
        return {answer.worker: answer.verdict for answer in found}

    return ask


def asked(worker):
    worker.refresh_from_db()
    return worker.asked_to, worker.asked_all, worker.asked_by


def new(**columns):
    """Insert a worker that can be asked."""
    return worker_row(**{"takes_requests": True} | columns)


def test_it_is_written_down_by_whom_and_when(cursor, ask):
    worker, other = new(), new()

    assert ask(worker, Wish.DRAIN) == {worker.pk: Verdict.ASKED}

    assert asked(worker) == ("DRAIN", False, "ada")
    assert worker.asked_at is not None
    assert asked(other) == ("", False, "")
    [[_, _, *heard]] = run(cursor, workers.heartbeat(worker.pk, stopping=False, holds_lock=True))
    assert heard == ["DRAIN", False, "ada"]


def test_who_asks_for_no_more_than_was_asked_is_told_who_did(cursor, ask):
    worker = new()
    ask(worker, Wish.STOP)

    for wish in Wish:
        [answer] = steering.ask(cursor, worker.pk, wish, all_processes=False, by="bob")
        assert (answer.verdict, answer.asked_before, answer.asked_before_by) == (
            Verdict.REPEATED,
            Wish.STOP,
            "ada",
        )
        assert answer.asked_seconds is not None

    assert asked(worker) == ("STOP", False, "ada")


def test_more_may_be_asked_of_one_that_drains(ask):
    worker = new(state="STOPPING", asked_to="DRAIN", supervisor="a")

    assert ask(worker, Wish.STOP) == {worker.pk: Verdict.ASKED}
    assert ask(worker, Wish.DRAIN, all_processes=True) == {worker.pk: Verdict.ASKED}

    assert asked(worker) == ("STOP", True, "ada")


def test_all_processes_are_those_that_live_and_have_the_same_supervisor(ask):
    first, second, stopping = (new(supervisor="a", state=s) for s in ("RUNNING", "RUNNING", "STOPPING"))
    new(supervisor="a", state="STOPPED")
    stranger, alone = new(supervisor="b"), new()

    meant = dict.fromkeys([first.pk, second.pk, stopping.pk], Verdict.ASKED)
    assert ask(first, all_processes=True) == meant

    assert all(asked(worker) == ("STOP", True, "ada") for worker in (first, second, stopping))
    assert asked(stranger) == asked(alone) == ("", False, "")
    assert ask(alone, all_processes=True) == {alone.pk: Verdict.ASKED}


def test_a_stop_of_one_that_drains_with_all_others_is_no_stop_of_all(cursor, ask):
    """Its supervisor, and every process that it still starts, would else hand back what runs in all."""
    first, second = new(supervisor=ME.supervisor), new(supervisor=ME.supervisor)
    ask(first, Wish.DRAIN, all_processes=True)

    assert ask(first, Wish.STOP) == {first.pk: Verdict.ASKED}

    assert asked(first)[:2] == ("STOP", False)
    assert asked(second)[:2] == ("DRAIN", True)
    [[number, _]] = run(cursor, workers.register(ME))
    assert asked(Worker.objects.get(pk=number))[:2] == ("DRAIN", True)
    assert set(ask(second, Wish.STOP, all_processes=True).values()) == {Verdict.ASKED}
    assert asked(first)[:2] == asked(second)[:2] == ("STOP", True)


def test_a_drain_of_all_is_none_of_one_that_stops(ask):
    first, second = new(supervisor="a", asked_to="STOP"), new(supervisor="a")

    meant = {first.pk: Verdict.REPEATED, second.pk: Verdict.ASKED}
    assert ask(first, Wish.DRAIN, all_processes=True) == meant

    assert asked(first)[:2] == ("STOP", False)
    assert asked(second)[:2] == ("DRAIN", True)


@pytest.mark.parametrize(
    ("columns", "verdict"),
    [
        ({"state": "STOPPED"}, Verdict.ENDED),
        ({"state": "LOST"}, Verdict.LOST),
        ({"state": "STOPPING"}, Verdict.ENDING),
        ({"takes_requests": False}, Verdict.TOO_OLD),
    ],
)
def test_one_that_can_not_be_asked_is_left_alone_and_it_is_told_why(ask, columns, verdict):
    worker = new(**columns)

    assert ask(worker) == {worker.pk: verdict}

    assert asked(worker) == ("", False, "")


def test_there_is_no_answer_of_one_that_is_not_there(cursor):
    assert steering.ask(cursor, 2**62, Wish.STOP, all_processes=True, by="") == []


def test_how_long_one_has_been_silent_is_told(cursor):
    worker = new(heartbeat_at=LONG_AGO)

    [answer] = steering.ask(cursor, worker.pk, Wish.STOP, all_processes=False, by="")

    assert answer.verdict == Verdict.ASKED
    assert answer.silent_seconds > 3600


def test_the_previous_release_registers_workers_that_can_not_be_asked(cursor):
    cursor.execute(
        "INSERT INTO django_jobs_worker (name, host, pid, excluded_queues, tasks, threads, async_slots,"
        " versions, state, holds_lock, started_at, heartbeat_at, ending)"
        " VALUES ('old', 'h', 1, '[]', '[]', 1, 1, '{}', 'RUNNING', false, now(), now(), '')"
    )

    assert not Worker.objects.get(name="old").takes_requests


class TestRegisteringAnew:
    def test_a_worker_takes_along_what_it_was_asked(self, cursor):
        before = new(state="LOST", asked_to="DRAIN", asked_by="ada", asked_at=LONG_AGO)

        [[number, _]] = run(cursor, workers.register(ME, before=before.pk))

        found = Worker.objects.get(pk=number)
        assert (found.asked_to, found.asked_by, found.asked_at) == ("DRAIN", "ada", LONG_AGO)

    def test_a_process_is_asked_what_all_of_its_supervisor_were(self, cursor):
        new(state="LOST", supervisor=ME.supervisor, asked_to="DRAIN", asked_all=True)
        new(state="LOST", supervisor=ME.supervisor, asked_to="STOP")
        new(state="LOST", supervisor="other", asked_to="STOP", asked_all=True)

        [[number, _]] = run(cursor, workers.register(ME))

        assert asked(Worker.objects.get(pk=number)) == ("DRAIN", True, "")

    def test_one_without_a_supervisor_has_nothing_in_common_with_others(self, cursor):
        new(state="STOPPED", asked_to="STOP", asked_all=True)

        from dataclasses import replace

        [[number, _]] = run(cursor, workers.register(replace(ME, supervisor="", supervisor_pid=None)))

        assert asked(Worker.objects.get(pk=number)) == ("", False, "")
