"""A worker on a real database: jobs go in by enqueueing and come out finished."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_jobs.core.records import Asked, Completed, Ended
from django_jobs.core.states import Decision, Kind, State, Wish
from django_jobs.framework import TaskResultStatus
from django_jobs.models import Job, Queue, Worker, WorkerState
from django_jobs.operations import Operations
from django_jobs.store import link
from django_jobs.worker.memory import memory_bytes
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker as ServingWorker
from tests import jobs
from tests.eventually import eventually
from tests.rows import claimed_job, row, worker_row
from tests.worker.workers import QUICK, Workers, job_of, running, settled, told

OTHERS = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, meta, enqueued_at,
        run_after)
    SELECT 'default', 'tests.jobs.renamed', '[]', '{}', 0, 'READY', 0, 0, '{}', now(),
           now() - interval '1 hour'
      FROM generate_series(1, 1000000)
"""


@pytest.fixture(autouse=True)
def quick(settings):
    settings.DJANGO_JOBS = QUICK


@pytest.fixture
def workers(transactional_db):
    with Workers() as found:
        yield found


class TestJobs:
    @pytest.mark.parametrize("give", [jobs.give, jobs.agive], ids=["sync", "async"])
    def test_run_and_leave_their_value(self, workers, give):
        worker = workers.start()
        result = give.enqueue({"a": [1]})

        job = job_of(result)

        assert (job.state, job.worker, job.attempt) == (State.SUCCESSFUL, worker.dispatcher.worker, 1)
        result.refresh()
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, {"a": [1]})
        assert result.enqueued_at <= result.started_at <= result.finished_at

    def test_that_were_there_before_the_worker_run_too(self, workers):
        results = [jobs.give.enqueue(value) for value in range(20)]
        workers.start()

        for value, result in enumerate(results):
            assert job_of(result).return_value == value

    def test_that_fail_run_again_until_their_attempts_are_used_up(self, workers):
        workers.start()
        result = jobs.fail.enqueue("bad")

        job = job_of(result)

        assert (job.state, job.attempt, job.reason) == (State.FAILED, 3, "Unwell: bad")
        told = [(run.number, run.kind, run.decision) for run in job.history()]
        assert told == [(1, "ERROR", "RETRY"), (2, "ERROR", "RETRY"), (3, "ERROR", "FAILED")]
        result.refresh()
        assert (result.status, len(result.errors), result.attempts) == (TaskResultStatus.FAILED, 3, 3)
        assert result.errors[0].exception_class is jobs.Unwell

    def test_see_in_their_context_what_came_before(self, workers):
        job = row(State.FAILED, task_path=jobs.look.module_path, attempt=3, max_attempts=3)
        job.attempts.create(number=3, kind=Kind.ERROR, exception_class="a.B", traceback="T", worker=5)
        workers.start()

        job.retry(reset_attempts=False)

        context = told()
        assert context.attempt == 4
        assert [error.traceback for error in context.task_result.errors] == ["T"]

    def test_that_snooze_come_back_without_having_counted(self, workers):
        workers.start()
        result = jobs.raising.enqueue("Snooze")
        job = eventually(lambda: Job.objects.filter(pk=result.id, state=State.READY, attempt=1).first())

        assert job is not None
        assert (job.counted_attempt, job.label) == (0, "scheduled")
        assert job.run_after > timezone.now() + timedelta(minutes=59)

    def test_of_unknown_tasks_stay_for_a_worker_that_knows_them(self, workers):
        workers.start()
        unknown = row(task_path="tests.jobs.renamed")
        job_of(jobs.ok.enqueue())

        unknown.refresh_from_db()
        assert (unknown.state, unknown.attempt) == (State.READY, 0)

    def test_are_found_behind_more_of_others_than_a_claim_can_walk_over_in_its_time(
        self, workers, monkeypatch
    ):
        """Or the cycle would be taken back and tried again for ever, with all that ended here."""
        monkeypatch.setitem(link.SESSION, "statement_timeout", "50ms")
        with connection.cursor() as cursor:
            cursor.execute(OTHERS)
        workers.start()

        jobs.give.enqueue(7)
        jobs.agive.enqueue(7)

        ours = Job.objects.filter(task_path__in=[jobs.give.module_path, jobs.agive.module_path])
        eventually(lambda: ours.filter(state=State.SUCCESSFUL).count() == 2, timeout=60)

    def test_start_when_they_are_due(self, workers):
        workers.start()
        soon = timedelta(milliseconds=300)
        result = jobs.ok.using(run_after=soon).enqueue()

        job = job_of(result)

        assert job.last_attempted_at is not None
        assert timedelta(0) <= job.last_attempted_at - job.run_after < timedelta(seconds=2)

    def test_that_leave_no_trace_are_gone(self, workers):
        workers.start()
        result = jobs.leave_no_trace.enqueue()

        eventually(lambda: not Job.objects.filter(pk=result.id).exists())

    def test_start_by_polling_where_nobody_listens(self, workers):
        workers.start(listen=False, poll_seconds=0.1)

        assert job_of(jobs.ok.enqueue()).state == State.SUCCESSFUL

    def test_start_at_once_however_many_files_the_process_has_open(self, workers, many_files):
        worker = workers.start()
        eventually(lambda: worker.is_healthy)

        for number in range(3):
            assert (
                job_of(jobs.backend_pid.enqueue() if number else jobs.give.enqueue(1)).state == "SUCCESSFUL"
            )
        assert worker.is_healthy

    def test_of_a_paused_queue_wait_until_it_is_resumed(self, workers):
        from django_jobs.operations import Operations

        Operations().pause("default")
        workers.start()
        result = jobs.ok.enqueue()
        other = jobs.ok.using(queue_name="other").enqueue()
        assert job_of(other).state == State.SUCCESSFUL
        assert Job.objects.get(pk=result.id).state == State.READY

        Operations().resume("default")

        assert job_of(result).state == State.SUCCESSFUL

    def test_of_other_queues_are_left_alone(self, workers):
        workers.start(queues=("mail",))
        left = jobs.ok.enqueue()
        job_of(jobs.ok.using(queue_name="mail").enqueue())

        assert Job.objects.get(pk=left.id).state == State.READY

    def test_of_excluded_queues_are_left_alone(self, workers):
        workers.start(excluded_queues=("mail",))
        left = jobs.ok.using(queue_name="mail").enqueue()
        job_of(jobs.ok.enqueue())

        assert Job.objects.get(pk=left.id).state == State.READY


