"""The helpers for projects' own tests, used as a project would."""

from __future__ import annotations

import inspect
import itertools
import sys
import unittest
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from django_jobs import conf, signals
from django_jobs.core.records import Cancelled, Failed, Retried
from django_jobs.framework import TaskResultStatus, task_backends, task_finished, task_started
from django_jobs.models import Job, Queue, Worker
from django_jobs.tasks import registry
from django_jobs.testing import (
    JobsTestMixin,
    TooManyRuns,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    enqueued,
    immediate,
    run_due,
)
from tests import errands
from tests.errands import MINUTE, seen

pytest_plugins = ["django_jobs.testing.fixtures"]


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


class TestRunningWhatIsDue:
    pytestmark = pytest.mark.django_db

    def test_a_job_that_was_just_enqueued_runs_inside_the_tests_transaction(self):
        result = errands.add.enqueue(3)

        ran = run_due()

        result.refresh()
        assert connection.in_atomic_block
        assert (ran.completed, len(ran), seen) == (1, 1, [(3, 2)])
        assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 5, 1)

    def test_nothing_due_is_nothing_run(self):
        assert not run_due()
        assert str(run_due()) == "nothing ran"

    def test_jobs_run_in_the_order_of_a_worker(self):
        errands.add.enqueue(1)
        errands.post.enqueue("first by priority")
        errands.add.enqueue(2)

        run_due()

        assert seen == ["first by priority", (1, 2), (2, 2)]

    def test_what_is_scheduled_runs_at_its_moment_and_not_before(self):
        due = timezone.now() + timedelta(days=300)
        errands.add.using(run_after=due).enqueue(1)

        assert not run_due()
        assert not run_due(at=due - timedelta(microseconds=1))
        assert run_due(at=due).moment == due
        assert Job.objects.get().finished_at == due

    def test_the_moment_may_be_given_as_a_delay(self):
        errands.add.using(run_after=timedelta(hours=1)).enqueue(1)

        assert not run_due(at=timedelta(minutes=59))
        assert run_due(at=timedelta(minutes=61)).completed == 1

    def test_a_moment_without_time_zone_is_refused(self):
        with pytest.raises(ValueError, match="has no time zone"):
            run_due(at=timezone.now().replace(tzinfo=None))

    def test_a_retry_is_due_only_when_the_moment_says_so(self):
        errands.fail_twice.enqueue()

        first = run_due()
        again = run_due(at=first.moment + timedelta(seconds=59))
        second = run_due(at=first.moment + MINUTE)

        assert (first.retried, len(again), second.retried) == (1, 0, 1)
        [attempt, *_] = Job.objects.get().history()
        assert (attempt.started_at, attempt.next_run_after) == (first.moment, first.moment + MINUTE)

    def test_one_queue_may_be_run_alone(self):
        errands.add.enqueue(1)
        errands.post.enqueue("you")

        assert run_due(queue="mail").completed == 1
        assert run_due(queue=["default", "other"]).completed == 1
        assert seen == ["you", (1, 2)]

    def test_a_paused_queue_does_not_run(self):
        errands.post.enqueue("you")
        Queue.objects.create(name="mail", paused_at=timezone.now())

        assert not run_due()

    def test_the_number_of_runs_can_be_limited(self):
        errands.add.enqueue_many([(1,), (2,), (3,)])

        assert len(run_due(limit=2)) == 2
        assert len(run_due()) == 1

    def test_jobs_that_bodies_enqueue_to_run_at_once_run_in_the_same_call(self):
        errands.chain.enqueue(2)

        run_due()

        assert seen == [2, 1, 0]
        assert Job.objects.filter(state="READY").count() == 2  # scheduled for an hour later

    def test_a_job_that_enqueues_itself_for_ever_is_an_error_and_no_endless_test(self, monkeypatch):
        monkeypatch.setattr("django_jobs.testing.running.MOST_RUNS", 20)
        errands.for_ever.enqueue()

        with pytest.raises(TooManyRuns, match=r"errands\.for_ever is due"):
            run_due()

    def test_async_bodies_run_with_the_tests_connection(self):
        Queue.objects.create(name="uncommitted")
        result = errands.count_queues.enqueue()

        run_due(raise_errors=True)

        result.refresh()
        assert result.return_value == 1

    def test_a_transactional_body_and_its_outcome_stand_or_fall_together(self):
        errands.open_queue.enqueue("kept")
        errands.open_queue.enqueue("undone", then_fail=True)

        ran = run_due()

        assert (ran.completed, ran.retried) == (1, 1)
        assert list(Queue.objects.values_list("name", flat=True)) == ["kept"]

    def test_failures_come_with_their_exceptions(self):
        errands.always_fail.enqueue()

        ran = run_due()

        [failure] = ran.failures
        assert isinstance(failure.outcome, Retried)
        assert str(failure.exception) == "never"
        assert "1 retried" in str(ran)
        assert "ValueError('never')" in str(ran)

    def test_the_first_error_is_raised_where_the_test_asks_for_it(self):
        errands.always_fail.enqueue()
        errands.add.enqueue(1)

        with pytest.raises(ValueError, match="never"):
            run_due(raise_errors=True)

        assert Job.objects.get(task_path=errands.always_fail.module_path).reason == "ValueError: never"
        assert seen == []
        assert run_due().completed == 1

    def test_what_a_body_says_to_its_queue_is_no_error(self):
        for word in ("retry", "cancel"):
            errands.speak.enqueue(word)
        errands.snooze_once.enqueue()

        counts = run_due(raise_errors=True).counts

        assert counts == {"retried": 1, "cancelled": 1, "snoozed": 1}

    def test_a_body_may_play_that_it_ran_out_of_time(self):
        errands.speak.enqueue("timeout")

        run_due()

        assert [attempt.kind for attempt in Job.objects.get().history()] == ["TIMEOUT"]

    def test_who_ends_the_tests_is_heard(self):
        errands.end_the_tests.enqueue()

        with pytest.raises(KeyboardInterrupt):
            run_due()

        assert Job.objects.get().state == "FAILED"

    def test_signals_and_results_are_those_of_a_worker(self):
        heard = []

        def hear(sender, task_result=None, job=None, **rest):
            heard.append(task_result or job)

        told = (task_started, task_finished, signals.job_failed)
        for signal in told:
            signal.connect(hear)
        try:
            result = errands.speak.enqueue("fail")
            run_due()
        finally:
            for signal in told:
                signal.disconnect(hear)

        started, job, finished = heard
        assert started.status is TaskResultStatus.RUNNING
        assert started.worker_ids == [str(Worker.objects.get().pk)]
        assert job.id == int(result.id)
        assert (finished.status, finished.id) == (TaskResultStatus.FAILED, result.id)

    def test_a_body_whose_statement_fails_leaves_the_tests_transaction_usable(self, caplog):
        errands.break_transaction.enqueue()
        errands.add.enqueue(1)

        ran = run_due()

        assert (ran.failed, ran.completed) == (1, 1)
        assert "outside of atomic()" in caplog.text
        assert not Queue.objects.exists()

    def test_a_body_that_recovers_keeps_what_it_wrote(self):
        result = errands.recover.enqueue()

        run_due()

        result.refresh()
        assert result.return_value == "recovered"
        assert Queue.objects.count() == 1

    def test_on_commit_functions_of_a_body_run_once_it_is_over(self):
        transaction.on_commit(lambda: seen.append("the test's own"))
        errands.after_commit.enqueue()

        run_due()

        assert seen == ["written", "committed"]

    def test_an_on_commit_function_that_raises_fails_the_job(self):
        errands.after_commit.enqueue(fails=True)

        [failure] = run_due().failures

        assert isinstance(failure.outcome, Failed)
        assert str(failure.exception) == "after the commit"

    def test_a_job_that_is_cancelled_while_it_runs_is_not_retried(self):
        errands.cancel_itself.enqueue()

        [ended] = run_due().runs

        assert seen == [False, True]
        assert isinstance(ended.outcome, Cancelled)
        assert Job.objects.get().state == "CANCELLED"

    def test_an_async_body_can_ask_whether_it_is_cancelled(self):
        errands.look_async.enqueue()

        run_due(raise_errors=True)

        assert seen == [False]

    def test_tasks_that_this_code_does_not_know_stay(self):
        Job.objects.create(task_path="gone.away", queue_name="default")

        assert not run_due(at=timedelta(hours=1))

    def test_it_works_without_time_zones(self, settings):
        settings.USE_TZ, settings.TIME_ZONE = False, "America/Caracas"
        due = timezone.now() + timedelta(days=3)
        errands.add.enqueue(1)
        errands.add.using(run_after=due).enqueue(2)

        assert run_due(raise_errors=True).completed == 1
        assert run_due(at=due).completed == 1
        assert_enqueued(errands.add, [2], due=due)


