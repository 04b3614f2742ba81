"""When things go wrong around a worker: refused values, cut connections, being declared dead."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

import psycopg
import pytest
from django.db import OperationalError, connection

from django_jobs import conf
from django_jobs.core.backoff import Constant
from django_jobs.core.records import Completed, Ended
from django_jobs.core.states import Kind, State
from django_jobs.models import Attempt, Job, Queue, Worker, WorkerState
from django_jobs.store import finish
from django_jobs.store.link import run_together
from django_jobs.store.workers import lock
from django_jobs.worker.duties import SETTLED_SECONDS
from tests import jobs
from tests.eventually import eventually
from tests.rows import row, worker_row
from tests.scenarios import marks
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


class TestUnwritableOutcomes:
    """A trigger of the project's refuses whatever is written for one job."""

    @pytest.fixture
    def refused(self, transactional_db, monkeypatch):
        monkeypatch.setattr("django_jobs.worker.storing.ASIDE_SECONDS", 0.3)
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'not this one: %', NEW.args; END $$;"
                "CREATE TRIGGER refuse BEFORE UPDATE ON django_jobs_job FOR EACH ROW"
                " WHEN (NEW.queue_name = 'odd' AND OLD.state = 'RUNNING') EXECUTE FUNCTION refuse()"
            )
        yield
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION IF EXISTS refuse CASCADE")

    def test_stand_in_nobody_elses_way_and_are_tried_again(self, refused, workers, caplog):
        worker = workers.start()
        odd = jobs.give.using(queue_name="odd").enqueue("odd one")
        eventually(lambda: "refuses every outcome" in caplog.text)

        others = [jobs.give.enqueue(number) for number in range(20)]

        assert {job_of(result).state for result in others} == {State.SUCCESSFUL}
        assert state_of(odd) == State.RUNNING
        assert worker.dispatcher.loop.failures == 0
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refuse CASCADE")
        job = job_of(odd)
        assert (job.state, job.attempt) == (State.FAILED, 1)
        assert "RaiseException" in job.history()[-1].exception_class

    def test_do_not_keep_the_worker_from_ending(self, refused, workers, caplog):
        worker = workers.start()
        jobs.give.using(queue_name="odd").enqueue(1)
        eventually(lambda: "refuses every outcome" in caplog.text)

        assert not worker.stop(0.1)


class TestLostAnswers:
    """The connection broke after the commit that stored an outcome, before its answer came."""

    @pytest.fixture
    def lossy(self, monkeypatch):
        """Lose the answer to the first commit of outcomes."""
        lost: list[bool] = []

        def run_and_lose(link, statements, **given):
            rows = run_together(link, statements, **given)
            if not lost and any(text in finish.STATEMENTS for text, _ in statements):
                lost.append(True)
                raise psycopg.OperationalError("the connection broke")
            return rows

        monkeypatch.setattr("django_jobs.worker.storing.run_together", run_and_lose)
        return lost

    @pytest.mark.parametrize(
        ("task", "args", "name"),
        [
            (jobs.give, [7], "completed"),
            (jobs.leave_no_trace, [], "completed"),
            (jobs.fail_once, [], "failed"),
            (jobs.raising, ["Retry"], "retried"),
            (jobs.raising, ["Snooze"], "snoozed"),
            (jobs.raising, ["Cancel"], "cancelled"),
        ],
    )
    def test_do_not_keep_an_outcome_from_being_announced(
        self, workers, lossy, monkeypatch, caplog, task, args, name
    ):
        worker = workers.start()
        announced: list[Ended] = []
        monkeypatch.setattr(worker.dispatcher, "announce", announced.append)
        result = task.enqueue(*args)

        eventually(lambda: announced)

        assert lossy
        assert worker.tally == {name: 1}
        assert [end.job.id for end in announced] == [int(result.id)]
        assert "taken over" not in caplog.text

    def test_of_a_transactional_body_are_told_as_what_was_committed(self, workers, monkeypatch, caplog):
        worker = workers.start()
        announced: list[Ended] = []
        monkeypatch.setattr(worker.dispatcher, "announce", announced.append)
        run = worker.executor.run_transactional

        def run_and_lose(*given):
            run(*given)
            raise OperationalError("the connection broke in its commit")

        monkeypatch.setattr(worker.executor, "run_transactional", run_and_lose)
        result = jobs.write_queue.enqueue("mine")

        [end] = eventually(lambda: announced)

        assert isinstance(end.outcome, Completed)
        assert (state_of(result), Queue.objects.count()) == (State.SUCCESSFUL, 1)
        assert "taken over" not in caplog.text


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

        first = Attempt.objects.filter(job_id=result.id, number=1)
        eventually(lambda: "was taken over while attempt 1 ran here" in caplog.text or first.exists())
        job = Job.objects.get(pk=result.id)
        assert (job.state, job.attempt) == (State.RUNNING, 1) or first.get().kind == Kind.LOST