class TestSlots:
    def test_all_are_used(self, workers):
        workers.start(threads=4)
        for name in "abcd":
            jobs.wait_for.enqueue(name)

        assert {told() for _ in range(4)} == set("abcd")

    @pytest.mark.parametrize("wait", [jobs.wait_for, jobs.await_gate], ids=["sync", "async"])
    def test_no_more_jobs_run_than_there_are(self, workers, wait):
        workers.start()
        for name in "abcd":
            wait.enqueue(name)
        assert len({told(), told()}) == 2

        assert Job.objects.filter(state=State.RUNNING).count() == 2
        assert jobs.told.empty()

    def test_async_bodies_never_outnumber_them_however_short_they_were(self, workers, monkeypatch):
        """Those that were claimed ahead go back when the loop stays busy."""
        monkeypatch.setattr("django_jobs.worker.dispatcher.AHEAD_PATIENCE", 0.2)
        workers.start()
        jobs.agive.enqueue_many([(value,) for value in range(300)])
        eventually(settled)

        for name in "abcdef":
            jobs.await_gate.enqueue(name)
        assert len({told(), told()}) == 2

        eventually(lambda: Job.objects.filter(state=State.RUNNING).count() == 2)
        assert jobs.told.empty()

    def test_a_queue_gets_no_more_than_its_limit(self, workers):
        workers.start(threads=4, limits={"mail": 1})
        for name in "ab":
            jobs.wait_for.using(queue_name="mail").enqueue(name)
        jobs.wait_for.enqueue("c")
        first = {told(), told()}

        assert "c" in first
        assert Job.objects.filter(state=State.RUNNING, queue_name="mail").count() == 1
        for name in "ab":
            jobs.gate(name).set()
        eventually(lambda: settled(queue_name="mail"))

    def test_a_queues_limit_holds_for_threads_and_event_loop_together(self, workers):
        workers.start(threads=4, async_slots=4, queues=("ledger",), limits={"ledger": 1})
        with transaction.atomic():
            for number in range(4):
                jobs.count_inside.using(queue_name="ledger").enqueue(number)
                jobs.acount_inside.using(queue_name="ledger").enqueue(number)

        eventually(lambda: settled(queue_name="ledger"))

        assert [told() for _ in range(8)] == [1] * 8

    def test_what_was_claimed_ahead_goes_back_when_all_threads_stay_busy(self, workers, monkeypatch):
        """Also while async jobs come and go, which no thread waits for."""
        monkeypatch.setattr("django_jobs.worker.dispatcher.AHEAD_PATIENCE", 0.2)
        worker = workers.start(threads=1)
        worker.dispatcher.ledger.average["sync"] = 0.0
        jobs.wait_for.enqueue("a")
        told()
        ahead = jobs.ok.enqueue()
        eventually(lambda: len(worker.dispatcher.ledger.in_flight) == 2)

        def went_back():
            jobs.agive.enqueue(1)
            return Job.objects.filter(pk=ahead.id, state=State.READY, attempt=1).first()

        job = eventually(went_back)
        assert job is not None
        assert (job.counted_attempt, job.history()) == (0, [])
        jobs.gate("a").set()
        assert job_of(ahead).attempt >= 2

    def test_what_was_claimed_ahead_goes_back_when_jobs_are_no_longer_short(self, workers, monkeypatch):
        """Also while one ends now and then: another worker may have slots that are free."""
        monkeypatch.setattr("django_jobs.worker.dispatcher.AHEAD_PATIENCE", 0.3)
        worker = workers.start(threads=1)
        worker.dispatcher.ledger.average["sync"] = 0.0
        jobs.nap.enqueue_many([(0.1,) for _ in range(40)])
        eventually(lambda: len(worker.dispatcher.ledger.in_flight) == 40)

        eventually(lambda: len(worker.dispatcher.ledger.in_flight) <= 2)

        assert Job.objects.filter(state=State.READY, attempt=1).count() >= 20

    def test_hundreds_of_jobs_come_home(self, workers):
        worker = workers.start(threads=4)
        jobs.ok.enqueue_many([(value,) for value in range(500)])

        eventually(settled, timeout=30)

        eventually(lambda: worker.tally == {"completed": 500})  # counted once it is stored
        assert Job.objects.filter(state=State.SUCCESSFUL, attempt=1).count() == 500
        assert not worker.dispatcher.ledger.in_flight


