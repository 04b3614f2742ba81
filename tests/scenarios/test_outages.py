"""The database goes: single sessions, all of them, the whole server; or it isn't there yet."""

from __future__ import annotations

import signal

import pytest

from django_jobs.models import StateChoices, Worker, WorkerState
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import (
    begun,
    is_done,
    job_of,
    kinds,
    lock_holders,
    nothing_runs,
    other_sessions,
    rows,
    terminate,
    usual,
    waits,
)
from tests.scenarios.marks import marks


class TestCutSessions:
    def test_a_listener_that_was_cut_listens_again_and_its_worker_lives_on_1(self, runjobs):
        worker = runjobs("--poll-interval", "600").is_ready()
        [before] = worker.workers()
        result = tasks.held.enqueue("open")
        begun("open")
        holders = lock_holders()

        terminate(holders)

        eventually(lambda: lock_holders() and not lock_holders() & holders, 5)
        assert usual(sorted(waits(tasks.quick.enqueue())[0] for _ in range(5))) < 1.0
        runjobs.open("open")
        is_done(result)
        assert worker.is_ready().workers() == [before]
        assert len(marks("begin", "open")) == 1

    def test_after_every_session_was_cut_outcomes_are_stored_once_and_work_goes_on_4_10(self, runjobs):
        worker = runjobs("--poll-interval", "600", "--threads", "4").is_ready()
        results = [tasks.held.enqueue("open", end=False) for _ in range(3)]
        begun("open", 3)

        for _ in range(3):
            terminate(other_sessions())
        runjobs.open("open")

        is_done(*results)
        is_done(*[tasks.quick.enqueue() for _ in range(8)])
        assert len(marks("begin", "open")) == 3
        assert not any(kinds(result) for result in results)
        assert len(worker.is_ready().workers()) == 1
        worker.tell(signal.SIGTERM)
        assert worker.ends() == 0
        assert nothing_runs()

    def test_idle_threads_drop_sessions_that_were_cut_before_their_next_job_4(self, runjobs):
        runjobs("--threads", "2", "--poll-interval", "0.3").is_ready()
        is_done(*[tasks.quick.enqueue() for _ in range(6)])

        terminate(other_sessions())

        results = [tasks.quick.enqueue() for _ in range(6)]
        is_done(*results)
        assert not any(kinds(result) for result in results)


class TestServer:
    def test_when_the_server_crashed_and_came_back_work_goes_on_2(self, own_server, runjobs):
        worker = runjobs("--poll-interval", "600").is_ready()
        [before] = worker.workers()
        result = tasks.held.enqueue("open", end=False)
        begun("open")

        own_server.crash()
        runjobs.open("open")
        eventually(lambda: worker.said().count("trying again") >= 2)
        assert worker.status is None
        own_server.start()

        is_done(result)
        assert len(marks("begin", "open")) == 1
        assert kinds(result) == []
        is_done(tasks.quick.enqueue())
        assert worker.is_ready().workers() == [before]

    def test_a_worker_without_its_server_ends_on_sigterm_46(self, own_server, runjobs):
        worker = runjobs().is_ready()
        own_server.crash()
        eventually(lambda: "trying again" in worker.said())

        worker.tell(signal.SIGTERM)

        assert worker.ends(10) == 0


class TestStart:
    def test_without_a_server_it_says_so_in_one_line_waits_and_ends_with_status_1_12(
        self, own_server, runjobs
    ):
        own_server.crash()

        worker = runjobs(settings={"startup_wait_seconds": 1})

        assert worker.ends() == 1
        said = worker.said().splitlines()
        assert len(said) == 2
        assert said[0].startswith("Database 'default': ")
        assert "waiting for up to 1 s" in said[0]
        assert said[1].startswith("CommandError: Database 'default': ")

    @pytest.mark.parametrize("place", [(), ("--processes", "2")], ids=["in place", "2 processes"])
    def test_without_its_tables_it_waits_and_works_once_they_are_there_12(self, queue, runjobs, place):
        result = tasks.quick.enqueue()
        rows("ALTER TABLE django_jobs_worker RENAME TO elsewhere")
        try:
            worker = runjobs(*place)
            eventually(lambda: "django_jobs_worker is missing" in worker.said(), 20)
            assert "manage.py migrate" in worker.said()
            assert worker.status is None
        finally:
            rows("ALTER TABLE elsewhere RENAME TO django_jobs_worker")

        is_done(result)
        assert job_of(result).attempt == 1

    def test_a_stop_while_it_waits_for_its_tables_is_heard_at_once_46(self, queue, runjobs):
        rows("ALTER TABLE django_jobs_worker RENAME TO elsewhere")
        try:
            worker = runjobs()
            eventually(lambda: "is missing" in worker.said(), 20)
            worker.tell(signal.SIGTERM)
            assert worker.ends(5) == 0
        finally:
            rows("ALTER TABLE elsewhere RENAME TO django_jobs_worker")


class TestStoppedProcess:
    @pytest.mark.slow
    def test_a_worker_that_slept_through_its_death_finishes_nothing_and_works_on_31(self, runjobs):
        settings = {"heartbeat_seconds": 0.5, "dead_after_seconds": 3}
        sleeper = runjobs("--threads", "2", settings=settings).is_ready()
        result = tasks.held.enqueue("open")
        begun("open")
        sleeper.tell(signal.SIGSTOP)
        other = runjobs("--threads", "1", settings=settings)
        again = begun("open", 2)[1]
        later = [tasks.held.enqueue("open") for _ in range(3)]  # the other one has no room for them

        sleeper.tell(signal.SIGCONT)
        eventually(lambda: "was declared dead" in sleeper.said())
        begun("open", 3)
        runjobs.open("open")

        is_done(result, *later)
        assert again.pid == other.pid
        assert kinds(result) == ["LOST"]
        assert not any(kinds(job) for job in later)
        assert len(marks("begin", "open")) == 5
        eventually(lambda: "was taken over" in sleeper.said())
        assert job_of(result).state == StateChoices.SUCCESSFUL
        assert Worker.objects.filter(state=WorkerState.RUNNING).count() == 2