class TestANewWorker:
    """One whose connection has not stood for long: after an outage everybody looks dead."""

    def test_judges_nobody_that_it_never_saw_alive(self, workers, settings):
        settings.DJANGO_JOBS = QUICK | {"rescue_seconds": 0.05, "dead_after_seconds": 1.0}
        gone, silent = worker_row(holds_lock=True), worker_row(heartbeat_at="2020-01-01 00:00Z")
        worker = workers.start()
        looks: list[None] = []
        duty = next(duty for duty in worker.duties.table if duty.name == "rescue")
        run = duty.run

        def counted(*given):
            looks.append(None)
            return run(*given)

        duty.run = counted

        eventually(lambda: len(looks) > 5)

        assert set(Worker.objects.filter(pk__in=[gone.pk, silent.pk]).values_list("state", flat=True)) == {
            WorkerState.RUNNING
        }

    def test_misses_one_whose_lock_it_saw(self, workers, settings):
        settings.DJANGO_JOBS = QUICK | {"rescue_seconds": 0.05}
        dying = worker_row(holds_lock=True)
        job = row(State.RUNNING, worker=dying.pk)
        with psycopg.connect(**marks.address(), autocommit=True) as session:
            session.execute(*lock(dying.pk, conf.current().lock_class))
            worker = workers.start()
            eventually(lambda: dying.pk in worker.duties.met)
            job.refresh_from_db()
            assert job.state == State.RUNNING

        eventually(lambda: settled(pk=job.pk))

        assert worker.dispatcher.connected_for() < SETTLED_SECONDS
        dying.refresh_from_db()
        assert (dying.state, dying.ending) == (WorkerState.LOST, "its session ended")


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

    @pytest.mark.parametrize("attempt", [1, 2], ids=["at once", "after a delay"])
    def test_a_job_that_the_rescuer_does_not_serve_need_not_wait_for_a_poll(self, workers, settings, attempt):
        settings.DJANGO_JOBS |= {"rescue_seconds": 60.0, "dead_after_seconds": 600.0}
        settings.DJANGO_JOBS |= {"backoff": Constant(timedelta(seconds=0.5), jitter=0)}
        heir = workers.start(queues=("default",))
        wheel = heir.dispatcher
        [orphans] = (duty for duty in heir.duties.table if duty.name == "orphans")
        eventually(lambda: wheel.greeted and orphans.due_at > time.monotonic() + 60)
        eventually(lambda: wheel.claiming.seconds_left(time.monotonic(), wheel.ledger.free(()), {}) > 30)
        job = row(State.RUNNING, worker=987_654, attempt=attempt)

        workers.start(queues=("other",))

        eventually(lambda: settled(pk=job.pk))
        job.refresh_from_db()
        assert (job.state, job.worker) == (State.SUCCESSFUL, heir.dispatcher.worker)

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

    def test_many_workers_share_the_looks(self, workers, settings):
        settings.DJANGO_JOBS |= {"rescue_seconds": 2.0, "dead_after_seconds": 600.0}
        for _ in range(50):
            worker_row()
        worker = workers.start()

        [rescue] = (duty for duty in worker.duties.table if duty.name == "rescue")

        eventually(lambda: rescue.due_at - time.monotonic() > 2.0 * 5)

    def test_a_worker_that_is_alone_looks_at_nobody(self, workers, monkeypatch):
        looks = []
        monkeypatch.setattr("django_jobs.worker.duties.look_for_dead", lambda *given: looks.append(given))
        worker = workers.start()
        [rescue] = (duty for duty in worker.duties.table if duty.name == "rescue")
        first = rescue.due_at

        eventually(lambda: rescue.due_at > first + 0.3)

        assert not looks

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