class TestCancelling:
    def test_a_sync_body_notices(self, workers):
        workers.start()
        result = jobs.wait_for_cancel.enqueue()
        assert told() == "waiting"

        assert Job.objects.get(pk=result.id).cancel("changed my mind")

        job = job_of(result)
        assert (job.state, job.reason) == (State.CANCELLED, "changed my mind")
        assert [(run.decision, run.message) for run in job.history()] == [(Decision.CANCELLED, "noticed")]

    def test_an_async_body_is_cancelled(self, workers):
        workers.start()
        result = jobs.await_gate.enqueue("a")
        told()

        Job.objects.get(pk=result.id).cancel()

        assert job_of(result).state == State.CANCELLED

    def test_a_body_that_fails_instead_does_not_run_again(self, workers):
        workers.start()
        result = jobs.wait_and_fail.enqueue("a")
        told()

        Job.objects.get(pk=result.id).cancel()
        jobs.gate("a").set()

        assert job_of(result).state == State.CANCELLED


class TestTransactionalBodies:
    def test_commit_with_their_outcome(self, workers):
        worker = workers.start()
        result = jobs.write_queue.enqueue("mine")

        assert job_of(result).state == State.SUCCESSFUL
        assert Queue.objects.filter(name="mine").exists()
        eventually(lambda: worker.tally["completed"] == 1)

    @pytest.mark.parametrize("name", ["LookupError", "Fail", "Snooze", "Cancel", "SystemExit"])
    def test_leave_nothing_when_they_did_not_succeed(self, workers, name):
        workers.start()
        result = jobs.write_queue.enqueue("mine", name)

        eventually(lambda: Job.objects.get(pk=result.id).attempts.exists())

        assert not Queue.objects.exists()

    def test_leave_nothing_when_the_job_was_taken_over(self, workers, caplog):
        workers.start()
        other = worker_row()
        result = jobs.write_and_wait.enqueue("mine", "a")
        told()
        Job.objects.filter(pk=result.id).update(attempt=2, worker=other.pk)

        jobs.gate("a").set()

        eventually(lambda: "was taken over while attempt 1 ran here" in caplog.text)
        assert not Queue.objects.exists()
        assert Job.objects.get(pk=result.id).state == State.RUNNING


