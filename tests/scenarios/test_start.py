"""When jobs start: by notification, by polling, when they are due, and from which queues."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_jobs.models import Job, StateChoices
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, job_of, lock_holders, most_at_once, usual, waits
from tests.scenarios.marks import marks


class TestWaking:
    def test_an_idle_worker_starts_a_job_of_each_of_its_queues_at_once_25(self, runjobs):
        runjobs("--poll-interval", "600", "--queue", "default", "--queue", "mail").is_ready()
        runjobs.open("hello")

        for task in (tasks.quick, tasks.send):
            seconds = [waits(task.enqueue("hello"))[0] for _ in range(5)]
            assert usual(sorted(seconds)) < 1.0

    def test_without_a_listener_jobs_are_found_by_polling_15(self, runjobs):
        runjobs("--no-listen", "--poll-interval", "0.2").is_ready(listening=False)

        seconds = waits(*[tasks.quick.enqueue() for _ in range(3)])

        assert usual(seconds) < 2.0
        assert not lock_holders()

    def test_a_scheduled_job_starts_when_it_is_due_and_never_before_111(self, runjobs):
        runjobs("--poll-interval", "600").is_ready()

        delays = [timedelta(seconds=0.2 * number) for number in range(1, 8)]
        seconds = waits(*[tasks.quick.using(run_after=delay).enqueue() for delay in delays])

        assert seconds[0] >= 0
        assert usual(seconds) < 0.5

    def test_jobs_that_were_there_before_the_worker_are_found_at_its_start(self, runjobs):
        result = tasks.quick.enqueue()

        runjobs("--poll-interval", "600")

        is_done(result)


class TestQueues:
    def test_a_limit_holds_for_its_queue_alone(self, runjobs):
        runjobs("--queue", "mail:2", "--queue", "default", "--threads", "6").is_ready()
        mails = [tasks.send.enqueue("mail") for _ in range(5)]
        begun("mail", 2)

        is_done(*[tasks.quick.enqueue() for _ in range(3)])

        assert len(marks("begin", "mail")) == 2
        runjobs.open("mail")
        is_done(*mails)
        assert most_at_once(marks(key="mail")) == 2

    def test_only_the_queues_named_are_served(self, runjobs):
        runjobs("--queue", "default").is_ready()
        mail = tasks.send.enqueue("mail")

        is_done(tasks.quick.enqueue())

        assert job_of(mail).state == StateChoices.READY

    def test_an_excluded_queue_is_not_served(self, runjobs):
        runjobs("--exclude-queue", "mail").is_ready()
        mail = tasks.send.enqueue("mail")

        is_done(tasks.quick.enqueue(), tasks.quick.using(queue_name="other").enqueue())

        assert job_of(mail).state == StateChoices.READY


@pytest.mark.slow
class TestLoad:
    def test_three_processes_run_two_thousand_jobs_once_each_149(self, runjobs):
        tasks.quick.enqueue_many((str(number),) for number in range(2000))

        for _ in range(2):
            runjobs("--threads", "4")
        drain = runjobs("--drain", "--threads", "4")

        assert drain.ends(90) == 0
        eventually(lambda: not Job.objects.exclude(state=StateChoices.SUCCESSFUL).exists(), 60)
        began = marks("begin")
        assert sorted(int(mark.key) for mark in began) == list(range(2000))
        assert {mark.attempt for mark in began} == {1}
        assert len({mark.pid for mark in began}) > 1
        for process in runjobs.started:
            assert "ERROR" not in process.said()
