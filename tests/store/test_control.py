"""What operators do: only to jobs in the states that allow it, and once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from django_jobs.core.states import FINAL, MOVES, RETRYABLE, Kind, State
from django_jobs.models import Attempt, Job, Queue
from django_jobs.store import control
from tests.rows import WORKER, row

DAY = timedelta(days=1)
LARGE = 2**40


def states():
    return dict(Job.objects.values_list("pk", "state"))


def all_states():
    return {state: row(state, id=LARGE + place) for place, state in enumerate(State)}


MOST = 2**31 - 1
"""The largest integer of PostgreSQL's."""


class TestRetry:
    def retry(self, cursor, jobs, *, reset=True):
        return control.retry(cursor, [job.pk for job in jobs], reset_attempts=reset)

    def test_sends_failed_and_cancelled_jobs_round_again(self, cursor):
        made = all_states()

        changed, wakes = self.retry(cursor, made.values())

        assert set(changed) == {made[state].pk for state in RETRYABLE}
        assert {states()[job_id] for job_id in changed} == {State.READY}
        assert {(wake.queue_name, wake.priority) for wake in wakes} == {("default", 0)}

    def test_forgets_how_the_job_ended(self, cursor):
        job = row(
            State.FAILED,
            attempt=5,
            reason="bad",
            return_value=[1],
            worker=WORKER,
            expires_at="2030-01-01 00:00Z",
            cancel_requested_at="2020-01-01 00:00Z",
        )
        _, [wake] = self.retry(cursor, [job])
        job.refresh_from_db()

        assert (job.state, job.attempt, job.counted_attempt, job.max_attempts) == (State.READY, 5, 0, None)
        assert job.run_after == wake.run_after
        kept = (job.finished_at, job.expires_at, job.worker, job.cancel_requested_at, job.reason)
        assert kept == (None,) * 5
        assert job.return_value is None

    @pytest.mark.parametrize(
        ("attempt", "uncounted", "limit", "then"),
        [
            (5, 0, 5, 6),
            (2, 0, 5, 5),
            (7, 2, 5, 6),
            (1, 0, None, None),
            (9, 0, 3, 10),
            (MOST, 0, MOST, MOST),
            (MOST, -MOST, -MOST, MOST),
        ],
    )
    def test_can_give_one_more_attempt(self, cursor, attempt, uncounted, limit, then):
        job = row(State.FAILED, attempt=attempt, uncounted=uncounted, max_attempts=limit)

        self.retry(cursor, [job], reset=False)

        job.refresh_from_db()
        assert (job.attempt, job.uncounted, job.max_attempts) == (attempt, uncounted, then)

    def test_twice_at_once_is_one_further_run(self, links):
        job = row(State.FAILED)
        one, other = links(), links()

        first = control.retry(one.cursor(), [job.pk], reset_attempts=True)
        second = control.retry(other.cursor(), [job.pk], reset_attempts=True)

        assert (first[0], second[0]) == ([job.pk], [])


class TestCancel:
    def test_ends_waiting_jobs_and_asks_running_ones(self, cursor):
        made = all_states()
        running = made[State.RUNNING]

        cancelled, asked = control.cancel(
            cursor, [job.pk for job in made.values()], reason="not wanted", keep=DAY
        )

        assert set(cancelled) == {made[State.READY].pk, made[State.BLOCKED].pk}
        assert asked == [running.pk]
        for job in made.values():
            job.refresh_from_db()
        assert running.state == State.RUNNING
        assert running.cancel_requested_at is not None
        waited = made[State.READY]
        assert (waited.state, waited.reason) == (State.CANCELLED, "not wanted")
        assert timedelta(0) <= waited.expires_at - waited.finished_at - DAY < timedelta(seconds=1)

    def test_keeps_the_time_of_the_first_request(self, cursor):
        job = row(State.RUNNING)
        control.cancel(cursor, [job.pk], reason="", keep=None)
        first = Job.objects.get().cancel_requested_at

        control.cancel(cursor, [job.pk], reason="", keep=None)

        assert Job.objects.get().cancel_requested_at == first

    def test_catches_a_job_that_is_handed_back_in_between(self, cursor):
        job = row(State.RUNNING)

        between = Mock(wraps=cursor)

        def execute(*statement):
            if between.execute.call_count == 2:
                Job.objects.update(state=State.READY, worker=None)
            return cursor.execute(*statement)

        between.execute.side_effect = execute
        cancelled, asked = control.cancel(between, [job.pk], reason="", keep=None)

        assert (cancelled, asked) == ([job.pk], [])