class TestAnAssumedRole:
    """`OPTIONS["assume_role"]`: the role that logs in has no rights of its own."""

    @pytest.fixture
    def assumed(self, transactional_db):
        """Have all new connections log in as one role and act as another."""
        given = connection.settings_dict
        usual = {name: given[name] for name in ("USER", "PASSWORD", "OPTIONS")}
        with connection.cursor() as cursor:
            cursor.execute(
                'CREATE ROLE "The Owner"; GRANT USAGE ON SCHEMA public TO "The Owner";'
                'GRANT ALL ON ALL TABLES IN SCHEMA public TO "The Owner";'
                "CREATE ROLE visitor LOGIN PASSWORD 'secret' NOINHERIT IN ROLE \"The Owner\""
            )
        options = {**usual["OPTIONS"], "assume_role": "The Owner"}
        given |= {"USER": "visitor", "PASSWORD": "secret", "OPTIONS": options}
        connection.close()
        yield
        given |= usual
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute('DROP OWNED BY "The Owner"; DROP ROLE visitor; DROP ROLE "The Owner"')

    @pytest.mark.parametrize("prepared", [True, False], ids=["own session", "behind a pooler"])
    def test_is_the_workers_too(self, settings, assumed, prepared):
        settings.DJANGO_JOBS = QUICK | {"prepared_statements": prepared}
        with running() as worker:
            assert job_of(jobs.ok.enqueue()).state == State.SUCCESSFUL
            eventually(lambda: worker.is_healthy)

    def test_is_kept_when_the_connection_is_made_anew(self, assumed):
        with running() as worker:
            eventually(lambda: worker.dispatcher.connection).close()

            assert job_of(jobs.ok.enqueue()).state == State.SUCCESSFUL


