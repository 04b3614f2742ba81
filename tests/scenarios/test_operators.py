"""What people and clocks do to running workers: pause, resume, cancel, and time out."""

from __future__ import annotations

import os
import signal

import pytest

from django_jobs.models import StateChoices
from django_jobs.operations import Operations
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, is_in, job_of, kinds, usual
from tests.scenarios.marks import marks


class TestPause:
    def test_it_takes_effect_at_once_outlives_a_restart_and_ends_at_once_152(self, runjobs):
        words = ("--poll-interval", "600", "--queue", "default", "--queue", "other")
        worker = runjobs(*words).is_ready()
        is_done(tasks.quick.enqueue())
        operations = Operations()

        assert operations.pause("default")
        paused = [tasks.quick.enqueue("paused")]
        is_done(tasks.quick.using(queue_name="other").enqueue())
        worker.tell(signal.SIGTERM)
        assert worker.ends() == 0
        runjobs(*words).is_ready()
        is_done(tasks.quick.using(queue_name="other").enqueue())
        paused += [tasks.quick.enqueue("paused")]
        is_done(tasks.quick.using(queue_name="other").enqueue())
        assert marks("begin", "paused") == []

        assert operations.resume("default")
        is_done(*paused)
        seconds = []
        for _ in range(5):
            operations.pause("default")
            result = tasks.quick.enqueue()
            operations.resume("default")
            is_done(result)
            [mark] = [mark for mark in marks("begin") if mark.job == int(result.id)]
            seconds.append((mark.at - job_of(result).enqueued_at).total_seconds())
        assert usual(sorted(seconds)) < 1.0


class TestCancel:
    @pytest.mark.parametrize(("then", "state"), [("return", "SUCCESSFUL"), ("fail", "CANCELLED")])
    def test_a_running_sync_body_is_told_and_never_runs_again_58(self, runjobs, then, state):
        runjobs().is_ready()
        result = tasks.cancellable.enqueue("work", then)
        begun("work")

        assert job_of(result).cancel("no longer wanted")

        is_in(result, StateChoices(state))
        assert len(marks("cancelled", "work")) == 1
        is_done(tasks.quick.enqueue())
        assert len(marks("begin", "work")) == 1

    def test_a_running_async_body_is_cancelled(self, runjobs):
        runjobs().is_ready()
        result = tasks.held_async.enqueue("work")
        begun("work")

        assert job_of(result).cancel()

        is_in(result, StateChoices.CANCELLED)
        assert marks("end", "work") == []
        assert kinds(result) == ["CANCELLED"]
        is_done(tasks.quick.enqueue())

    def test_a_body_that_ignores_it_and_is_lost_with_its_worker_is_not_run_again_58(self, runjobs):
        worker = runjobs("--processes", "2", "--threads", "1").is_ready(2)
        result = tasks.held.enqueue("work")
        [mark] = begun("work")
        assert job_of(result).cancel()

        os.kill(mark.pid, signal.SIGKILL)

        is_in(result, StateChoices.CANCELLED)
        worker.is_ready(2)
        assert len(marks("begin", "work")) == 1


@pytest.mark.slow
class TestTimeout:
    @pytest.mark.parametrize("how", ["busy", "blocked", "deaf"])
    def test_a_sync_body_is_recorded_as_timed_out_and_its_slot_works_on_53(self, runjobs, how):
        worker = runjobs("--threads", "2").is_ready()

        results = [tasks.slow.enqueue("stuck", how) for _ in range(2)]

        for result in results:
            is_in(result, StateChoices.FAILED)
            assert kinds(result) == ["TIMEOUT"]
        both = [tasks.held.enqueue("open") for _ in range(2)]
        begun("open", 2)  # at full strength, while the old bodies may still be stuck
        runjobs.open("open")
        is_done(*both)
        assert worker.status is None

    def test_a_process_with_stuck_threads_is_replaced_once_the_others_are_done_53(self, runjobs):
        worker = runjobs("--processes", "2", "--threads", "2").is_ready(2)
        before = {row.pid for row in worker.workers()}
        tasks.slow.enqueue("stuck", "deaf")
        [mark] = begun("stuck")

        eventually(lambda: mark.pid not in worker.children(), 20)

        worker.is_ready(2)
        assert len(before & {row.pid for row in worker.workers()}) == 1
        assert " died" not in worker.said()

    @pytest.mark.parametrize("deaf", [False, True], ids=["cancellable", "deaf"])
    def test_an_async_body_is_recorded_as_timed_out(self, runjobs, deaf):
        runjobs("--async-slots", "1").is_ready()

        result = tasks.slow_async.enqueue("stuck", deaf=deaf)

        is_in(result, StateChoices.FAILED)
        assert kinds(result) == ["TIMEOUT"]
        runjobs.open("open")
        is_done(tasks.held_async.enqueue("open"))
