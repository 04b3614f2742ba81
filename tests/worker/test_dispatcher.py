"""When things go wrong around a worker: refused values, cut connections, being declared dead."""

from __future__ import annotations

import logging

import pytest
from django.db import connection

from django_jobs.core.records import Completed
from django_jobs.core.states import Kind, State
from django_jobs.models import Job, Queue, Worker, WorkerState
from tests import jobs
from tests.eventually import eventually
from tests.rows import row, worker_row
from tests.worker.workers import QUICK, Workers, end_sessions, job_of, settled, state_of, told


@pytest.fixture(autouse=True)
def quick(settings):
    settings.DJANGO_JOBS = QUICK


@pytest.fixture
def workers(transactional_db):
    with Workers() as found:
        yield found


class TestRefusedValues:
    """What the database refuses is a failure of its own job, and of no other."""

    @pytest.fixture
    def broken(self, workers):
        """A worker that takes any text for the JSON of a result."""
        worker = workers.start(threads=4)
        completed = worker.executor.completed

        def without_check(task, value):
            outcome = completed(task, value)
            return Completed(return_value=value, keep=outcome.keep) if isinstance(value, str) else outcome

        worker.executor.completed = without_check
        return worker

    @pytest.mark.parametrize("text", ["{", "", '{"a": 1e}', "a\x01"])
    def test_one_of_many_fails_and_the_others_are_stored(self, broken, text):
        good = [jobs.give.using(queue_name="a").enqueue(number) for number in range(5)]
        bad = jobs.give.using(queue_name="a").enqueue(text)
        good += [jobs.give.using(queue_name="a").enqueue(number) for number in range(5)]

        assert {job_of(result).state for result in good} == {State.SUCCESSFUL}
        job = job_of(bad)
        assert (job.state, job.history()[-1].kind) == (State.FAILED, Kind.ERROR)
        assert "InvalidTextRepresentation" in job.history()[-1].exception_class
        assert broken.tally == {"completed": 10, "failed": 1}

    def test_the_worker_goes_on(self, broken):
        job_of(jobs.give.enqueue("{"))

        assert job_of(jobs.give.enqueue(1)).state == State.SUCCESSFUL
        assert broken.dispatcher.loop.failures == 0

    def test_a_transactional_body_is_rolled_back_and_fails(self, workers, monkeypatch):
        worker = workers.start()
        monkeypatch.setattr(
            worker.executor, "completed", lambda task, value: Completed(return_value="{", keep=None)
        )
        result = jobs.write_queue.using(max_attempts=1).enqueue("mine")

        assert job_of(result).state == State.FAILED
        assert not Queue.objects.exists()


class TestCutConnections:
    def test_of_the_worker_are_made_anew(self, workers):
        worker = workers.start()
        job_of(jobs.ok.enqueue())
        identity = worker.dispatcher.worker

        for value in range(3):
            end_sessions()
            assert job_of(jobs.give.enqueue(value)).attempt == 1

        assert worker.dispatcher.worker == identity
        eventually(lambda: worker.is_healthy)

    def test_cost_no_running_job_its_attempt(self, workers):
        workers.start()
        results = [jobs.wait_for.enqueue(name) for name in "ab"]
        assert {told(), told()} == {"a", "b"}

        end_sessions()
        for name in "ab":
            jobs.gate(name).set()

        assert [(job_of(result).state, job_of(result).attempt) for result in results] == [
            (State.SUCCESSFUL, 1)
        ] * 2

    def test_of_an_idle_slot_are_replaced_before_the_next_job(self, workers):
        workers.start(threads=1)
        first = job_of(jobs.backend_pid.enqueue()).return_value
        again = job_of(jobs.backend_pid.enqueue()).return_value

        end_sessions(first, again)
        then = job_of(jobs.backend_pid.enqueue())

        assert (then.state, then.attempt) == (State.SUCCESSFUL, 1)
        assert then.return_value not in (first, again)

    def test_leave_no_claim_behind_that_nobody_knows_of(self, workers):
        """The answer to a claim got lost: the job runs in the table, and nowhere else."""
        worker = workers.start()
        stray = row(State.RUNNING, worker=worker.dispatcher.worker)

        end_sessions()

        job = job_of(jobs.ok.get_result(str(stray.pk)))
        assert (job.state, job.attempt, job.counted_attempt) == (State.SUCCESSFUL, 2, 1)


class TestLeftOvers:
    def test_of_a_transaction_are_rolled_back_with_a_warning(self, workers, caplog):
        workers.start(threads=1)
        result = jobs.leave_transaction_open.enqueue()

        assert job_of(result).state == State.SUCCESSFUL
        assert job_of(jobs.write_queue.enqueue("next")).state == State.SUCCESSFUL
        assert [queue.name for queue in Queue.objects.all()] == ["next"]
        [record] = [record for record in caplog.records if "left a transaction open" in record.getMessage()]
        assert (record.levelno, record.__dict__["task"]) == (
            logging.WARNING,
            "tests.jobs.leave_transaction_open",
        )


