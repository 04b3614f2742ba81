"""Several processes: how they are made, recycled, and kept from each other's connections."""

from __future__ import annotations

import signal

import pytest

from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, nothing_runs, rows
from tests.scenarios.marks import marks


@pytest.mark.slow
class TestStartMethod:
    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_processes_of_every_kind_run_jobs_and_end_with_their_group_62(self, runjobs, method):
        worker = runjobs("--processes", "2", "--threads", "1", "--start-method", method).is_ready(2)
        results = [tasks.held.enqueue("open") for _ in range(2)]
        assert len({mark.pid for mark in begun("open", 2)}) == 2

        worker.tell(signal.SIGTERM, group=True)
        eventually(lambda: rows("SELECT 1 FROM django_jobs_worker WHERE state = 'STOPPING'"))
        assert worker.status is None
        runjobs.open("open")

        assert worker.ends() == 0
        is_done(*results)
        assert nothing_runs()
        assert " died" not in worker.said()
        eventually(lambda: not worker.children())

    def test_connections_from_before_the_fork_are_not_used_by_children_60(self, runjobs):
        worker = runjobs("--processes", "2", variables={"SCENARIO_APPS": "tests.scenarios.apps.early"})
        worker.is_ready(2)

        is_done(*[tasks.quick.enqueue() for _ in range(20)])

        assert not rows("SELECT 1 FROM pg_stat_activity WHERE application_name = 'early'")


class TestRecycling:
    def test_a_process_is_replaced_after_so_many_jobs_and_none_is_lost_64(self, runjobs):
        worker = runjobs("--max-jobs", "10", "--threads", "2").is_ready()

        tasks.quick.enqueue_many((str(number),) for number in range(60))

        eventually(lambda: len(marks("begin")) >= 60, 30)
        eventually(lambda: not rows("SELECT 1 FROM django_jobs_job WHERE state <> 'SUCCESSFUL'"), 30)
        assert sorted(int(mark.key) for mark in marks("begin")) == list(range(60))
        assert len({mark.pid for mark in marks("begin")}) > 1
        assert rows("SELECT 1 FROM django_jobs_worker WHERE ending LIKE 'recycled after %%'")
        worker.tell(signal.SIGTERM)
        assert worker.ends() == 0
        assert nothing_runs()
        assert "ERROR" not in worker.said()

    def test_a_process_that_grew_is_replaced_between_jobs_64(self, runjobs):
        worker = runjobs("--max-memory", "1").is_ready()
        first = tasks.held.enqueue("open")
        begun("open")

        runjobs.open("open")
        is_done(first)

        eventually(lambda: rows("SELECT 1 FROM django_jobs_worker WHERE ending LIKE 'recycled at %% MB'"))
        worker.is_ready()
        assert len(marks("begin", "open")) == 1
        is_done(tasks.quick.enqueue())
        # One that hasn't run a job isn't replaced, or a limit that is too low would be a loop.
        assert len(rows("SELECT 1 FROM django_jobs_worker")) <= 4
