"""Two versions of the code at once."""

from __future__ import annotations

from django_jobs.models import StateChoices
from tests.scenarios import tasks
from tests.scenarios.apps.newer.tasks import fresh
from tests.scenarios.facts import is_done, job_of, kinds
from tests.scenarios.marks import marks


class TestRollingDeploy:
    def test_a_job_waits_for_a_worker_whose_code_has_its_task_127(self, runjobs):
        runjobs("--poll-interval", "0.2").is_ready()
        result = fresh.enqueue()
        is_done(*[tasks.quick.enqueue() for _ in range(5)])
        assert job_of(result).state == StateChoices.READY
        assert job_of(result).attempt == 0

        newer = runjobs("--queue", "default", variables={"SCENARIO_APPS": "tests.scenarios.apps.newer"})

        is_done(result)
        assert kinds(result) == []
        assert [mark.pid for mark in marks("begin", "fresh")] == [newer.pid]
