"""The parts of a worker: none fails unnoticed, and none waits for another."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_jobs import task
from django_jobs.conf import Settings
from django_jobs.core.states import State
from django_jobs.worker.duties import silence_of_the_dead
from tests import jobs
from tests.eventually import eventually
from tests.worker.workers import QUICK, Workers, job_of, state_of, told


@task
def ask_often(count: int) -> int:
    """Make queries, and return how many of them Django keeps for debugging."""
    with connection.cursor() as cursor:
        for _ in range(count):
            cursor.execute("SELECT 1")
    return len(connection.queries_log)


@pytest.fixture
def workers(transactional_db, settings):
    settings.DJANGO_JOBS = QUICK
    with Workers() as found:
        yield found


class TestBrokenParts:
    @pytest.mark.parametrize("part", ["listener", "dispatcher"])
    def test_end_the_worker_and_say_so_36(self, workers, monkeypatch, caplog, part):
        worker = workers.start()
        assert worker.listener is not None
        eventually(lambda: worker.is_healthy)
        broken = worker.listener if part == "listener" else worker.dispatcher

        def fail():
            raise ZeroDivisionError("a fault of ours")

        monkeypatch.setattr(broken.loop, "tick", fail)
        worker.listener.poke()
        worker.dispatcher.nudge()

        assert worker.join(20)
        assert worker.dispatcher.loop.error is not None
        assert worker.ending.startswith("broken")
        eventually(lambda: not worker.is_healthy)
        assert "the dispatcher broke; the worker ends" in caplog.text


class TestDebugging:
    def test_queries_of_bodies_are_not_kept_when_debug_is_on_68(self, workers, settings):
        settings.DEBUG = True
        connection.force_debug_cursor = False
        workers.start(threads=1)

        counts = [job_of(ask_often.enqueue(50)).return_value for _ in range(3)]

        assert counts[0] >= 50
        assert max(counts) < 100  # each body begins anew


class TestSideBySide:
    def test_sync_jobs_run_at_once_while_async_ones_do_72(self, workers):
        workers.start(threads=2, async_slots=2)
        waits = [jobs.await_gate.enqueue(name) for name in ("x", "y")]
        assert {told(), told()} == {"x", "y"}

        syncs = [jobs.wait_for.enqueue(name) for name in ("a", "b")]

        assert {told(), told()} == {"a", "b"}
        for name in "abxy":
            jobs.gate(name).set()
        assert {job_of(result).state for result in waits + syncs} == {State.SUCCESSFUL}

    def test_an_async_body_that_blocks_its_loop_delays_nobody_else_and_is_named_74(self, workers, caplog):
        worker = workers.start(threads=2)
        blocker = jobs.block_loop.enqueue("block")
        assert told() == "block"

        assert job_of(jobs.give.enqueue(1)).return_value == 1
        eventually(lambda: "blocks the event loop" in caplog.text)
        assert worker.is_healthy
        assert state_of(blocker) == State.RUNNING
        jobs.gate("block").set()
        assert job_of(blocker).state == State.SUCCESSFUL


@pytest.mark.parametrize(
    ("dead_after", "rescue", "silence"), [(30.0, 1.0, 28.0), (3.0, 1.0, 2.7), (60.0, 0.5, 59.0)]
)
def test_the_silent_are_taken_for_dead_so_soon_that_their_jobs_run_elsewhere_in_time_28(
    dead_after, rescue, silence
):
    chosen = Settings(dead_after_seconds=dead_after, rescue_seconds=rescue)

    assert silence_of_the_dead(chosen) == timedelta(seconds=silence)