class TestDrain:
    pytestmark = pytest.mark.django_db

    def test_retries_run_without_waiting_and_without_touching_a_clock(self):
        began = timezone.now()
        errands.fail_twice.enqueue()

        ran = drain()

        assert (ran.retried, ran.completed) == (2, 1)
        assert ran.moment - began >= 2 * MINUTE
        assert timezone.now() - began < MINUTE
        gaps = [attempt.started_at or began for attempt in Job.objects.get().history()]
        assert [later - earlier for earlier, later in itertools.pairwise(gaps)] == [MINUTE, MINUTE]

    def test_jobs_whose_attempts_are_used_up_are_told(self):
        errands.always_fail.enqueue()

        ran = drain()

        assert (ran.retried, ran.failed) == (2, 1)
        assert [str(failure.exception) for failure in ran.failures] == ["never"] * 3

    def test_snoozed_jobs_run_to_their_end(self):
        errands.snooze_once.enqueue()

        assert drain().counts == {"snoozed": 1, "completed": 1}

    def test_what_was_scheduled_stays_unless_asked_for(self):
        errands.chain.using(run_after=timedelta(days=1)).enqueue(1)

        assert not drain()
        assert drain(scheduled=True).completed == 3

    def test_the_first_error_ends_it_where_the_test_asks_for_that(self):
        errands.always_fail.enqueue()

        with pytest.raises(ValueError, match="never"):
            drain(raise_errors=True)

        assert Job.objects.get().attempt == 1