class TestDeclaredDead:
    def test_a_worker_registers_anew_and_goes_on(self, workers, caplog):
        worker = workers.start()
        dead = worker.dispatcher.worker

        Worker.objects.filter(pk=dead).update(state=WorkerState.LOST)

        eventually(lambda: worker.dispatcher.worker != dead)
        assert f"worker {dead} was declared dead" in caplog.text
        job = job_of(jobs.ok.enqueue())
        assert (job.state, job.worker) == (State.SUCCESSFUL, worker.dispatcher.worker)
        eventually(lambda: Worker.objects.get(pk=worker.dispatcher.worker).holds_lock)

    def test_what_it_still_ran_changes_nothing_any_more(self, workers, caplog):
        worker = workers.start()
        dead = worker.dispatcher.worker
        result = jobs.wait_for.enqueue("a")
        told()
        Worker.objects.filter(pk=dead).update(state=WorkerState.LOST)
        eventually(lambda: worker.dispatcher.worker != dead)

        jobs.gate("a").set()

        eventually(lambda: "was taken over while attempt 1 ran here" in caplog.text)
        assert state_of(result) == State.RUNNING


class TestRescue:
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch, settings):
        monkeypatch.setattr("django_jobs.worker.duties.SETTLED_SECONDS", 0.0)
        settings.DJANGO_JOBS = QUICK | {"rescue_seconds": 0.1, "dead_after_seconds": 1.0}

    def test_a_job_of_a_worker_without_its_lock_runs_again(self, workers):
        dead = worker_row(holds_lock=True)
        job = row(State.RUNNING, worker=dead.pk, attempt=2, uncounted=1, max_attempts=5)

        workers.start()

        eventually(lambda: settled(pk=job.pk))
        job.refresh_from_db()
        assert (job.state, job.attempt) == (State.SUCCESSFUL, 3)
        [lost] = job.attempts.all()
        assert (lost.kind, lost.worker, lost.number) == (Kind.LOST, dead.pk, 2)
        assert f"Worker {dead.pk} (w) died" in lost.message
        dead.refresh_from_db()
        assert dead.state == WorkerState.LOST

    def test_a_job_of_a_silent_worker_runs_again(self, workers):
        silent = worker_row(heartbeat_at="2020-01-01 00:00Z")
        job = row(State.RUNNING, worker=silent.pk)

        workers.start()

        eventually(lambda: settled(pk=job.pk))
        silent.refresh_from_db()
        assert (silent.state, silent.ending) == (WorkerState.LOST, "no heartbeat")

    def test_a_job_of_nobody_runs_again(self, workers):
        job = row(State.RUNNING, worker=987_654)

        workers.start()

        eventually(lambda: settled(pk=job.pk))
        assert "of which nothing is known" in job.attempts.get().message

    def test_a_job_that_used_up_its_attempts_fails(self, workers):
        job = row(State.RUNNING, worker=987_654, attempt=3, max_attempts=3)

        workers.start()

        eventually(lambda: settled(pk=job.pk))
        job.refresh_from_db()
        assert (job.state, job.attempts.get().decision) == (State.FAILED, "FAILED")
        assert str(job.reason).startswith("WorkerLost: Worker 987654")

    def test_jobs_of_live_workers_are_left_alone(self, workers):
        first, second = workers.start(), workers.start()
        result = jobs.wait_for.enqueue("a")
        told()
        eventually(lambda: Worker.objects.filter(holds_lock=True).count() == 2)

        def looked(worker):
            before = next(duty for duty in worker.duties.table if duty.name == "rescue").due_at
            return lambda: next(d for d in worker.duties.table if d.name == "rescue").due_at > before

        for _ in range(3):
            for worker in (first, second):
                eventually(looked(worker))

        assert state_of(result) == State.RUNNING
        assert set(Worker.objects.values_list("state", flat=True)) == {WorkerState.RUNNING}

    def test_a_worker_whose_session_was_cut_keeps_its_jobs(self, workers):
        first, _ = workers.start(), workers.start()
        result = jobs.wait_for.enqueue("a")
        told()

        end_sessions()
        eventually(lambda: first.is_healthy)
        jobs.gate("a").set()

        assert job_of(result).attempt == 1


def test_the_dispatchers_session_is_our_own(transactional_db, settings):
    settings.DJANGO_JOBS = QUICK
    with Workers() as workers:
        workers.start()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE application_name = 'django_jobs' AND datname = current_database()"
            )
            assert cursor.fetchone()[0] >= 1
    assert Job.objects.count() == 0
