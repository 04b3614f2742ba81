"""Waking workers: once after the commit, never from what was rolled back, and never at the caller's cost."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_jobs import waking
from django_jobs.core.records import Wake
from django_jobs.store.link import connect
from django_jobs.store.notify import parse
from django_jobs.waking import BURST, Rate, wake_after_commit
from django_jobs.worker.process import connection_parameters
from tests import jobs
from tests.rows import row

NOW = datetime(2026, 11, 29, tzinfo=UTC)


class TestRate:
    def test_a_burst_may_leave_at_once(self):
        rate = Rate(10.0)

        assert [rate.take(100.0)[0] for _ in range(7)] == [True] * int(BURST) + [False] * 2

    def test_the_last_before_a_silence_asks_to_look_again(self):
        rate = Rate(10.0)

        assert [rate.take(100.0) for _ in range(5)] == [(True, 0)] * 4 + [(True, 0.1)]

    def test_it_recovers_with_time(self):
        rate = Rate(10.0)
        for _ in range(6):
            rate.take(100.0)

        assert rate.take(100.05) == (False, 0)
        assert rate.take(100.11) == (True, 0.1)
        assert rate.take(200.0) == (True, 0)

    @pytest.mark.parametrize("per_second", [0.5, 10.0, 50.0])
    def test_every_silence_was_announced(self, per_second):
        """Whatever is spared comes after one that announced a silence, and before that is over."""
        rate = Rate(per_second)
        now, silent_until, spared = 0.0, 0.0, 0
        for step in range(2000):
            now += (step * 7 % 13) / 1000 * 50 / per_second
            allowed, silence = rate.take(now)
            if allowed and silence:
                silent_until = now + silence
            if not allowed:
                spared += 1
                assert now < silent_until
        assert spared > 100


class Ear:
    """Hears what is sent on the channel."""

    def __init__(self, link):
        self.link = link
        link.execute("LISTEN django_jobs")

    def heard(self):
        """Return all that was sent so far: the session's own message is the last of it."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify('django_jobs', 'end')")
        found = []
        for notification in self.link.notifies(timeout=10):
            if notification.payload == "end":
                break
            found.append([(wake.queue_name, wake.priority) for wake in parse(notification.payload)[0]])
        return found


@pytest.fixture(autouse=True)
def no_rates(monkeypatch):
    monkeypatch.setattr(waking, "rates", {})


@pytest.fixture
def ear(transactional_db):
    with connect(connection_parameters("default"), prepare=True) as link:
        yield Ear(link)


class TestNotifications:
    def test_one_job_sends_one(self, ear):
        jobs.ok.using(queue_name="mail", priority=3).enqueue()

        assert ear.heard() == [[("mail", 3)]]

    def test_it_tells_whether_jobs_run_in_threads_or_on_the_event_loop(self, ear):
        """So that a worker claims for the one kind of slot that they are for."""
        with transaction.atomic():
            jobs.ok.enqueue()
            jobs.agive.enqueue(7)
            jobs.ok.enqueue_many([()] * 2)

        [notification] = ear.link.notifies(timeout=10, stop_after=1)
        wakes = parse(notification.payload)[0]
        assert [(wake.queue_name, wake.is_async) for wake in wakes] == [("default", False), ("default", True)]

    def test_a_transaction_sends_one_for_all_its_jobs(self, ear):
        with transaction.atomic():
            for priority in (0, 5, 0):
                jobs.ok.using(priority=priority).enqueue()
            jobs.ok.using(queue_name="mail").enqueue_many([()] * 3)
            assert list(ear.link.notifies(timeout=0)) == []

        assert ear.heard() == [[("default", 0), ("default", 5), ("mail", 0)]]

    def test_enqueueing_is_one_statement_and_its_notification_another(self, ear, django_assert_num_queries):
        with django_assert_num_queries(2):
            jobs.ok.enqueue()
        with django_assert_num_queries(6), transaction.atomic():  # BEGIN and COMMIT are counted
            for _ in range(3):
                jobs.ok.enqueue()

    def test_a_rollback_sends_none(self, ear):
        with transaction.atomic():
            jobs.ok.enqueue()
            transaction.set_rollback(True)

        assert ear.heard() == []

    def test_a_savepoint_that_is_rolled_back_takes_its_own_with_it(self, ear):
        with transaction.atomic():
            jobs.ok.using(queue_name="outer").enqueue()
            with suppress(jobs.Unwell), transaction.atomic():
                jobs.ok.using(queue_name="inner").enqueue()
                raise jobs.Unwell

        assert ear.heard() == [[("outer", 0)]]

    def test_a_savepoint_that_is_kept_is_heard_of(self, ear):
        with transaction.atomic():
            with transaction.atomic():
                jobs.ok.using(queue_name="inner").enqueue()
            jobs.ok.using(queue_name="outer").enqueue()

        assert sorted(wake for found in ear.heard() for wake in found) == [("inner", 0), ("outer", 0)]

    def test_only_a_rolled_back_savepoint_sends_none(self, ear):
        with transaction.atomic(), suppress(jobs.Unwell), transaction.atomic():
            jobs.ok.enqueue()
            raise jobs.Unwell

        assert ear.heard() == []

    def test_other_callbacks_in_between_make_no_difference(self, ear):
        with transaction.atomic():
            jobs.ok.enqueue()
            for _ in range(5):
                transaction.on_commit(lambda: None)
            jobs.ok.enqueue()

        assert len(ear.heard()) == 1

    def test_a_burst_sends_some(self, ear):
        for _ in range(40):
            jobs.ok.enqueue()

        assert 5 <= len(ear.heard()) < 40

    def test_they_can_be_switched_off(self, ear, settings):
        settings.DJANGO_JOBS = {"notify": False}

        jobs.ok.enqueue()

        assert ear.heard() == []

    def test_without_autocommit_none_is_sent_and_the_job_is_there(self, ear):
        transaction.set_autocommit(False)
        try:
            jobs.ok.enqueue()
            transaction.commit()
        finally:
            transaction.set_autocommit(True)

        assert ear.heard() == []

    def test_operators_send_them_too(self, ear):
        row("FAILED", queue_name="mail").retry()
        row(queue_name="other", run_after=timezone.now() + timedelta(hours=1)).run_now()

        assert ear.heard() == [[("mail", 0)], [("other", 0)]]

    def test_one_that_fails_harms_nothing(self, ear, monkeypatch, caplog):
        def broken(*args, **kwargs):
            raise jobs.Unwell("no notification")

        monkeypatch.setattr(waking, "notify", broken)
        with transaction.atomic():
            jobs.ok.enqueue()
            ran = []
            transaction.on_commit(lambda: ran.append(True))

        assert ran == [True]
        assert "they will find the jobs by polling: no notification" in caplog.text

    def test_one_that_the_database_refuses_leaves_the_connection_usable(self, ear, monkeypatch):
        monkeypatch.setattr(
            waking, "notify", lambda cursor, *args, **kwargs: cursor.execute("SELECT pg_notify('', '')")
        )

        jobs.ok.enqueue()
        result = jobs.ok.enqueue()

        assert jobs.ok.get_result(result.id) == result

    def test_the_earliest_due_time_counts(self, ear):
        late, early = NOW + timedelta(hours=1), NOW
        with transaction.atomic():
            for due in (late, early, late):
                wake_after_commit("default", Wake("mail", 0, due))

        [notification] = ear.link.notifies(timeout=10, stop_after=1)
        assert parse(notification.payload)[0] == [Wake("mail", 0, early)]