class TestAsserting:
    pytestmark = pytest.mark.django_db

    def test_a_job_is_found_by_its_call_however_that_was_written(self):
        errands.add.enqueue(1, b=2)

        assert assert_enqueued(errands.add).args == [1]
        assert_enqueued(errands.add, [1, 2])
        assert_enqueued(errands.add, (1,))
        assert_enqueued(errands.add, kwargs={"b": 2, "a": 1})
        assert_enqueued(errands.add.module_path, [1], {"b": 2})
        assert_not_enqueued(errands.add, [2])
        assert_not_enqueued(errands.post)

    def test_a_job_is_found_by_queue_priority_state_and_due_time(self):
        at = timezone.now() + timedelta(days=2)
        errands.post.using(run_after=timedelta(hours=1)).enqueue("a")
        errands.post.using(run_after=at).enqueue("b")

        assert_enqueued(errands.post, ["a"], due=timedelta(hours=1), queue="mail", priority=5)
        assert_enqueued(errands.post, ["b"], due=at, state="READY")
        assert_not_enqueued(errands.post, due=timedelta(0))
        assert_not_enqueued(errands.post, queue="default")
        assert_not_enqueued(errands.post, state="successful")

    def test_a_job_that_ran_was_enqueued_all_the_same(self):
        errands.add.enqueue(1)
        run_due()

        assert_enqueued(errands.add, state="SUCCESSFUL", count=1)

    def test_a_failed_assertion_says_what_there_is(self):
        with pytest.raises(AssertionError, match="Nothing was enqueued"):
            assert_enqueued(errands.add)

        errands.add.enqueue(7)

        with pytest.raises(AssertionError, match=r'called with \{"a": 8, "b": 2\}[\s\S]*args=\[7\]'):
            assert_enqueued(errands.add, [8])
        with pytest.raises(AssertionError, match=r"Jobs were enqueued of: tests\.errands\.add"):
            assert_enqueued(errands.post)
        with pytest.raises(AssertionError, match="1 jobs, not 2, of"):
            assert_enqueued(errands.add, count=2)
        with pytest.raises(AssertionError, match=r"1 jobs of any task were enqueued[\s\S]*args=\[7\]"):
            assert_not_enqueued()

    def test_arguments_that_could_not_be_enqueued_are_refused_in_assertions_too(self):
        with pytest.raises(TypeError):
            assert_enqueued(errands.add, [object()])

    def test_all_that_was_enqueued_is_listed_in_order(self):
        errands.post.enqueue("a")
        errands.add.enqueue(1)

        assert [job.task_path for job in enqueued()] == [errands.post.module_path, errands.add.module_path]
        assert [job.args for job in enqueued(errands.add)] == [[1]]
        assert [job.args for job in enqueued(queue="mail")] == [["a"]]

    def test_the_fixture_has_all_of_it(self, jobs):
        with jobs.immediate():
            errands.add.enqueue(1)

        jobs.assert_enqueued(errands.add, [1])
        assert jobs.run_due().completed == jobs.drain().completed == 0


