"""A network that loses, delays and swallows what goes through it."""

from __future__ import annotations

import time
from functools import partial

import pytest

from django_jobs.models import Job, StateChoices, Worker, WorkerState
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker as EmbeddedWorker
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, kinds, rows, usual, waits
from tests.scenarios.marks import marks


class TestDroppedConnections:
    def test_outcomes_are_stored_once_and_work_goes_on_4_10(self, runjobs, through_proxy, proxy):
        worker = through_proxy("--poll-interval", "600").is_ready()
        results = [tasks.held.enqueue("open", end=False) for _ in range(3)]
        begun("open", 3)

        for _ in range(3):
            proxy.cut()
        runjobs.open("open")

        is_done(*results)
        is_done(*[tasks.quick.enqueue() for _ in range(6)])
        assert len(marks("begin", "open")) == 3
        assert not any(kinds(result) for result in results)
        worker.is_ready()

    def test_answers_that_are_lost_run_nothing_twice_and_lose_nothing_10_46(self, through_proxy, proxy):
        worker = through_proxy("--threads", "4", "--poll-interval", "0.5").is_ready()

        def noticed(batch: int) -> bool:
            return worker.said().count("trying again") > batch or not unfinished()

        for batch in range(4):
            tasks.quick.enqueue_many((str(batch * 20 + number),) for number in range(20))
            for line in proxy.choose(lambda line: not line.listens):
                line.deaf = True
            eventually(partial(noticed, batch), 20)

        eventually(lambda: not unfinished(), 40)
        # A claim whose answer was lost is handed back: it counts no attempt, and its body never began.
        began = [mark.job for mark in marks("begin")]
        failed = set(rows("SELECT job_id FROM django_jobs_attempt WHERE kind = 'ERROR'"))
        assert len(set(began)) == 80
        assert {job for job in began if began.count(job) > 1} <= {job for [job] in failed}
        worker.is_ready()


def unfinished() -> bool:
    return Job.objects.filter(finished_at=None).exists()


class TestSlowNetwork:
    def test_it_makes_jobs_late_and_nothing_else(self, through_proxy, proxy):
        worker = through_proxy("--poll-interval", "600", settings={"dead_after_seconds": 10}).is_ready()
        [row] = worker.workers()
        proxy.delay = 0.1

        is_done(*[tasks.quick.enqueue() for _ in range(10)])

        assert worker.is_ready().workers() == [row]
        assert not rows("SELECT 1 FROM django_jobs_attempt")


@pytest.mark.slow
class TestHalfOpen:
    def test_a_listener_whose_peer_is_silent_is_replaced_within_a_minute_6(self, through_proxy, proxy):
        worker = through_proxy("--poll-interval", "600").is_ready()
        frozen = time.monotonic()
        for line in proxy.choose(lambda line: line.listens):
            line.frozen = True

        # The server takes the old session for alive, lock and all: until then only the heartbeat counts.
        eventually(lambda: proxy.choose(lambda line: line.listens and not line.frozen), 60)

        print(f"half-open listener replaced after {time.monotonic() - frozen:.1f} s")
        assert usual(sorted(waits(tasks.quick.enqueue())[0] for _ in range(5))) < 1.0
        assert worker.is_ready(listening=False)

    def test_a_dispatcher_whose_peer_is_silent_connects_anew_and_goes_on(
        self, queue, proxy, monkeypatch, tmp_path, settings
    ):
        """In this process, with a shorter patience than the 65 seconds that a worker has."""
        from django.db import connections

        monkeypatch.setenv("SCENARIO_FOLDER", str(tmp_path))
        monkeypatch.setattr("django_jobs.worker.process.FROZEN_SECONDS", 2.0)
        monkeypatch.setattr("django_jobs.worker.process.WATCH_SECONDS", 0.2)
        settings.DJANGO_JOBS = {"heartbeat_seconds": 0.3, "dead_after_seconds": 60}
        usual_place = connections["default"].settings_dict.copy()
        connections["default"].settings_dict |= {"HOST": "127.0.0.1", "PORT": str(proxy.port)}
        worker = EmbeddedWorker(WorkerOptions(threads=1))
        try:
            worker.start()
            eventually(lambda: worker.is_healthy)
            for line in proxy.choose(lambda line: not line.listens):
                line.frozen = True

            eventually(lambda: not worker.is_healthy or worker.dispatcher.loop.failures, 20)
            connections["default"].settings_dict |= usual_place
            connections["default"].close()
            eventually(lambda: worker.is_healthy and not worker.dispatcher.loop.failures, 30)
            is_done(tasks.quick.enqueue())
        finally:
            connections["default"].settings_dict |= usual_place
            worker.stop(5)
        assert not Worker.objects.filter(state=WorkerState.LOST).exists()
        assert not Job.objects.exclude(state=StateChoices.SUCCESSFUL).exists()
