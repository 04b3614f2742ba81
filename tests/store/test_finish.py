"""What runs came to, in the table; and runs that no longer have a say."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

import pytest
from django.db import connection
from django.utils import timezone

from django_jobs.core.records import Cancelled, Completed, Failed, Outcome, Released, Retried, Snoozed
from django_jobs.core.states import FINAL, Decision, Kind, State
from django_jobs.models import Attempt, Job
from django_jobs.store.cursor import run
from django_jobs.store.explain import Facts, facts
from django_jobs.store.finish import END, REASON_LENGTH, as_stored, finish, finish_here, line, release
from django_jobs.store.overview import running_jobs
from tests.rows import LONG_AGO, TRACE, WORKER, row, run_of

DAY = timedelta(days=1)

DONE = Completed(return_value=None, keep=DAY)
RETRIED = Retried(kind=Kind.ERROR, trace=TRACE, after=timedelta(minutes=5))
FAILED = Failed(kind=Kind.ERROR, trace=TRACE, keep=DAY)
SNOOZED = Snoozed(after=timedelta(hours=1), reason="too early")
CANCELLED = Cancelled(reason="not wanted", keep=DAY)
RELEASED = Released(started=True, reason="the worker stops")
UNSTARTED = Released(started=False, reason="the worker stops")

OUTCOMES: list[Outcome] = [DONE, RETRIED, FAILED, SNOOZED, CANCELLED, RELEASED, UNSTARTED]
ENDS: list[Outcome] = [*OUTCOMES, Completed(return_value="1", keep=timedelta(0))]


def name_of(outcome):
    return type(outcome).__name__


def written(cursor, ended, *, worker=WORKER, keep_cancelled=DAY):
    """Store outcomes; return the ids that were still ours."""
    return {
        row[0]
        for statement in finish(worker, ended, keep_cancelled=keep_cancelled)
        for row in run(cursor, statement)
    }


def ended(cursor, outcome, **columns):
    """Return a running job after its run came to `outcome`."""
    job = row(State.RUNNING, **columns)
    assert written(cursor, [run_of(job, outcome)]) == {job.pk}
    job.refresh_from_db()
    return job


def kept(job):
    return job.expires_at - job.finished_at


class TestOutcomes:
    def test_a_completed_job_is_successful_with_its_value(self, cursor):
        job = ended(cursor, Completed(return_value='{"b": 1, "a": -0.0}', keep=DAY))

        assert (job.state, job.reason, job.worker) == (State.SUCCESSFUL, None, WORKER)
        assert list(job.return_value) == ["b", "a"]
        assert str(job.return_value["a"]) == "-0.0"
        assert kept(job) == DAY
        assert not job.attempts.exists()

    def test_a_retried_job_is_ready_again_later(self, cursor):
        job = ended(cursor, RETRIED)

        assert (job.state, job.worker, job.finished_at, job.expires_at) == (State.READY, None, None, None)
        assert job.reason == "ValueError: bad value"
        assert (job.attempt, job.uncounted) == (1, 0)
        attempt = job.attempts.get()
        assert job.run_after == attempt.ended_at + timedelta(minutes=5) == attempt.next_run_after
        assert (attempt.kind, attempt.decision) == (Kind.ERROR, Decision.RETRY)

    def test_an_attempt_tells_all_of_a_failure(self, cursor):
        attempt = ended(cursor, FAILED, attempt=3).attempts.get()

        assert (attempt.number, attempt.worker, attempt.started_at) == (3, WORKER, LONG_AGO)
        assert (attempt.exception_class, attempt.message, attempt.traceback) == (
            TRACE.exception_class,
            TRACE.message,
            TRACE.traceback,
        )
        assert (attempt.decision, attempt.next_run_after) == (Decision.FAILED, None)

    def test_a_failed_job_waits_for_a_person(self, cursor):
        job = ended(cursor, FAILED)

        assert (job.state, job.reason) == (State.FAILED, "ValueError: bad value")
        assert kept(job) == DAY

    @pytest.mark.parametrize(
        ("outcome", "kind", "decision"),
        [(SNOOZED, Kind.SNOOZED, Decision.SNOOZE), (RELEASED, Kind.RELEASED, Decision.RELEASED)],
        ids=["snoozed", "released"],
    )
    def test_a_run_that_is_not_to_count_is_counted_apart(self, cursor, outcome, kind, decision):
        job = ended(cursor, outcome, attempt=4, uncounted=1)

        assert (job.state, job.attempt, job.uncounted, job.counted_attempt) == (State.READY, 4, 2, 2)
        attempt = job.attempts.get()
        assert (attempt.kind, attempt.decision, attempt.message) == (kind, decision, outcome.reason)
        assert job.reason == outcome.reason

    def test_a_job_that_never_began_is_handed_back_as_it_was(self, cursor):
        job = row(State.RUNNING)
        due = job.run_after
        written(cursor, [run_of(job, UNSTARTED)])
        job.refresh_from_db()

        assert (job.state, job.run_after, job.counted_attempt) == (State.READY, due, 0)
        assert not job.attempts.exists()

    def test_a_cancelled_run_ends_the_job(self, cursor):
        job = ended(cursor, CANCELLED)

        assert (job.state, job.reason) == (State.CANCELLED, "not wanted")
        assert job.attempts.get().decision == Decision.CANCELLED

    def test_what_is_to_be_kept_for_ever_never_expires(self, cursor):
        assert ended(cursor, Completed(return_value=None, keep=None)).expires_at is None
        assert ended(cursor, Failed(kind=Kind.ERROR, trace=TRACE, keep=None)).expires_at is None

    def test_what_is_not_to_be_kept_goes_with_its_attempts(self, cursor):
        job = row(State.RUNNING, attempt=2)
        other = row(State.RUNNING, attempt=2)
        for each in (job, other):
            Attempt.objects.create(job=each, number=1, kind=Kind.ERROR, decision=Decision.RETRY)

        assert written(cursor, [run_of(job, ENDS[-1])]) == {job.pk}

        assert set(Job.objects.all()) == {other}
        assert set(Attempt.objects.values_list("job", flat=True)) == {other.pk}

    def test_a_failed_job_kept_for_no_time_expires_at_once(self, cursor):
        job = ended(cursor, Failed(kind=Kind.ERROR, trace=TRACE, keep=timedelta(0)))

        assert job.expires_at == job.finished_at

    def test_a_number_of_an_attempt_that_is_taken_stops_no_outcome(self, cursor):
        job = row(State.RUNNING)
        Attempt.objects.create(job=job, number=job.attempt, kind=Kind.ERROR, decision=Decision.RETRY)

        assert written(cursor, [run_of(job, FAILED)]) == {job.pk}


class TestCancelRequests:
    @pytest.mark.parametrize("outcome", [RETRIED, SNOOZED, RELEASED, UNSTARTED], ids=name_of)
    def test_a_request_beats_another_run(self, cursor, outcome):
        job = row(State.RUNNING, cancel_requested_at=timezone.now())
        due = job.run_after

        written(cursor, [run_of(job, outcome)])

        job.refresh_from_db()
        assert (job.state, job.run_after) == (State.CANCELLED, due)
        assert kept(job) == DAY
        decisions = set(job.attempts.values_list("decision", "next_run_after"))
        assert decisions <= {(Decision.CANCELLED, None)}

    @pytest.mark.parametrize("outcome", [DONE, FAILED], ids=name_of)
    def test_a_run_that_was_the_last_anyway_stays_what_it_was(self, cursor, outcome):
        job = row(State.RUNNING, cancel_requested_at=timezone.now())

        written(cursor, [run_of(job, outcome)])

        job.refresh_from_db()
        assert job.state == (State.SUCCESSFUL if outcome is DONE else State.FAILED)

    def test_the_state_and_due_time_that_were_decided_come_back(self, cursor):
        asked = row(State.RUNNING, cancel_requested_at=timezone.now())
        other = row(State.RUNNING)
        [statement] = finish(WORKER, [run_of(asked, RETRIED), run_of(other, RETRIED)], keep_cancelled=None)

        assert statement[0] == END
        rows = run(cursor, statement)
        asked.refresh_from_db()
        other.refresh_from_db()
        assert set(rows) == {(asked.pk, "CANCELLED", asked.run_after), (other.pk, "READY", other.run_after)}

    def test_a_retry_is_taken_for_cancelled_where_that_is_what_was_stored(self):
        retried = run_of(Job(pk=1, attempt=1), RETRIED)

        assert isinstance(as_stored(retried, (1, "CANCELLED", LONG_AGO)).outcome, Cancelled)
        assert as_stored(retried, (1, "READY", LONG_AGO)) == retried
        done = run_of(Job(pk=1, attempt=1), DONE)
        assert as_stored(done, (1,)) == done
        own = run_of(Job(pk=1, attempt=1), CANCELLED)
        assert as_stored(own, (1, "CANCELLED", LONG_AGO)) == own


class TestGuard:
    """A run is named by job, attempt, worker and RUNNING; whatever else has happened, it changes nothing."""

    @pytest.mark.parametrize("outcome", ENDS, ids=name_of)
    def test_a_run_of_an_earlier_attempt_changes_nothing(self, cursor, outcome):
        self.changes_nothing(cursor, row(State.RUNNING, attempt=2), outcome, attempt=1)

    @pytest.mark.parametrize("outcome", ENDS, ids=name_of)
    def test_a_run_of_another_worker_changes_nothing(self, cursor, outcome):
        self.changes_nothing(cursor, row(State.RUNNING, worker=WORKER + 1), outcome)

    @pytest.mark.parametrize("outcome", ENDS, ids=name_of)
    @pytest.mark.parametrize("state", [*sorted(FINAL), State.READY, State.BLOCKED])
    def test_a_job_that_has_moved_on_is_left_alone(self, cursor, state, outcome):
        self.changes_nothing(cursor, row(state, attempt=1, worker=WORKER), outcome)

    def test_a_stray_that_has_moved_on_is_left_alone(self, cursor):
        runs = [row(State.RUNNING, attempt=2), row(State.READY), row(State.RUNNING, worker=WORKER + 1)]

        assert run(cursor, release(WORKER, [(job.pk, 1) for job in runs], keep_cancelled=None)) == []

    def changes_nothing(self, cursor, job, outcome, **columns):
        before = Job.objects.filter(pk=job.pk).values().get()
        late = run_of(job, outcome)
        if columns:
            late = run_of(Job(pk=job.pk, task_path=job.task_path, **columns), outcome)

        assert written(cursor, [late]) == set()

        assert Job.objects.filter(pk=job.pk).values().get() == before
        assert not Attempt.objects.exists()

    def test_a_run_ends_once(self, cursor):
        job = row(State.RUNNING)

        assert finish_here(cursor, WORKER, run_of(job, DONE))
        assert not finish_here(cursor, WORKER, run_of(job, FAILED))

    def test_others_in_the_batch_are_written_all_the_same(self, cursor):
        ours = [row(State.RUNNING) for _ in OUTCOMES]
        late = row(State.RUNNING, attempt=9)
        ends = [run_of(job, outcome) for job, outcome in zip(ours, OUTCOMES, strict=True)]
        stale = run_of(Job(pk=late.pk, attempt=8, task_path=late.task_path), RETRIED)

        assert written(cursor, [*ends, stale]) == {job.pk for job in ours}


class TestRelease:
    def test_a_stray_goes_back_as_if_it_had_not_been_claimed(self, cursor):
        job = row(State.RUNNING, attempt=3, uncounted=1)

        assert run(cursor, release(WORKER, [(job.pk, 3)], keep_cancelled=None))[0][0] == job.pk

        job.refresh_from_db()
        assert (job.state, job.worker, job.attempt, job.uncounted) == (State.READY, None, 3, 2)

    def test_a_stray_that_someone_cancelled_ends_and_expires(self, cursor):
        job = row(State.RUNNING, cancel_requested_at=timezone.now())

        run(cursor, release(WORKER, [(job.pk, 1)], keep_cancelled=DAY))

        job.refresh_from_db()
        assert job.state == State.CANCELLED
        assert kept(job) == DAY


class TestNumbersAtTheirEnd:
    """A statement that failed on what a stranger wrote would take the others of its batch along."""

    STRANGE: ClassVar = {"attempt": -(2**31), "uncounted": 2**31 - 1}

    def test_a_stray_goes_back(self, cursor):
        job = row(State.RUNNING, **self.STRANGE)

        assert run(cursor, release(WORKER, [(job.pk, job.attempt)], keep_cancelled=None))[0][0] == job.pk

        job.refresh_from_db()
        assert (job.state, job.uncounted) == (State.READY, 2**31 - 1)

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=name_of)
    def test_a_run_ends(self, cursor, outcome):
        job = ended(cursor, outcome, **self.STRANGE)

        assert job.state != State.RUNNING
        assert job.uncounted == 2**31 - 1

    def test_what_runs_and_why_one_does_not_can_be_asked(self, cursor):
        job = row(State.RUNNING, **self.STRANGE)

        assert [running.id for running in running_jobs(cursor)] == [job.pk]
        assert isinstance(facts(cursor, job.pk), Facts)


class TestStatements:
    def test_a_hundred_outcomes_of_all_kinds_are_three_statements(self, db, django_assert_num_queries):
        jobs = [row(State.RUNNING) for _ in range(100)]
        ends = [run_of(job, ENDS[place % len(ENDS)]) for place, job in enumerate(jobs)]

        with django_assert_num_queries(3), connection.cursor() as counted:
            assert written(counted, ends) == {job.pk for job in jobs}

    def test_no_outcome_is_no_statement(self):
        assert finish(WORKER, [], keep_cancelled=None) == []

    def test_a_hundred_successes_are_one_statement(self, db, django_assert_num_queries):
        jobs = [row(State.RUNNING) for _ in range(100)]

        with django_assert_num_queries(1), connection.cursor() as counted:
            assert written(counted, [run_of(job, DONE) for job in jobs]) == {job.pk for job in jobs}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("  one\n two", "one"),
        ("x" * REASON_LENGTH, "x" * REASON_LENGTH),
        ("x" * (REASON_LENGTH + 1), "x" * (REASON_LENGTH - 1) + "…"),
    ],
)
def test_a_reason_is_one_short_line(text, shown):
    assert line(text) == shown
