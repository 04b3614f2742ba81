"""Signals of a worker: after the outcome is stored, in order, and never at the jobs' cost."""

from __future__ import annotations

import logging
import sys
from threading import current_thread

import pytest
from django.utils import timezone

from django_jobs import signals
from django_jobs.backend import JobsBackend
from django_jobs.core.records import Cancelled, Failed, Released, Retried, Snoozed
from django_jobs.core.states import Kind, State
from django_jobs.framework import TaskResultStatus, task_enqueued, task_finished, task_started
from django_jobs.models import Job
from tests import jobs
from tests.eventually import eventually
from tests.rows import LONG_AGO, row, worker_row
from tests.worker.workers import QUICK, Workers, job_of, told

ALL = {
    "enqueued": task_enqueued,
    "started": task_started,
    "finished": task_finished,
    "retrying": signals.job_retrying,
    "failed": signals.job_failed,
    "snoozed": signals.job_snoozed,
    "cancelled": signals.job_cancelled,
    "released": signals.job_released,
    "rescued": signals.job_rescued,
}


class Heard:
    """What receivers were told: the signal's name and what came with it."""

    def __init__(self):
        self.all = []

    def receiver(self, name):
        def receive(sender, **given):
            if "task_result" in given:
                what = given["task_result"]
                state = None if name == "started" else self.state(what.id)
            else:
                what = given["outcome"]
                state = self.state(given["job"].id)
            self.all.append((name, sender, what, state, sys.exc_info()[1]))

        return receive

    def state(self, job_id):
        return Job.objects.values_list("state", flat=True).get(pk=job_id)

    @property
    def names(self):
        return [entry[0] for entry in self.all]

    def of(self, name):
        [entry] = eventually(lambda: [entry for entry in self.all if entry[0] == name])
        return entry[1:]


@pytest.fixture
def heard(transactional_db, settings):
    settings.DJANGO_JOBS = QUICK
    found = Heard()
    receivers = {name: found.receiver(name) for name in ALL}
    for name, signal in ALL.items():
        signal.connect(receivers[name])
    yield found
    for name, signal in ALL.items():
        signal.disconnect(receivers[name])


@pytest.fixture
def workers(heard):
    with Workers() as found:
        yield found


class TestSignals:
    @pytest.mark.parametrize("give", [jobs.give, jobs.agive], ids=["sync", "async"])
    def test_of_a_success(self, workers, heard, give):
        workers.start()
        give.enqueue([1])

        sender, result, state, _ = heard.of("finished")

        assert (sender, state) == (JobsBackend, State.SUCCESSFUL)
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, [1])
        assert result.finished_at is not None
        assert sorted(heard.names) == ["enqueued", "finished", "started"]

    def test_of_a_failure_come_while_the_exception_is_handled(self, workers, heard):
        workers.start()
        jobs.fail_once.enqueue()

        _, result, state, exception = heard.of("finished")

        assert (result.status, state) == (TaskResultStatus.FAILED, State.FAILED)
        assert isinstance(exception, jobs.Unwell)
        assert [error.exception_class for error in result.errors] == [jobs.Unwell]
        _, outcome, *_ = heard.of("failed")
        assert isinstance(outcome, Failed)
        assert [name for name in heard.names if name != "enqueued"] == ["started", "failed", "finished"]

    def test_of_retries_come_in_order(self, workers, heard):
        workers.start()
        result = jobs.fail.enqueue()

        _, last, *_ = heard.of("finished")

        # The next attempt may start before a receiver has heard of the last: that is told by another thread.
        assert [name for name in heard.names if name != "started"] == [
            "enqueued",
            "retrying",
            "retrying",
            "failed",
            "finished",
        ]
        assert heard.names.count("started") == 3
        assert [type(entry[2]) for entry in heard.all if entry[0] == "retrying"] == [Retried, Retried]
        assert len(last.errors) == 3
        result.refresh()
        assert result.errors == last.errors

    def test_of_a_snooze(self, workers, heard):
        workers.start()
        jobs.raising.enqueue("Snooze")

        _, outcome, state, _ = heard.of("snoozed")

        assert isinstance(outcome, Snoozed)
        assert state == State.READY

    def test_of_a_job_that_cancelled_itself(self, workers, heard):
        workers.start()
        jobs.raising.enqueue("Cancel")

        _, result, *_ = heard.of("finished")

        assert result.status == TaskResultStatus.FAILED
        _, outcome, state, _ = heard.of("cancelled")
        assert isinstance(outcome, Cancelled)
        assert state == State.CANCELLED

    def test_of_a_job_that_is_handed_back(self, workers, heard):
        worker = workers.start()
        jobs.wait_for.enqueue("a")
        told()

        worker.stop(0.05)

        _, outcome, state, _ = heard.of("released")
        assert isinstance(outcome, Released)
        assert state == State.READY

    def test_of_a_rescue(self, workers, heard, monkeypatch):
        monkeypatch.setattr("django_jobs.worker.duties.SETTLED_SECONDS", 0.0)
        dead = worker_row(state="LOST")
        row(State.RUNNING, worker=dead.pk, attempt=3, max_attempts=3)
        workers.start()

        _, outcome, state, _ = heard.of("rescued")

        assert (outcome.kind, state) == (Kind.LOST, State.FAILED)
        _, result, *_ = heard.of("finished")
        assert result.status == TaskResultStatus.FAILED
        assert result.errors[0].exception_class_path == "django_jobs.exceptions.WorkerLost"

    def test_of_a_dead_workers_job_that_someone_had_asked_to_cancel(self, workers, heard, caplog):
        row(State.RUNNING, worker=999_999, max_attempts=5, cancel_requested_at=timezone.now())
        workers.start()

        _, outcome, state, _ = heard.of("cancelled")

        assert (type(outcome), state) == (Cancelled, State.CANCELLED)
        _, result, *_ = heard.of("finished")
        assert result.status == TaskResultStatus.FAILED
        assert heard.names == ["cancelled", "finished"]
        assert "next attempt" not in caplog.text

    def test_of_a_dead_workers_job_show_it_as_it_is(self, workers, heard):
        hear, receiver = [], lambda job, **rest: hear.append(job)
        signals.job_rescued.connect(receiver)
        job = row(State.RUNNING, worker=999_999, run_after=LONG_AGO, enqueued_at=LONG_AGO, meta={"by": "ada"})
        workers.start()

        [told] = eventually(lambda: hear)

        assert (told.run_after, told.enqueued_at, told.started_at) == (LONG_AGO, LONG_AGO, job.started_at)
        assert (told.last_attempted_at, told.meta) == (job.last_attempted_at, '{"by": "ada"}')


