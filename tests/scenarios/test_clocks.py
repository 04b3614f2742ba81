"""Machines whose clocks are wrong: only the database's clock decides."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

from django_jobs.models import Worker, WorkerState
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, kinds, waits
from tests.scenarios.marks import marks

pytestmark = pytest.mark.slow

# The wall clock is wrong; one that only counts seconds can't be.
OFF = {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.mark.skipif(
    shutil.which("faketime") is None, reason="libfaketime isn't installed (on Debian: apt install faketime)"
)
@pytest.mark.parametrize("offset", ["+10m", "-10m"])
class TestWrongClock:
    def test_no_job_starts_early_or_late_107(self, runjobs, offset):
        runjobs("--poll-interval", "600", variables=OFF, prefix=("faketime", "-f", offset)).is_ready()

        delays = [timedelta(seconds=0.4 * number) for number in range(1, 6)]
        seconds = waits(*[tasks.quick.using(run_after=delay).enqueue() for delay in delays])

        assert seconds[0] >= 0
        assert seconds[-1] < 5


@pytest.mark.parametrize("offset", [600, -600])
class TestPatchedClock:
    """Where libfaketime makes waits hang, Python's own clock is set wrong instead."""

    def test_nobody_is_taken_for_dead_and_no_job_runs_twice_107(self, runjobs, offset):
        settings = {"dead_after_seconds": 5, "heartbeat_seconds": 0.5}
        words = ("--no-listen", "--poll-interval", "0.3")
        wrong = runjobs(*words, settings=settings, variables={"SCENARIO_CLOCK": str(offset)})
        right = runjobs(*words, settings=settings)
        for worker in (wrong, right):
            worker.is_ready(listening=False)
        results = [tasks.held.enqueue("open") for _ in range(15)]
        begun("open", 15)
        assert len({mark.pid for mark in marks("begin", "open")}) == 2

        is_done(*[tasks.later.enqueue(1) for _ in range(3)])  # a second later, by whoever
        runjobs.open("open")

        is_done(*results)
        assert len(marks("begin", "open")) == 15
        assert not any(kinds(result) for result in results)
        assert not Worker.objects.filter(state=WorkerState.LOST).exists()
