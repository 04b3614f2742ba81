"""What an operator does to jobs and queues, from Python: done once, told after the commit, workers woken."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from django_jobs import operations, signals
from django_jobs.core.states import RETRYABLE, State
from django_jobs.exceptions import UnknownQueue
from django_jobs.models import Job, Queue
from django_jobs.operations import Operations
from tests import jobs
from tests.rows import row

HOUR = timedelta(hours=1)


@contextmanager
def heard(signal):
    """Return what receivers of a signal are told."""
    told = []

    def receive(**given):
        told.append(given["job_ids"])

    signal.connect(receive)
    try:
        yield told
    finally:
        signal.disconnect(receive)


@contextmanager
def broken_receiver(signal):
    def receive(**given):
        raise jobs.Unwell

    signal.connect(receive)
    try:
        yield
    finally:
        signal.disconnect(receive)


@pytest.fixture
def woken(monkeypatch):
    """The queues and priorities that workers are woken for."""
    found: list[tuple[str, int]] = []

    def note(alias, *wakes, everywhere=False):
        found.extend((wake.queue_name, wake.priority) for wake in wakes)
        if everywhere:
            found.append(("everywhere", 0))

    monkeypatch.setattr(operations, "wake_after_commit", note)
    return found


class TestAJob:
    @pytest.mark.parametrize("state", sorted(State))
    def test_is_retried_if_it_failed_or_was_cancelled(self, db, state, woken):
        job = row(state, priority=4, queue_name="mail")
        was_running = state == State.RUNNING

        assert job.retry() is (state in RETRYABLE)

        assert job.state == (State.READY if state in RETRYABLE else state)
        assert woken == ([("mail", 4)] if state in RETRYABLE else [])
        assert (job.worker is not None) is was_running

    def test_is_retried_with_all_its_attempts_or_with_one_more(self, db):
        anew = row(State.FAILED, attempt=3, max_attempts=3)
        once = row(State.FAILED, attempt=3, max_attempts=3)

        assert anew.retry()
        assert once.retry(reset_attempts=False)

        assert (anew.counted_attempt, anew.max_attempts) == (0, 3)
        assert (once.counted_attempt, once.max_attempts) == (3, 4)

    def test_is_retried_once_by_two_at_once(self, db):
        job = row(State.FAILED)
        same = Job.objects.get(pk=job.pk)

        assert (job.retry(), same.retry()) == (True, False)

    def test_that_waits_is_cancelled(self, db, settings):
        settings.DJANGO_JOBS = {"keep_failed": None}
        job = row()

        assert job.cancel("not wanted")
        assert not job.cancel("again")

        assert (job.state, job.reason, job.expires_at) == (State.CANCELLED, "not wanted", None)

    def test_that_runs_is_asked_to_stop(self, db):
        job = row(State.RUNNING)

        assert job.cancel()

        assert job.state == State.RUNNING
        assert job.cancel_requested_at is not None

    def test_that_is_over_is_not_cancelled(self, db):
        assert not row(State.SUCCESSFUL).cancel()

    def test_can_be_made_due(self, db, woken):
        job = row(run_after=timezone.now() + HOUR)

        assert job.run_now()
        assert not row(State.FAILED).run_now()

        assert job.run_after <= timezone.now() + timedelta(seconds=5)
        assert woken == [("default", 0)]

    def test_is_changed_where_it_is_written_and_not_where_it_was_read(self, db, settings, monkeypatch):
        used = []

        class Recorded(Operations):
            def __init__(self, alias):
                used.append(alias)
                super().__init__("default")

        class Replicas:
            def db_for_read(self, model, **hints):
                return "default"

            def db_for_write(self, model, **hints):
                return "default"

        job, queue = row(State.FAILED), Queue.objects.create(name="mail")
        settings.DATABASE_ROUTERS = [Replicas()]
        monkeypatch.setattr(operations, "Operations", Recorded)
        job._state.db = queue._state.db = "replica"

        job.retry()
        queue.pause()
        queue.resume()
        Job.objects.all().cancel()

        assert used == ["default"] * 4


class TestManyJobs:
    def test_are_changed_in_batches(self, db, monkeypatch):
        made = [row(State.FAILED) for _ in range(5)] + [row(State.SUCCESSFUL)]
        batches = []
        retry = Operations.retry

        def counted(self, ids, **options):
            batches.append(len(ids))
            return retry(self, ids, **options)

        monkeypatch.setattr(Operations, "retry", counted)

        chosen = Job.objects.all()
        assert chosen.in_batches(lambda act, ids: act.retry(ids), size=2) == 5

        assert batches == [2, 2, 2]
        assert Job.objects.filter(state=State.READY).count() == len(made) - 1

    def test_are_those_of_the_queryset(self, db):
        failed, other = row(State.FAILED, queue_name="mail"), row(State.FAILED)

        assert Job.objects.filter(queue_name="mail").retry() == 1

        assert set(Job.objects.filter(state=State.READY)) == {failed}
        assert other.state == State.FAILED

    def test_are_looked_for_where_they_are_written(self, db, settings):
        class Replicas:
            def db_for_read(self, model, **hints):
                return "a replica that lags behind"

            def db_for_write(self, model, **hints):
                return "default"

        row(State.FAILED)
        settings.DATABASE_ROUTERS = [Replicas()]

        assert Job.objects.filter(state=State.FAILED).retry() == 1

    def test_in_whatever_order(self, db):
        for _ in range(3):
            row(State.FAILED)

        assert Job.objects.order_by("-enqueued_at").retry(reset_attempts=False) == 3

    def test_can_be_cancelled_made_due_or_discarded(self, db):
        row(run_after=timezone.now() + HOUR)
        row(State.RUNNING)
        row(State.SUCCESSFUL)

        assert Job.objects.all().run_now() == 1
        assert Job.objects.all().cancel("why") == 2
        assert Job.objects.all().discard() == 2
        assert Job.objects.get().state == State.RUNNING

    def test_that_are_none_change_nothing(self, db):
        assert Job.objects.none().retry() == 0
        assert Job.objects.all().discard() == 0


class TestSignals:
    @pytest.mark.parametrize(
        ("signal", "state", "act"),
        [
            (signals.job_retried, State.FAILED, lambda job: job.retry()),
            (signals.job_cancelled, State.READY, lambda job: job.cancel()),
            (signals.job_deleted, State.FAILED, lambda job: Operations().discard([job.pk])),
        ],
        ids=["retried", "cancelled", "deleted"],
    )
    def test_come_after_the_commit_if_something_changed(self, transactional_db, signal, state, act):
        job, other = row(state), row(State.RUNNING)

        with heard(signal) as told, transaction.atomic():
            act(job)
            assert told == []
        assert told == [[job.pk]]

        with heard(signal) as told:
            if signal is not signals.job_cancelled:
                Operations().retry([other.pk])
        assert told == []

    def test_of_what_was_rolled_back_do_not_come(self, transactional_db):
        job = row(State.FAILED)

        with heard(signals.job_retried) as told, transaction.atomic():
            job.retry()
            transaction.set_rollback(True)

        assert told == []

    def test_of_a_running_job_are_left_to_its_worker(self, transactional_db):
        with heard(signals.job_cancelled) as told:
            row(State.RUNNING).cancel()

        assert told == []

    def test_whose_receivers_raise_harm_nothing(self, transactional_db):
        job = row(State.FAILED)

        with broken_receiver(signals.job_retried):
            assert job.retry()

        assert job.state == State.READY


class TestQueues:
    def test_are_paused_by_someone_for_a_reason(self, db):
        assert Operations().pause("mail", by="ann", reason="flood")
        assert not Operations().pause("mail", by="bob")

        queue = Queue.objects.get(name="mail")
        assert (queue.is_paused, queue.paused_by, queue.pause_reason) == (True, "ann", "flood")

    def test_that_are_resumed_wake_workers(self, db, woken):
        Operations().pause("mail")

        assert Operations().resume("mail")
        assert not Operations().resume("mail")

        assert woken == [("everywhere", 0)]

    @pytest.mark.parametrize("name", ["", "a\0b", "a\udcffb", "x" * 129])
    @pytest.mark.parametrize("act", ["pause", "resume"])
    def test_that_can_not_be_are_refused(self, db, django_assert_num_queries, act, name):
        with pytest.raises(UnknownQueue, match=r"^queue_name "), django_assert_num_queries(0):
            getattr(Operations(), act)(name)

    def test_have_methods_of_their_own(self, db):
        queue = Queue.objects.create(name="mail")

        assert queue.pause(by="ann", reason="flood")
        assert (queue.is_paused, queue.paused_by) == (True, "ann")
        assert queue.resume()
        assert not queue.is_paused

    def test_that_nothing_was_set_for_have_them_too(self, db):
        assert not Queue(name="mail").resume()
        assert Queue(name="mail").pause()


@pytest.mark.django_db
class TestChanging:
    def test_a_waiting_job_changes_where_it_is_told_to_and_workers_are_woken(self, woken):
        job = row(State.READY, priority=1, queue_name="mail")
        due = job.run_after

        assert Operations().edit(job.pk, priority=9)

        job.refresh_from_db()
        assert (job.priority, job.queue_name, job.run_after) == (9, "mail", due)
        assert woken == [("mail", 9)]

    def test_one_that_runs_stays_as_it_is(self, woken):
        job = row(State.RUNNING)

        assert not Operations().edit(job.pk, queue_name="mail")

        job.refresh_from_db()
        assert job.queue_name == "default"
        assert woken == []

    def test_what_no_job_can_have_is_refused(self):
        job = row(State.READY)

        with pytest.raises(UnknownQueue):
            Operations().edit(job.pk, queue_name="")
        with pytest.raises(ValueError, match="priority=101 must be a whole number from -100 to 100"):
            Operations().edit(job.pk, priority=101)

    @pytest.mark.parametrize("priority", [1.5, 1.0, True, "5", -101, float("nan")])
    def test_nor_a_priority_that_would_be_stored_as_another(self, priority):
        job = row(State.READY)

        with pytest.raises(ValueError, match=r"priority=.* must be a whole number from -100 to 100"):
            Operations().edit(job.pk, priority=priority)

    @pytest.mark.parametrize(
        ("run_after", "told"),
        [
            (datetime(2030, 1, 1, 12), "has no time zone"),  # noqa: DTZ001  (that is the point)
            (datetime.max.replace(tzinfo=UTC), "must be from"),
            (datetime.min.replace(tzinfo=UTC), "must be from"),
            ("2030-01-01", "must be a datetime"),
            (timedelta(hours=1), "must be a datetime"),
        ],
        ids=str,
    )
    def test_nor_a_time_that_enqueueing_refuses(self, woken, run_after, told):
        job = row(State.READY)

        with pytest.raises(ValueError, match=told):
            Operations().edit(job.pk, run_after=run_after)

        assert Job.objects.get().run_after == job.run_after
        assert woken == []

    def test_a_naive_time_is_the_projects_where_all_are(self, settings):
        settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
        job = row(State.READY)

        assert Operations().edit(job.pk, run_after=datetime(2030, 1, 1, 12))  # noqa: DTZ001  (that is the point)

        assert Job.objects.get().run_after == datetime(2030, 1, 1, 12)  # noqa: DTZ001
        settings.USE_TZ = True
        assert Job.objects.get().run_after == datetime(2030, 1, 1, 17, tzinfo=UTC)

    def test_a_copy_is_a_job_of_its_own_that_is_due(self, woken):
        job = row(State.FAILED, queue_name="mail", priority=3)

        made = Operations().copy(job.pk)

        assert made is not None
        assert Job.objects.get(pk=made).state == State.READY
        assert woken == [("mail", 3)]

    def test_who_enqueued_the_first_did_not_enqueue_its_copy(self):
        job = row(State.FAILED, meta={"enqueued_by": "ada", "tags": ["vip"]})

        made = Operations().copy(job.pk)

        assert made is not None
        assert Job.objects.get(pk=made).meta == {"tags": ["vip"], "copy_of": job.pk}

    def test_there_is_no_copy_of_nothing(self):
        assert Operations().copy(77) is None