class TestTheWorkersRow:
    def test_tells_what_it_serves(self, workers):
        worker = workers.start(name="me", queues=("mail", "other"), excluded_queues=("x",), threads=3)

        found = Worker.objects.get(pk=worker.dispatcher.worker)

        assert (found.name, found.queues, found.excluded_queues) == ("me", ["mail", "other"], ["x"])
        assert (found.threads, found.async_slots, found.state) == (3, 2, WorkerState.RUNNING)
        assert "tests.jobs.ok" in found.tasks

    @pytest.mark.parametrize(
        "name", ["x" * 300, "ä" * 300, "a\0b", "a\udcffb"], ids=["long", "wide", "NUL", "surrogate"]
    )
    def test_takes_whatever_name_it_is_given(self, workers, name):
        worker = workers.start(name=name)

        shown = Worker.objects.get(pk=worker.dispatcher.worker).name

        assert shown[0] == name[0]
        assert len(shown) <= 200

    def test_takes_whatever_name_its_host_has(self, workers, monkeypatch):
        monkeypatch.setattr("socket.gethostname", lambda: "h\udcff" * 300)
        worker = workers.start()

        found = Worker.objects.get(pk=worker.dispatcher.worker)

        assert (len(found.host), found.name[0]) == (255, "h")

    def test_says_that_it_holds_its_lock(self, workers):
        worker = workers.start()

        eventually(lambda: Worker.objects.get(pk=worker.dispatcher.worker).holds_lock)

    def test_says_how_it_ended(self, workers):
        worker = workers.start()
        assert worker.stop(10)

        found = Worker.objects.get(pk=worker.dispatcher.worker)

        assert (found.state, found.holds_lock, found.ending) == (WorkerState.STOPPED, False, "stopped")


class TestEnds:
    def test_a_stop_waits_for_what_runs(self, workers):
        worker = workers.start()
        result = jobs.wait_for.enqueue("a")
        told()
        jobs.gate("a").set()

        assert worker.stop(10)

        assert job_of(result).state == State.SUCCESSFUL

    @pytest.mark.parametrize("wait", [jobs.wait_for, jobs.await_gate], ids=["sync", "async"])
    def test_what_does_not_end_in_time_is_handed_back(self, workers, wait):
        worker = workers.start()
        result = wait.enqueue("a")
        told()

        assert not worker.stop(0.05)

        job = Job.objects.get(pk=result.id)
        assert (job.state, job.counted_attempt, job.worker) == (State.READY, 0, None)
        assert [run.kind for run in job.history()] == [Kind.RELEASED]

    def test_what_was_stored_is_announced_before_a_lost_connection_is_made_anew(self, transactional_db):
        worker = ServingWorker(WorkerOptions(threads=1))
        job = claimed_job()
        worker.dispatcher.untold.append((Ended(job, Completed(return_value=None, keep=None)), (job.id,)))

        worker.dispatcher.reset()

        assert not worker.dispatcher.untold
        assert sum(worker.tally.values()) == 1

    def test_after_a_stop_nothing_is_claimed(self, workers):
        worker = workers.start()
        worker.stop(10)

        result = jobs.ok.enqueue()

        assert Job.objects.get(pk=result.id).state == State.READY

    def test_a_stop_before_the_start_has_nothing_to_wait_for(self, transactional_db, caplog):
        worker = ServingWorker(WorkerOptions())
        began = time.monotonic()

        assert worker.stop(60)

        assert time.monotonic() - began < 30
        assert not caplog.records

    def test_after_a_stop_a_start_does_nothing(self, transactional_db):
        result = jobs.ok.enqueue()
        worker = ServingWorker(WorkerOptions())
        worker.stop(60)

        worker.start()

        assert worker.join(10)
        assert worker.stop(60)
        assert Job.objects.get(pk=result.id).state == State.READY
        assert not Worker.objects.exists()

    def test_a_drain_ends_when_nothing_is_left(self, workers):
        done, failed = jobs.ok.enqueue(), jobs.fail.enqueue()
        later = jobs.ok.using(run_after=timedelta(hours=1)).enqueue()

        worker = workers.start(drain=True)

        assert worker.join(20)
        assert (job_of(done).state, job_of(failed).state) == (State.SUCCESSFUL, State.FAILED)
        assert Job.objects.get(pk=later.id).state == State.READY
        assert worker.tally == {"completed": 1, "retried": 2, "failed": 1}
        assert list(worker.dispatcher.ledger.dead) == [int(failed.id)]

    def test_a_worker_may_end_after_so_many_jobs(self, workers):
        worker = workers.start(max_jobs=3)
        jobs.ok.enqueue_many([()] * 3)

        assert worker.join(20)
        assert worker.ending == "recycled after 3 jobs"

    def test_workers_can_be_started_and_stopped_again_and_again(self, workers):
        for value in range(3):
            worker = workers.start()
            assert job_of(jobs.give.enqueue(value)).return_value == value
            assert worker.stop(10)