class TestImmediateMode:
    pytestmark = pytest.mark.django_db

    def test_enqueueing_runs_the_job_and_returns_what_it_came_to(self):
        with immediate():
            result = errands.add.enqueue(2, 2)
        later = errands.add.enqueue(9)

        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 4)
        assert later.status is TaskResultStatus.READY

    def test_only_the_job_that_is_enqueued_runs(self):
        errands.add.enqueue(1)
        with immediate():
            errands.add.enqueue(2)

        assert seen == [(2, 2)]

    def test_the_checks_and_conversions_are_the_real_ones(self):
        with immediate():
            errands.speak.enqueue("hello")
            errands.add.enqueue((1,), [2])
            with pytest.raises(TypeError):
                errands.add.enqueue(object())
            with pytest.raises(TypeError, match="can't be called"):
                errands.add.enqueue(1, 2, 3)

        assert seen == [1, ([1], [2])]

    def test_a_failure_shows_in_the_result_or_is_raised(self):
        with immediate():
            failed = errands.speak.enqueue("fail")
            waits = errands.always_fail.enqueue()
        with immediate(raise_errors=True), pytest.raises(ValueError, match="never"):
            errands.always_fail.enqueue()

        assert (failed.status, len(failed.errors)) == (TaskResultStatus.FAILED, 1)
        assert (waits.status, len(waits.errors)) == (TaskResultStatus.READY, 1)

    def test_what_is_scheduled_stays_and_what_bodies_enqueue_runs(self):
        with immediate():
            errands.chain.enqueue(1)

        assert seen == [1, 0]
        assert Job.objects.filter(state="READY").count() == 1

    def test_a_job_that_is_deleted_as_it_finishes_still_gives_its_result(self):
        with immediate():
            result = errands.vanish.enqueue()

        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "gone")
        assert not Job.objects.exists()

    def test_many_jobs_at_once_run_too(self):
        with immediate():
            assert errands.add.enqueue_many([(1,), (2,)]) == 2
            assert len(errands.add.enqueue_many([{"a": 3}], ids=True)) == 1

        assert seen == [(1, 2), (2, 2), (3, 2)]

    def test_a_test_can_be_decorated(self):
        @immediate()
        def decorated():
            return errands.add.enqueue(1).return_value

        @immediate()
        async def decorated_async():
            return (await errands.add.aenqueue(2)).return_value

        assert (decorated(), seen) == (3, [(1, 2)])
        assert errands.add.enqueue(5).status is TaskResultStatus.READY
        assert inspect.iscoroutinefunction(decorated_async)


class TestInTestCase(JobsTestMixin, TestCase):
    """Django's own classes, in the way a project writes them."""

    @classmethod
    def setUpTestData(cls):
        errands.add.enqueue(41)

    def setUp(self):
        seen.clear()

    def test_jobs_are_run_and_asserted_on_without_a_commit(self):
        self.assert_enqueued(errands.add, [41])
        assert self.run_due().completed == 1
        assert Job.objects.get().return_value == 43

    def test_each_test_begins_with_the_classes_data(self):
        assert Job.objects.get().state == "READY"

    def test_on_commit_enqueueing_is_seen_with_djangos_own_helper(self):
        with self.captureOnCommitCallbacks(execute=True):
            transaction.on_commit(lambda: errands.add.enqueue(1))

        self.assert_enqueued(errands.add, count=2)
        assert self.drain().completed == 2

    async def test_async_tests_have_async_helpers(self):
        await errands.count_queues.aenqueue()

        ran = await self.arun_due()

        assert ran.completed == 2
        assert not await self.adrain()

    async def test_immediate_mode_works_in_async_tests(self):
        with self.immediate():
            result = await errands.count_queues.aenqueue()

        assert result.status == TaskResultStatus.SUCCESSFUL

    @immediate()
    async def test_async_tests_can_be_decorated(self):
        assert (await errands.add.aenqueue(1)).return_value == 3


class TestInTransactionTestCase(JobsTestMixin, TransactionTestCase):
    def setUp(self):
        seen.clear()

    def test_jobs_run_and_what_they_do_is_committed(self):
        errands.open_queue.enqueue("kept")
        errands.break_transaction.enqueue()

        ran = self.run_due()

        assert (ran.completed, ran.failed) == (1, 1)
        assert set(Queue.objects.values_list("name", flat=True)) == {"kept", "twice"}
        assert not connection.in_atomic_block

    def test_no_database_session_is_left_over(self):
        connection.ensure_connection()
        before = sessions()
        errands.count_queues.enqueue()
        errands.add.enqueue(1)
        with self.immediate():
            errands.add.enqueue(1)
        self.drain()

        assert sessions() == before
        assert set(Worker.objects.values_list("state", flat=True)) == {"STOPPED"}

    def test_tables_can_be_flushed_and_migrated_away_and_back(self):
        errands.add.enqueue(1)
        call_command("flush", interactive=False, verbosity=0)
        assert not self.run_due()
        call_command("migrate", "django_jobs", "zero", interactive=False, verbosity=0)
        call_command("migrate", "django_jobs", interactive=False, verbosity=0)
        errands.add.enqueue(1)

        assert self.run_due().completed == 1


