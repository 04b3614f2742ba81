"""Who lives, and who only looks so: namesakes, long runs, and bodies that take all of the processor."""

from __future__ import annotations

import os
import signal
import time

import pytest

from django_jobs.models import StateChoices, Worker, WorkerState
from tests.eventually import eventually
from tests.scenarios import hostile, tasks
from tests.scenarios.facts import begun, is_done, is_in, kinds
from tests.scenarios.marks import marks

pytestmark = pytest.mark.slow
QUICK = {"heartbeat_seconds": 0.4, "dead_after_seconds": 2.5, "rescue_seconds": 0.3}


class TestNamesakes:
    def test_a_successor_of_the_same_name_keeps_no_job_of_its_predecessor_alive_29(self, runjobs):
        other = runjobs("--worker-name", "Ada", "--exclude-queue", "mail", settings=QUICK).is_ready()
        first = runjobs("--worker-name", "Ada", settings=QUICK).is_ready()
        result = tasks.send.enqueue("open")
        begun("open")

        os.kill(first.pid, signal.SIGKILL)
        second = runjobs("--worker-name", "Ada", settings=QUICK).is_ready()

        again = begun("open", 2)[1]
        assert again.pid == second.pid
        runjobs.open("open")
        is_done(result)
        assert kinds(result) == ["LOST"]
        assert list(Worker.objects.order_by("pk").values_list("name", flat=True)) == ["Ada"] * 3
        assert other.workers()[0].pk != second.workers()[0].pk


class TestLongRuns:
    def test_a_run_far_beyond_the_limit_of_dead_workers_is_started_once_32(self, runjobs):
        for _ in range(2):
            runjobs(settings=QUICK)
        eventually(lambda: Worker.objects.filter(holds_lock=True).count() == 2, 20)
        result, other = tasks.held.enqueue("open"), tasks.held_async.enqueue("open")
        begun("open", 2)
        began = time.monotonic()

        eventually(lambda: time.monotonic() - began > 3 * QUICK["dead_after_seconds"], 20)

        runjobs.open("open")
        is_done(result, other)
        assert len(marks("begin", "open")) == 2
        assert not Worker.objects.filter(state=WorkerState.LOST).exists()


class TestBusyBodies:
    def test_bodies_that_take_all_of_the_processor_keep_no_heartbeat_from_being_sent_38(self, runjobs):
        worker = runjobs("--threads", "4", settings=QUICK).is_ready()
        runjobs("--exclude-queue", "default", settings=QUICK).is_ready()

        results = [hostile.spin_until.enqueue("open") for _ in range(4)]
        begun("open", 4)
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 2 * QUICK["dead_after_seconds"], 20)

        worker.tell(signal.SIGTERM)
        eventually(lambda: Worker.objects.filter(state=WorkerState.STOPPING).exists())
        runjobs.open("open")
        assert worker.ends() == 0
        for result in results:
            assert is_in(result, StateChoices.SUCCESSFUL).attempt == 1
        assert not Worker.objects.filter(state=WorkerState.LOST).exists()
