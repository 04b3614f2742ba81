"""Bodies that do what no body should: their own run may fail, and nothing else."""

from __future__ import annotations

import pytest

from django_jobs.models import Attempt, StateChoices
from tests.scenarios import hostile, tasks
from tests.scenarios.facts import begun, is_done, is_in, job_of, kinds
from tests.scenarios.harness import Process

TWO_THREADS = ("--threads", "2", "--poll-interval", "600")


def works_at_full_strength(runjobs, worker: Process, name: str) -> None:
    """Both threads run jobs at the same time, and on sessions that nobody spoilt."""
    results = [tasks.held.enqueue(name) for _ in range(2)]
    begun(name, 2)
    runjobs.open(name)
    is_done(*results, *[tasks.quick.enqueue() for _ in range(6)])
    assert worker.status is None


class TestHostileBodies:
    """One worker for all of them: what one leaves behind would meet the next."""

    def test_none_ends_the_worker_or_spoils_it_for_others_4_70_121_123(self, runjobs):
        worker = runjobs(*TWO_THREADS, settings={"max_error_chars": 2000}).is_ready()

        for number, (how, state) in enumerate(hostile.BODIES.items()):
            result = hostile.misbehave.enqueue(how)

            job = is_in(result, StateChoices(state))

            assert job.attempt == 1, how
            recorded = list(Attempt.objects.filter(job=job).values_list("kind", flat=True))
            assert recorded == ([] if state == "SUCCESSFUL" else ["ERROR"]), how
            works_at_full_strength(runjobs, worker, f"after-{number}")
        assert worker.is_ready().workers()
        assert "Fatal" not in worker.said()

    def test_a_cancelled_or_exiting_async_body_ends_itself_alone_123(self, runjobs):
        worker = runjobs(*TWO_THREADS).is_ready()
        other = tasks.held_async.enqueue("open")
        begun("open")

        for how in ("SystemExit", "KeyboardInterrupt", "CancelledError", "GeneratorExit"):
            is_in(hostile.misbehave_async.enqueue(how), StateChoices.FAILED)

        runjobs.open("open")
        is_done(other, tasks.held_async.enqueue("open"))
        assert worker.status is None


class TestProcesses:
    def test_one_that_runs_out_of_memory_fails_and_its_process_works_on_63(self, runjobs):
        worker = runjobs("--processes", "2", "--threads", "1").is_ready(2)

        result = hostile.eat_memory.enqueue()

        job = is_in(result, StateChoices.FAILED)
        assert kinds(result) in (["ERROR"], ["LOST"])
        assert "Memory" in str(job.reason) or "died" in str(job.reason)
        is_done(*[tasks.quick.enqueue() for _ in range(10)])
        worker.is_ready(2)

    @pytest.mark.parametrize("how", ["child exits", "child returns"])
    def test_one_that_forks_has_one_outcome_and_the_worker_its_connections_60(self, runjobs, how):
        worker = runjobs(*TWO_THREADS).is_ready()

        result = hostile.fork.enqueue(how)

        is_done(result)
        works_at_full_strength(runjobs, worker, "after")
        assert len(worker.workers()) == 1
        assert "was declared dead" not in worker.said()


class TestUnloadableTasks:
    def test_a_module_that_raises_ends_the_start_with_status_1_and_no_attempt_126(self, runjobs):
        result = tasks.quick.enqueue()
        worker = runjobs(variables={"SCENARIO_APPS": "tests.scenarios.apps.raising"})

        assert worker.ends() == 1
        assert "ModuleOfTheDay" in worker.said()
        assert job_of(result).attempt == 0
        runjobs()
        is_done(result)

    def test_a_task_that_is_gone_waits_and_the_jobs_after_it_run_126_133(self, runjobs):
        from tests.rows import row

        gone = row(task_path="tests.scenarios.tasks.removed", priority=50)
        odd = row(task_path="os.system", args=["touch /tmp/never"], priority=60)
        runjobs("--threads", "1").is_ready()

        is_done(*[tasks.quick.enqueue() for _ in range(5)])

        for waiting in (gone, odd):  # only registered tasks run from a row
            waiting.refresh_from_db()
            assert (waiting.state, waiting.attempt) == (StateChoices.READY, 0)