class TestOthers:
    def test_run_now_makes_waiting_jobs_due(self, cursor):
        made = all_states()
        Job.objects.filter(state=State.READY).update(run_after="2040-01-01 00:00Z")

        changed, [wake] = control.run_now(cursor, [job.pk for job in made.values()])

        assert changed == [made[State.READY].pk]
        assert Job.objects.get(pk=changed[0]).run_after == wake.run_after
        assert wake.run_after.year < 2040

    def test_run_now_leaves_jobs_that_are_due_in_their_place(self, cursor):
        job = row()

        assert control.run_now(cursor, [job.pk]) == ([], [])
        assert Job.objects.get().run_after == job.run_after

    def test_discard_deletes_all_but_running_jobs_with_their_attempts(self, cursor):
        made = all_states()
        for job in made.values():
            Attempt.objects.create(job=job, number=1, kind=Kind.ERROR)

        deleted = control.discard(cursor, [job.pk for job in made.values()])

        assert set(deleted) == {job.pk for state, job in made.items() if state != State.RUNNING}
        assert Job.objects.get() == made[State.RUNNING]
        assert Attempt.objects.get().job == made[State.RUNNING]

    @pytest.mark.parametrize("act", ["retry", "cancel", "run_now", "discard"])
    def test_ids_that_are_none_change_nothing(self, cursor, act):
        row(State.FAILED)
        choices: dict[str, dict[str, Any]] = {
            "retry": {"reset_attempts": True},
            "cancel": {"reason": "", "keep": None},
        }
        extra = choices.get(act, {})

        assert not any(getattr(control, act)(cursor, [2**60, -1, 0], **extra))
        assert not any(getattr(control, act)(cursor, [], **extra))

    def test_no_statement_makes_a_move_that_is_not_legal(self, cursor):
        for act in (
            lambda ids: control.retry(cursor, ids, reset_attempts=True),
            lambda ids: control.retry(cursor, ids, reset_attempts=False),
            lambda ids: control.run_now(cursor, ids),
            lambda ids: control.cancel(cursor, ids, reason="", keep=DAY),
        ):
            Job.objects.all().delete()
            made = all_states()
            act([job.pk for job in made.values()])
            for before, job in made.items():
                after = State(states()[job.pk])
                assert after == before or after in MOVES[before]
                assert (Job.objects.get(pk=job.pk).finished_at is not None) is (after in FINAL)


class TestPause:
    def test_says_who_and_why(self, cursor):
        assert control.pause(cursor, "mail", by="ann", reason="flood")

        queue = Queue.objects.get()
        assert (queue.name, queue.paused_by, queue.pause_reason) == ("mail", "ann", "flood")
        assert queue.is_paused

    def test_by_someone_with_a_long_name_and_host_is_cut(self, cursor):
        assert control.pause(cursor, "mail", by="deploy@" + "x" * 253, reason="")

        assert Queue.objects.get().paused_by == "deploy@" + "x" * 193

    def test_is_done_once(self, cursor):
        control.pause(cursor, "mail", by="ann", reason="flood")

        assert not control.pause(cursor, "mail", by="bob", reason="other")
        assert Queue.objects.get().paused_by == "ann"

    def test_and_resume_leave_a_queue_as_it_was(self, cursor):
        assert not control.resume(cursor, "mail")
        control.pause(cursor, "mail", by="ann", reason="flood")

        assert control.resume(cursor, "mail")
        assert not control.resume(cursor, "mail")

        queue = Queue.objects.get()
        assert (queue.is_paused, queue.paused_by, queue.pause_reason) == (False, "", "")
        assert control.pause(cursor, "mail", by="bob", reason="")
