"""From a claimed job to its outcome: plain calls, without a database."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from django_jobs import JobTimeout
from django_jobs.core.records import Cancelled, Completed, Failed, Retried, Snoozed
from django_jobs.core.states import Kind
from django_jobs.framework import TaskResultStatus, task_started
from django_jobs.results import LEFT_OUT
from tests import jobs, rich_tasks
from tests.rows import LONG_AGO, WORKER, claimed_job
from tests.worker.conftest import RULES, executor_with

DAY = timedelta(days=1)


def job_of(task, *args, **kwargs):
    """Return a claimed job for one call of `task`; columns go by their names."""
    columns = kwargs.pop("columns", {})
    return claimed_job(task_path=task.module_path, call=json.dumps([args, kwargs]), **columns)


def run(task, *args, executor=None, **columns):
    """Run one call of a task, plain or async, and return what it came to."""
    executor = executor or executor_with()
    job = job_of(task, *args, columns=columns)
    if task.is_async:
        return asyncio.run(executor.run_async(job))
    return executor.run(job)


BOTH = pytest.mark.parametrize("raising", [jobs.raising, jobs.araising], ids=["sync", "async"])


class TestSuccess:
    @pytest.mark.parametrize("give", [jobs.give, jobs.agive], ids=["sync", "async"])
    def test_a_value_is_stored_as_json(self, give):
        ended = run(give, {"b": [1, -0.0], "a": "é"})

        assert ended.outcome == Completed(return_value='{"b":[1,-0.0],"a":"é"}', keep=RULES.keep_successful)
        assert ended.exception is None
        assert not ended.stored
        assert ended.seconds > 0

    def test_nothing_is_stored_for_none(self):
        assert run(jobs.ok, 1).outcome == Completed(return_value=None, keep=DAY)

    def test_the_task_says_how_long_it_is_kept(self):
        assert run(jobs.leave_no_trace).outcome == Completed(return_value=None, keep=timedelta(0))

    @pytest.mark.parametrize(
        ("made", "error"),
        [
            (lambda: object(), "TypeError"),
            (lambda: float("nan"), "ValueError"),
            (lambda: "a\0b", "ValueError"),
            (lambda: "x" * 2000, "ValueError"),
        ],
        ids=["object", "nan", "NUL", "too large"],
    )
    def test_a_value_that_can_not_be_stored_fails_the_job_for_good(self, made, error):
        executor = executor_with()

        with pytest.raises((TypeError, ValueError), match="return value") as caught:
            executor.completed(jobs.give, made())

        outcome = executor.outcome_of(job_of(jobs.give, 1), caught.value)
        assert isinstance(outcome, Failed)
        assert outcome.trace.exception_class == f"builtins.{error}"
        assert "return value" in outcome.trace.message


class TestFailure:
    @BOTH
    def test_an_exception_is_followed_by_another_attempt(self, raising):
        ended = run(raising, "LookupError")

        assert isinstance(ended.outcome, Retried)
        assert (ended.outcome.kind, ended.outcome.after) == (Kind.ERROR, timedelta(seconds=30))
        assert ended.outcome.trace.exception_class == "builtins.LookupError"
        assert ended.outcome.trace.message == "elsewhere"
        assert isinstance(ended.exception, LookupError)

    def test_the_traceback_begins_with_the_body(self):
        outcome = run(jobs.raising, "LookupError").outcome

        assert isinstance(outcome, Retried)
        lines = outcome.trace.traceback.splitlines()
        assert "in raising" in lines[1]
        assert lines[-1] == "LookupError: elsewhere"

    @pytest.mark.parametrize(
        ("attempt", "uncounted", "limit", "again"),
        [
            (4, 0, 5, True),
            (5, 0, 5, False),
            (6, 1, 5, False),
            (6, 2, 5, True),
            (900, 0, None, True),
            (9, 0, 5, False),
        ],
    )
    def test_attempts_are_counted_without_those_that_do_not_count(self, attempt, uncounted, limit, again):
        outcome = run(jobs.fail, attempt=attempt, uncounted=uncounted, max_attempts=limit).outcome

        assert isinstance(outcome, Retried if again else Failed)

    def test_the_last_failure_is_kept_as_the_settings_say(self):
        outcome = run(jobs.fail, attempt=5, executor=executor_with(keep_failed=None)).outcome

        assert outcome.keep is None

    @pytest.mark.parametrize(("name", "again"), [("LookupError", True), ("KeyError", False), ("Mute", False)])
    def test_the_task_says_after_which_exceptions_it_runs_again(self, name, again):
        assert isinstance(run(jobs.choosy, name).outcome, Retried if again else Failed)

    @BOTH
    @pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "CancelledError"])
    def test_what_ends_programs_ends_only_the_run(self, raising, name):
        ended = run(raising, name)

        assert isinstance(ended.outcome, Failed)
        assert type(ended.exception).__name__ == name

    @BOTH
    def test_an_exception_without_words_fails_like_others(self, raising):
        outcome = run(raising, "Mute").outcome

        assert isinstance(outcome, Retried)
        assert outcome.trace.message == "<str() of the exception raised RuntimeError>"

    def test_an_enormous_message_is_cut_in_its_middle(self):
        trace = run(jobs.raising, "enormous").outcome.trace

        assert len(trace.message) <= 1000
        assert len(trace.traceback) <= 8000
        assert " characters cut …" in trace.message
        assert trace.message.endswith("xend")

    def test_what_postgresql_can_not_hold_is_shown(self):
        trace = run(jobs.raising, "NUL").outcome.trace

        assert trace.message == "a\\x00b\\ud800c"
        assert "\0" not in trace.traceback
        trace.traceback.encode()

    def test_an_exception_that_can_not_be_pickled_is_no_different(self):
        assert isinstance(run(jobs.raising, "unpicklable").outcome, Retried)


class TestWordsOfTheBody:
    """What a body raises to speak to the queue."""

    @BOTH
    def test_retry_says_when(self, raising):
        outcome = run(raising, "Retry").outcome

        assert isinstance(outcome, Retried)
        assert (outcome.after, outcome.trace.message) == (timedelta(minutes=7), "not yet")

    def test_retry_without_a_time_takes_the_backoff(self):
        assert run(jobs.raising, "Retry by backoff").outcome.after == timedelta(seconds=30)

    def test_retry_beats_retry_on(self):
        assert isinstance(run(jobs.choosy, "Retry").outcome, Retried)

    def test_retry_is_no_way_around_the_limit(self):
        assert isinstance(run(jobs.raising, "Retry", attempt=5).outcome, Failed)

    @BOTH
    def test_fail_is_for_good(self, raising):
        outcome = run(raising, "Fail").outcome

        assert isinstance(outcome, Failed)
        assert outcome.trace.message == "hopeless"

    @BOTH
    def test_snooze_is_no_failure(self, raising):
        assert run(raising, "Snooze", attempt=5).outcome == Snoozed(
            after=timedelta(hours=1), reason="too early"
        )

    @BOTH
    def test_cancel_ends_the_job(self, raising):
        assert run(raising, "Cancel").outcome == Cancelled(reason="not wanted", keep=RULES.keep_failed)

    @pytest.mark.parametrize("name", ["Snooze in odd words", "Cancel in odd words"])
    def test_words_that_postgresql_can_not_hold_are_shown(self, name):
        assert run(jobs.raising, name).outcome.reason == "a\\x00b\\ud800c"

    def test_words_are_text_in_the_end(self):
        assert run(jobs.raising, "Snooze with a number").outcome.reason == "7"

    @BOTH
    def test_a_word_that_makes_no_sense_is_a_failure(self, raising):
        outcome = run(raising, "half-made Snooze").outcome

        assert isinstance(outcome, Retried)
        assert outcome.trace.exception_class == "builtins.AttributeError"


class TestBackoff:
    def test_a_callable_sees_attempt_and_exception(self):
        ended = run(jobs.backing_off, attempt=3, uncounted=1, max_attempts=None)

        assert ended.outcome.after == timedelta(seconds=120)
        assert jobs.asked == [(2, ended.exception)]

    def test_a_broken_one_is_logged_and_replaced(self, caplog):
        outcome = run(jobs.badly_backing_off).outcome

        assert isinstance(outcome, Retried)
        assert timedelta(seconds=5) <= outcome.after <= timedelta(seconds=10)
        assert "broken_backoff gave no delay for attempt 1 (ZeroDivisionError: broken)" in caplog.text

    def test_the_settings_have_one_for_tasks_without(self):
        executor = executor_with(backoff=lambda attempt, exception: 7)

        assert run(jobs.raising, "LookupError", executor=executor).outcome.after == timedelta(seconds=7)


class TestLostWorkers:
    def test_a_lost_run_is_followed_by_another_while_attempts_are_left(self):
        outcome = executor_with().lost(job_of(jobs.choosy, "x", columns={"max_attempts": 2}), "gone")

        assert isinstance(outcome, Retried)
        assert (outcome.kind, outcome.trace.message) == (Kind.LOST, "gone")
        assert outcome.trace.exception_class == "django_jobs.exceptions.WorkerLost"

    def test_the_last_one_fails(self):
        columns = {"attempt": 2, "max_attempts": 2}

        assert isinstance(executor_with().lost(job_of(jobs.ok, columns=columns), "gone"), Failed)

    def test_a_task_that_the_rescuer_does_not_know_runs_again(self):
        outcome = executor_with().lost(claimed_job(task_path="tests.jobs.renamed"), "gone")

        assert isinstance(outcome, Retried)


class TestTimeouts:
    def test_a_task_has_its_own_or_its_queues_or_the_projects(self):
        executor = executor_with(timeout=DAY)

        assert executor.timeout_of(jobs.timed, "slow") == timedelta(seconds=30)
        assert executor.timeout_of(jobs.ok, "slow") == timedelta(hours=2)
        assert executor.timeout_of(jobs.ok, "default") == DAY

    def test_a_transactional_body_always_has_one(self):
        assert executor_with().timeout_of(jobs.write_queue, "default") == timedelta(seconds=60)
        assert executor_with().timeout_of(jobs.ok, "default") is None
        assert executor_with(timeout=DAY).timeout_of(jobs.write_queue, "default") == DAY

    def test_running_over_is_retried_whatever_the_task_retries_on(self):
        outcome = executor_with().timed_out(job_of(jobs.choosy, "x"))

        assert isinstance(outcome, Retried)
        assert outcome.kind == Kind.TIMEOUT

    def test_the_error_says_how_long_was_allowed(self):
        trace = executor_with().timed_out(job_of(jobs.timed)).trace

        assert trace.message == "The run took longer than its timeout of 0:00:30."

    def test_one_raised_in_the_body_gets_words(self):
        error = JobTimeout()

        outcome = executor_with().outcome_of(job_of(jobs.timed), error)

        assert outcome.kind == Kind.TIMEOUT
        assert "0:00:30" in outcome.trace.message


class TestContext:
    @pytest.mark.parametrize("look", [jobs.look, jobs.alook], ids=["sync", "async"])
    def test_a_body_sees_its_attempt_and_its_job(self, look):
        run(look, attempt=5, uncounted=2, meta='{"who":"me"}', id=2**40)

        context = jobs.told.get_nowait()
        assert (context.attempt, context.job_id, context.meta) == (3, 2**40, {"who": "me"})
        assert context.task_result.id == str(2**40)
        assert context.task_result.status == TaskResultStatus.RUNNING
        assert context.task_result.worker_ids[-1] == str(WORKER)
        assert context.deadline is None

    def test_a_body_sees_when_its_time_is_over(self):
        run(jobs.look, executor=executor_with(timeout=DAY))

        assert jobs.told.get_nowait().deadline == LONG_AGO + DAY

    @pytest.mark.parametrize("asked", [True, False])
    def test_a_body_sees_whether_it_is_cancelled(self, asked):
        run(jobs.look, executor=executor_with(cancelled={7} if asked else ()))

        assert jobs.told.get_nowait().is_cancelled is asked

    def test_a_body_gets_its_arguments_after_the_context(self):
        ended = executor_with().run(job_of(jobs.look, 1, 2, key=3))

        assert isinstance(ended.outcome, Completed)
        result = jobs.told.get_nowait().task_result
        assert (result.args, result.kwargs) == ([1, 2], {"key": 3})

    def test_a_body_sees_the_runs_before(self):
        past = [
            {"number": 1, "worker": 5, "kind": "ERROR", "exception_class": "a.B", "traceback": "one"},
            {"number": 2, "worker": 6, "kind": "SNOOZED", "exception_class": "", "traceback": ""},
            {"number": 3, "worker": None, "kind": "LOST", "exception_class": "c.D", "traceback": "three"},
            {"number": 4, "worker": 8, "kind": "ERROR", "exception_class": "e.F", "traceback": None},
        ]

        run(jobs.look, attempt=5, uncounted=1, past=past)

        result = jobs.told.get_nowait().task_result
        assert [error.traceback for error in result.errors] == ["one", "three", LEFT_OUT]
        assert result.worker_ids == ["5", "8", str(WORKER)]


class TestStrangeJobs:
    @pytest.mark.parametrize(
        "call", ['[{"a":1},{}]', "[[],[]]", "[null,{}]", '["text",{}]', "[[NaN],{}]", '[[],{"a":1,"a":2}]']
    )
    def test_a_call_that_nobody_enqueued_fails_for_good(self, call):
        outcome = executor_with().run(claimed_job(call=call)).outcome

        assert isinstance(outcome, Failed)
        assert outcome.trace.exception_class.endswith("UndecodableText")

    @pytest.mark.parametrize("value", ['{"$type":"date","value":"yesterday"}', '{"$type":"os.system"}'])
    @pytest.mark.parametrize("task", rich_tasks.ECHOES, ids=lambda task: task.name)
    def test_so_does_one_with_a_rich_value_that_nobody_wrote(self, task, value):
        of = executor_with()
        job = claimed_job(task_path=task.module_path, call=f'[[{value}],{{"key":1}}]')

        outcome = (asyncio.run(of.run_async(job)) if task.is_async else of.run(job)).outcome

        assert isinstance(outcome, Failed)
        assert outcome.trace.exception_class.endswith("UndecodableText")

    def test_a_call_that_no_longer_fits_the_task_fails_like_others(self):
        outcome = run(jobs.give).outcome

        assert isinstance(outcome, Retried)
        assert outcome.trace.exception_class == "builtins.TypeError"

    @pytest.mark.parametrize("path", ["tests.jobs.renamed", "os.system", "tests.jobs.Unwell", ""])
    def test_nothing_but_a_task_is_ever_called(self, path):
        outcome = executor_with().run(claimed_job(task_path=path, call='[["true"],{}]')).outcome

        assert isinstance(outcome, Failed)
        assert outcome.kind == Kind.UNKNOWN_TASK


class TestSignals:
    def test_receivers_are_told_before_the_body_runs(self):
        seen = []

        def receive(sender, task_result, **kwargs):
            seen.append((sender.__name__, task_result.id, task_result.status, jobs.told.empty()))

        task_started.connect(receive)
        try:
            run(jobs.tell, 1)
        finally:
            task_started.disconnect(receive)

        assert seen == [("JobsBackend", "7", TaskResultStatus.RUNNING, True)]

    def test_one_that_raises_harms_nothing(self, caplog):
        def receive(**kwargs):
            raise jobs.Unwell

        task_started.connect(receive)
        try:
            ended = run(jobs.give, 1)
        finally:
            task_started.disconnect(receive)

        assert ended.outcome == Completed(return_value="1", keep=DAY)