class TestReceivers:
    def test_that_raise_harm_nothing(self, workers, heard, caplog):
        def receive(**kwargs):
            raise jobs.Unwell("receiver")

        for signal in ALL.values():
            signal.connect(receive)
        try:
            workers.start()
            result = jobs.fail.enqueue()
            assert job_of(result).state == State.FAILED
            heard.of("finished")
            assert job_of(jobs.give.enqueue(1)).state == State.SUCCESSFUL
        finally:
            for signal in ALL.values():
                signal.disconnect(receive)

    def test_that_end_programs_do_not_end_the_announcer(self, workers, heard):
        def receive(**kwargs):
            raise SystemExit

        signals.job_snoozed.connect(receive)
        try:
            workers.start()
            job_of(jobs.raising.enqueue("Snooze"), State.READY)
            eventually(lambda: "snoozed" in heard.names)
        finally:
            signals.job_snoozed.disconnect(receive)
        jobs.fail_once.enqueue()

        assert heard.of("failed")

    def test_run_neither_in_the_dispatcher_nor_in_a_slot(self, workers, heard):
        names = []

        def receive(**kwargs):
            names.append(current_thread().name)

        task_finished.connect(receive)
        try:
            workers.start()
            jobs.ok.enqueue()
            eventually(lambda: names)
        finally:
            task_finished.disconnect(receive)

        assert names == ["django_jobs-announcer"]

    def test_that_leave_a_transaction_open_are_cleaned_up_after(self, workers, heard, caplog):
        def receive(**kwargs):
            jobs.leave_transaction_open.func()

        task_finished.connect(receive)
        try:
            workers.start()
            jobs.ok.enqueue()
            eventually(lambda: "a signal's receiver left a transaction open" in caplog.text)
        finally:
            task_finished.disconnect(receive)


class TestLogLines:
    def test_each_transition_has_one_record(self, workers, heard, caplog):
        caplog.set_level(logging.DEBUG, logger="django_jobs")
        workers.start()
        results = [task.enqueue() for task in (jobs.ok, jobs.fail)]
        for result in results:
            job_of(result)
        heard_of = eventually(
            lambda: (
                heard.names.count("finished") == 2
                and [
                    record
                    for record in caplog.records
                    if record.name == "django_jobs" and "job_id" in vars(record)
                ]
            )
        )

        lines = {(vars(record)["task"], record.levelname) for record in heard_of if "attempt" in vars(record)}
        assert ("tests.jobs.ok", "DEBUG") in lines
        assert ("tests.jobs.fail", "WARNING") in lines
        assert ("tests.jobs.fail", "ERROR") in lines
        failed = [record for record in heard_of if vars(record)["task"] == "tests.jobs.fail"]
        assert [vars(record)["attempt"] for record in failed] == [1, 2, 3]
