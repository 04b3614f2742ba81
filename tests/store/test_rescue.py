"""Who is dead, who may say so, and what becomes of the jobs that the dead were running."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_jobs.core.records import ClaimedJob, Ended, Retried
from django_jobs.core.states import Kind, State
from django_jobs.models import Attempt, Job, Worker, WorkerState
from django_jobs.store import rescue, workers
from django_jobs.store.cursor import run
from django_jobs.store.finish import finish
from tests import jobs
from tests.rows import LONG_AGO, TRACE, row, worker_row

LOCK_CLASS = 77
LOST = Retried(kind=Kind.LOST, trace=TRACE, after=timedelta(0))
TIMES = ["run_after", "enqueued_at", "started_at", "last_attempted_at"]
STRANGE_TIMES = ["-infinity", "4713-01-01 BC", "infinity", "294276-12-31"]
MINUTE = timedelta(minutes=1)
ME = 2**50


def looked(link, *, dead_after=MINUTE, lock_class=LOCK_CLASS):
    statement = rescue.look(ME, lock_class=lock_class, dead_after=dead_after)
    return {peer.id: (peer.lock_gone, peer.silent) for peer in rescue.looked(run(link, statement))}


def bury(link, worker, *, certain=False, dead_after=MINUTE, lock_class=LOCK_CLASS):
    statement = rescue.bury(
        worker.pk, lock_class=lock_class, dead_after=dead_after, certain=certain, ending="why"
    )
    return bool(run(link, statement))


def orphans(link):
    return rescue.found(run(link, rescue.orphans()))


class TestALook:
    def test_sees_who_holds_a_lock(self, links):
        holder, other = worker_row(holds_lock=True), worker_row(holds_lock=True)
        me, session = links().cursor(), links().cursor()
        run(session, workers.lock(holder.pk, LOCK_CLASS))

        assert looked(me) == {holder.pk: (False, False), other.pk: (True, False)}
        session.connection.close()

    @pytest.mark.parametrize("lock_class", [0, -5, 2**31 - 1, -(2**31)])
    @pytest.mark.parametrize("number", [1, 2**31 - 1, 2**31 + 5, 2**33 - 1, 2**62 + 3])
    def test_sees_it_whatever_the_numbers(self, links, lock_class, number):
        holder = worker_row(id=number, holds_lock=True)
        me, session = links().cursor(), links().cursor()

        assert looked(me, lock_class=lock_class)[number] == (True, False)
        run(session, workers.lock(number, lock_class))

        assert looked(me, lock_class=lock_class)[number] == (False, False)
        assert not bury(me, holder, lock_class=lock_class)

    def test_misses_no_lock_of_one_that_said_it_has_none(self, cursor):
        pooled = worker_row(holds_lock=False)

        assert looked(cursor) == {pooled.pk: (False, False)}

    def test_sees_who_has_been_silent(self, cursor):
        silent = worker_row(heartbeat_at=timezone.now() - 2 * MINUTE)

        assert looked(cursor) == {silent.pk: (False, True)}
        assert looked(cursor, dead_after=3 * MINUTE) == {silent.pk: (False, False)}

    def test_sees_neither_itself_nor_those_that_ended(self, cursor):
        worker_row(id=ME)
        for state in (WorkerState.STOPPED, WorkerState.LOST):
            worker_row(state=state)

        assert looked(cursor) == {}


class TestABurial:
    def test_of_one_that_lives_is_refused(self, cursor):
        live = worker_row(holds_lock=False)

        assert not bury(cursor, live)
        live.refresh_from_db()
        assert live.state == WorkerState.RUNNING

    def test_of_one_whose_lock_is_held_is_refused(self, links):
        holder = worker_row(holds_lock=True)
        run(links().cursor(), workers.lock(holder.pk, LOCK_CLASS))

        assert not bury(links().cursor(), holder)

    @pytest.mark.parametrize("state", [WorkerState.RUNNING, WorkerState.STOPPING])
    def test_of_one_whose_lock_is_free_is_done(self, cursor, state):
        gone = worker_row(holds_lock=True, state=state)

        assert bury(cursor, gone)

        gone.refresh_from_db()
        assert (gone.state, gone.holds_lock, gone.ending) == (WorkerState.LOST, False, "why")
        assert gone.stopped_at is not None

    def test_of_a_silent_one_is_done(self, cursor):
        assert bury(cursor, worker_row(heartbeat_at=timezone.now() - 2 * MINUTE))

    def test_of_one_that_came_back_meanwhile_is_refused(self, cursor):
        silent = worker_row(heartbeat_at=timezone.now() - 2 * MINUTE)
        run(cursor, workers.heartbeat(silent.pk, stopping=False, holds_lock=False))

        assert not bury(cursor, silent)

    def test_of_one_that_was_seen_dying_needs_no_sign(self, cursor):
        assert bury(cursor, worker_row(), certain=True)

    def test_is_done_once(self, links):
        gone = worker_row(holds_lock=True)

        assert [bury(links().cursor(), gone, certain=True) for _ in range(3)] == [True, False, False]

    def test_of_one_that_ended_by_itself_is_refused(self, cursor):
        assert not bury(cursor, worker_row(state=WorkerState.STOPPED), certain=True)

    def test_leaves_its_lock_free(self, links):
        gone = worker_row(holds_lock=True)
        bury(links().cursor(), gone)

        assert run(links().cursor(), workers.lock(gone.pk, LOCK_CLASS)) == [(True,)]


class TestOrphans:
    @pytest.mark.parametrize("state", [WorkerState.STOPPED, WorkerState.LOST, None])
    def test_are_jobs_that_run_under_a_dead_name(self, cursor, state):
        worker = 999_999 if state is None else worker_row(state=state).pk
        job = row(State.RUNNING, worker=worker, attempt=3, uncounted=1, max_attempts=7)
        row(State.SUCCESSFUL, worker=worker)

        [orphan] = orphans(cursor)

        assert (orphan.worker, orphan.worker_name) == (worker, None if state is None else "w")
        assert (orphan.job.id, orphan.job.attempt, orphan.job.counted_attempt) == (job.pk, 3, 2)
        assert (orphan.job.max_attempts, orphan.job.task_path) == (7, jobs.ok.module_path)

    @pytest.mark.parametrize("state", [WorkerState.RUNNING, WorkerState.STOPPING])
    def test_are_no_jobs_of_the_living(self, cursor, state):
        row(State.RUNNING, worker=worker_row(state=state, holds_lock=True).pk)

        assert orphans(cursor) == []

    def test_of_many_workers_are_found_among_those_of_the_living(self, cursor):
        live: list[int] = []
        dead: list[int] = []
        for number in range(12):
            state = WorkerState.LOST if number % 3 == 0 else WorkerState.RUNNING
            worker = worker_row(state=state)
            (dead if number % 3 == 0 else live).append(row(State.RUNNING, worker=worker.pk).pk)

        assert sorted(orphan.job.id for orphan in orphans(cursor)) == dead

    def test_come_with_their_times_and_meta(self, cursor):
        job = row(State.RUNNING, worker=999_999, enqueued_at=LONG_AGO, run_after=LONG_AGO, meta={"by": "ada"})
        row(State.RUNNING, worker=999_999)

        found, bare = sorted((orphan.job for orphan in orphans(cursor)), key=lambda found: found.id)

        times = (found.run_after, found.enqueued_at, found.started_at, found.last_attempted_at)
        assert times == (LONG_AGO, LONG_AGO, job.started_at, job.last_attempted_at)
        assert (found.meta, bare.meta) == ('{"by": "ada"}', None)

    @pytest.mark.parametrize("value", STRANGE_TIMES)
    @pytest.mark.parametrize("name", TIMES)
    def test_are_found_whatever_their_times(self, cursor, name, value):
        job = row(State.RUNNING, worker=999_999)
        cursor.execute(f"UPDATE django_jobs_job SET {name} = %s WHERE id = %s", [value, job.pk])

        [orphan] = orphans(cursor)
        [statement] = finish(orphan.worker, [Ended(orphan.job, LOST)], keep_cancelled=None)

        assert [found[0] for found in run(cursor, statement)] == [job.pk]

    def test_have_one_heir(self, links):
        """Both rescuers saw them; the second one comes too late."""
        job = row(State.RUNNING, worker=999_999)
        one, other = links().cursor(), links().cursor()
        [mine], [yours] = orphans(one), orphans(other)

        def adopt(link, orphan):
            [statement] = finish(orphan.worker, [Ended(orphan.job, LOST)], keep_cancelled=None)
            return [row[0] for row in run(link, statement)]

        assert (adopt(one, mine), adopt(other, yours)) == ([job.pk], [])
        assert Attempt.objects.get().kind == Kind.LOST


class TestUnknownTasks:
    def rows(self, cursor, *, wait=timedelta(hours=1), queues=("default",)):
        statement = rescue.fail_unknown(queues, wait=wait, keep=MINUTE, reason="nobody knows it")
        return run(cursor, statement)

    def fail(self, cursor):
        return [found[0] for found in self.rows(cursor)]

    def test_that_waited_too_long_fail(self, cursor):
        worker_row(tasks=["tests.jobs.give"])
        job = row(run_after=timezone.now() - timedelta(hours=2), attempt=1)

        assert self.fail(cursor) == [job.pk]

        job.refresh_from_db()
        assert (job.state, job.reason, job.attempt) == (State.FAILED, "nobody knows it", 2)
        assert job.expires_at is not None
        [attempt] = job.history()
        assert (attempt.kind, attempt.number, attempt.decision) == (Kind.UNKNOWN_TASK, 2, "FAILED")

    def test_come_back_with_their_times_and_meta(self, cursor):
        due = timezone.now() - timedelta(hours=2)
        row(run_after=due, enqueued_at=LONG_AGO, meta={"by": "ada"})
        ran: dict[str, Any] = {"started_at": LONG_AGO, "last_attempted_at": LONG_AGO, "attempt": 1}
        row(run_after=due, enqueued_at=LONG_AGO, **ran)

        new, old = sorted((ClaimedJob(*found) for found in self.rows(cursor)), key=lambda found: found.id)

        assert (new.run_after, new.enqueued_at, new.meta) == (due, LONG_AGO, '{"by": "ada"}')
        assert new.started_at == new.last_attempted_at > due  # it never ran: when it failed
        assert (old.started_at, old.last_attempted_at, old.meta) == (LONG_AGO, LONG_AGO, None)

    @pytest.mark.parametrize("value", STRANGE_TIMES)
    @pytest.mark.parametrize("name", TIMES)
    def test_fail_whatever_their_times(self, cursor, name, value):
        job = row(run_after=timezone.now() - timedelta(hours=2), started_at=LONG_AGO)
        cursor.execute(f"UPDATE django_jobs_job SET {name} = %s WHERE id = %s", [value, job.pk])

        never_due = name == "run_after" and value in ("infinity", "294276-12-31")
        assert self.fail(cursor) == ([] if never_due else [job.pk])

    def test_that_a_live_worker_knows_stay(self, cursor):
        worker_row(tasks=["tests.jobs.ok"])
        row(run_after=timezone.now() - timedelta(hours=2))

        assert self.fail(cursor) == []

    def test_that_only_a_dead_worker_knew_fail(self, cursor):
        worker_row(tasks=["tests.jobs.ok"], state=WorkerState.LOST)
        job = row(run_after=timezone.now() - timedelta(hours=2))

        assert self.fail(cursor) == [job.pk]

    def test_that_are_new_or_elsewhere_stay(self, cursor):
        row()
        row(queue_name="other", run_after=timezone.now() - timedelta(hours=2))
        row(State.RUNNING, run_after=timezone.now() - timedelta(hours=2))

        assert self.fail(cursor) == []
        assert not Job.objects.filter(state=State.FAILED).exists()


def test_a_worker_that_was_buried_can_not_renew_its_row(cursor):
    gone = worker_row(holds_lock=True)
    bury(cursor, gone)

    assert run(cursor, workers.heartbeat(gone.pk, stopping=False, holds_lock=True)) == []
    assert Worker.objects.get(pk=gone.pk).state == WorkerState.LOST