def sessions() -> int:
    """How many sessions this test's database has."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


class TestBackends:
    """Backends for `TASKS` in test settings; no database is touched."""

    @pytest.fixture
    def backend(self, settings, request):
        settings.TASKS = {"default": {"BACKEND": f"django_jobs.testing.{request.param}", "QUEUES": []}}
        return task_backends["default"]

    dummy = pytest.mark.parametrize("backend", ["DummyBackend"], indirect=True)
    at_once = pytest.mark.parametrize("backend", ["ImmediateBackend"], indirect=True)
    both = pytest.mark.parametrize("backend", ["DummyBackend", "ImmediateBackend"], indirect=True)

    @both
    def test_every_option_of_a_task_is_accepted(self, backend):
        task = errands.add.using(max_attempts=7, priority=3, run_after=MINUTE, meta={"by": "me"})

        result = task.enqueue(1)

        assert getattr(result.task, "max_attempts", None) == 7
        assert result.status is TaskResultStatus.READY

    @both
    def test_arguments_are_checked_and_converted_as_ever(self, backend):
        assert errands.add.enqueue((1,), [2]).args == [[1], [2]]
        for wrong in (object(), float("nan"), "\0"):
            with pytest.raises((TypeError, ValueError)):
                errands.add.enqueue(wrong)
        with pytest.raises(TypeError, match="can't be called"):
            errands.add.enqueue(1, 2, 3)

    @both
    def test_many_calls_are_taken_too(self, backend):
        assert errands.add.enqueue_many([(1,), {"a": 2}]) == 2
        assert [result.args for result in backend.results] == [[1], []]

    @both
    def test_results_are_found_again(self, backend):
        result = errands.add.enqueue(1)

        assert errands.add.get_result(result.id) == result
        backend.clear()
        assert backend.results == []

    @dummy
    def test_the_dummy_runs_nothing(self, backend):
        errands.add.enqueue(1)

        assert seen == []

    @at_once
    def test_the_immediate_one_runs_at_once(self, backend):
        result = errands.speak.enqueue("hello")

        assert (result.status, result.return_value, result.attempts) == (
            TaskResultStatus.SUCCESSFUL,
            "hello",
            1,
        )

    @at_once
    def test_outcomes_are_those_of_a_worker(self, backend):
        statuses = {word: errands.speak.enqueue(word).status for word in ("retry", "fail", "cancel")}

        assert statuses == {
            "retry": TaskResultStatus.READY,
            "fail": TaskResultStatus.FAILED,
            "cancel": TaskResultStatus.FAILED,
        }
        assert errands.snooze_once.enqueue().status is TaskResultStatus.READY

    @at_once
    def test_async_bodies_run_at_once(self, backend):
        assert errands.look_async.enqueue().status is TaskResultStatus.SUCCESSFUL

    @at_once
    def test_who_ends_the_tests_is_heard(self, backend):
        with pytest.raises(KeyboardInterrupt):
            errands.end_the_tests.enqueue()

    def test_the_real_backend_is_back_afterwards(self, settings):
        assert errands.add.get_backend().__class__.__name__ == "JobsBackend"
        assert conf.current().max_attempts == 5


@pytest.mark.django_db
def test_the_test_case_of_the_how_to_page_passes():
    page = Path(__file__).parents[1] / "docs" / "how-to" / "testing.md"
    code = page.read_text("utf-8").split("```python\n")[1].split("```")[0]
    module = ModuleType("page_about_testing")
    sys.modules[module.__name__] = module
    known = dict(registry)
    try:
        exec(compile(code, str(page), "exec"), module.__dict__)
        found = unittest.defaultTestLoader.loadTestsFromTestCase(module.PlaceOrderTests)
        result = found.run(unittest.TestResult())
    finally:
        del sys.modules[module.__name__]
        registry.clear()
        registry.update(known)

    assert result.testsRun == 4
    assert result.failures + result.errors == []
