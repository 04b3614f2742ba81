"""`runjobs --drain`: what it runs, what it waits for, what it says, and how it ends."""

from __future__ import annotations

from django_jobs.models import Job, StateChoices
from tests.scenarios import tasks
from tests.scenarios.facts import LATER, begun, is_done, job_of, kinds, nothing_runs
from tests.scenarios.marks import marks


class TestDrain:
    def test_an_empty_queue_is_drained_at_once(self, runjobs):
        drain = runjobs("--drain")

        assert drain.ends() == 0
        assert "nothing to do" in drain.said()
        assert nothing_runs()

    def test_it_runs_what_is_due_and_its_retries_but_not_what_is_scheduled_a13(self, runjobs):
        due = [tasks.quick.enqueue(), tasks.flaky.enqueue(2), tasks.later.enqueue(1)]
        scheduled = tasks.quick.using(run_after=LATER).enqueue()

        drain = runjobs("--drain")

        assert drain.ends(30) == 0
        is_done(*due)
        assert job_of(scheduled).state == StateChoices.READY
        assert kinds(due[1]) == ["ERROR", "ERROR"]
        assert "3 completed, 3 retried" in drain.said()

    def test_it_lists_the_jobs_that_failed_for_good_and_its_status_is_4_a13(self, runjobs):
        dead = tasks.flaky.enqueue(9)
        tasks.quick.enqueue()

        drain = runjobs("--drain")

        assert drain.ends(30) == 4
        assert "1 completed, 1 failed, 2 retried" in drain.said()
        assert f"failed: #{dead.id} tests.scenarios.tasks.flaky: " in drain.said()
        assert "attempt 3 of a flaky job" in drain.said().split("Drained in")[1]

    def test_out_of_time_it_hands_back_what_runs_and_its_status_is_5(self, runjobs):
        result = tasks.held.enqueue("stays")

        drain = runjobs("--drain", "--timeout", "1", "--shutdown-timeout", "0")

        assert drain.ends() == 5
        job = job_of(result)
        assert (job.state, job.counted_attempt) == (StateChoices.READY, 0)
        assert kinds(result) == ["RELEASED"]
        assert nothing_runs()

    def test_what_is_enqueued_while_it_drains_is_run_too_a14(self, runjobs):
        first = tasks.held.enqueue("open")
        drain = runjobs("--drain")
        begun("open")

        second = tasks.quick.enqueue()
        is_done(second)
        runjobs.open("open")

        assert drain.ends() == 0
        is_done(first)

    def test_several_drainers_share_the_work_a14(self, runjobs):
        tasks.quick.enqueue_many((str(number),) for number in range(200))

        drainers = [runjobs("--drain", "--threads", "2") for _ in range(3)]

        assert [drain.ends(60) for drain in drainers] == [0, 0, 0]
        assert sorted(int(mark.key) for mark in marks("begin")) == list(range(200))
        assert Job.objects.filter(state=StateChoices.SUCCESSFUL).count() == 200
        assert nothing_runs()