class TestAsked:
    def row_of(self, worker):
        return Worker.objects.get(pk=worker.dispatcher.worker)

    def test_one_in_a_process_of_someone_elses_drains_however_long_it_takes(self, workers, settings):
        settings.DJANGO_JOBS = {**QUICK, "shutdown_seconds": 0.0}
        worker = workers.start()
        running = jobs.wait_for.enqueue("a")
        told()

        Operations().drain_worker(worker.dispatcher.worker, by="ada")

        eventually(lambda: self.row_of(worker).state == WorkerState.STOPPING)
        waiting = jobs.ok.enqueue()
        assert not worker.join(0.3)
        jobs.gate("a").set()
        assert worker.join(10)
        assert worker.stop(0)
        assert job_of(running).state == State.SUCCESSFUL
        assert Job.objects.get(pk=waiting.id).state == State.READY
        assert self.row_of(worker).ending == "drained, as ada asked"

    def test_one_in_a_process_of_someone_elses_stops_after_the_time_in_the_settings(self, workers, settings):
        settings.DJANGO_JOBS = {**QUICK, "shutdown_seconds": 0.2}
        worker = workers.start()
        running = jobs.wait_for.enqueue("a")
        told()

        Operations().stop_worker(worker.dispatcher.worker, by="ada")

        assert worker.join(10)
        assert Job.objects.get(pk=running.id).state == State.READY
        jobs.gate("a").set()
        worker.stop(0)
        assert self.row_of(worker).ending == "stopped, as ada asked, 1 jobs handed back"

    def test_one_that_stops_hears_of_a_drain_of_all_once_and_says_what_it_did(self, transactional_db):
        heard: list[Asked] = []
        worker = ServingWorker(WorkerOptions(threads=1), on_asked=heard.append)
        alone, with_all = Asked(Wish.STOP, False, "ada"), Asked(Wish.DRAIN, True, "")

        for asked in (alone, with_all, alone, with_all):
            worker.take_in_wish(asked)

        assert heard == [alone, with_all]
        assert worker.ending == "stopped, as ada asked"

    def test_it_hears_at_once_whatever_its_heartbeat(self, workers, settings):
        settings.DJANGO_JOBS = {"heartbeat_seconds": 20.0, "dead_after_seconds": 60.0}
        worker = workers.start()
        eventually(lambda: self.row_of(worker).holds_lock)

        Operations().stop_worker(worker.dispatcher.worker)

        assert worker.join(5)

    def test_what_an_operator_takes_back_before_the_commit_was_never_asked(self, workers):
        worker = workers.start()
        with transaction.atomic():
            Operations().stop_worker(worker.dispatcher.worker)
            transaction.set_rollback(True)

        assert not worker.join(0.5)
        assert self.row_of(worker).asked_to == ""

    def test_its_row_tells_how_large_it_is_and_its_limits(self, workers):
        worker = workers.start(limits={"mail": 2})

        eventually(lambda: self.row_of(worker).memory_bytes)

        assert 10 * 2**20 < self.row_of(worker).memory_bytes < 2**40
        assert self.row_of(worker).limits == {"mail": 2}
        assert (self.row_of(worker).supervisor, self.row_of(worker).supervisor_pid) == ("", None)

    def test_a_system_that_does_not_tell_leaves_it_unknown(self, workers, monkeypatch):
        monkeypatch.setattr("django_jobs.worker.memory.STATM", Path("/nowhere"))
        worker = workers.start()
        eventually(lambda: self.row_of(worker).heartbeat_at > self.row_of(worker).started_at)

        assert self.row_of(worker).memory_bytes is None
        assert memory_bytes() > 0
