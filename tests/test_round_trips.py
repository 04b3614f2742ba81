"""How often enqueuing code goes to the database: once before the commit, and at most once after it."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_jobs import enqueueing, waking
from django_jobs.core.records import Inserted
from tests import jobs
from tests.rows import LONG_AGO


@pytest.fixture(autouse=True)
def rested():
    """No notification was sent lately."""
    waking.rates.clear()
    yield
    waking.rates.clear()


def sent(act):
    """Return the first words of the statements that `act` sends, those of transactions included."""
    with CaptureQueriesContext(connection) as captured:
        act()
    return [query["sql"].split()[0] for query in captured]


class TestOneJob:
    def test_by_itself_is_one_statement_and_one_notification(self, transactional_db):
        assert sent(lambda: jobs.ok.enqueue()) == ["INSERT", "SELECT"]

    def test_in_a_transaction_is_one_before_the_commit_and_one_after(self, transactional_db):
        def act():
            with transaction.atomic():
                jobs.ok.enqueue()

        assert sent(act) == ["BEGIN", "INSERT", "COMMIT", "SELECT"]

    def test_is_one_statement_once_enough_were_notified(self, transactional_db, settings):
        settings.DJANGO_JOBS = {"notify_per_second": 0.001}
        for _ in range(int(waking.BURST)):
            assert sent(lambda: jobs.ok.enqueue()) == ["INSERT", "SELECT"]

        assert sent(lambda: jobs.ok.enqueue()) == ["INSERT"]


def test_one_job_takes_few_calls_of_python_before_and_after_the_database(db, settings, monkeypatch):
    """A request pays for all of them; between two waits for the database each takes twice its usual time."""
    settings.DJANGO_JOBS = {"notify_per_second": 0.001}
    counted: Counter[str] = Counter()
    monkeypatch.setattr(enqueueing, "insert", lambda cursor, job: Inserted(1, LONG_AGO, LONG_AGO))
    for _ in range(int(waking.BURST) + 1):  # the first ones fill the caches
        jobs.ok.enqueue()

    sys.setprofile(lambda frame, event, argument: counted.update([event] * (event in ("call", "c_call"))))
    jobs.ok.enqueue()
    sys.setprofile(None)

    assert 40 < counted["call"] <= 105, counted
    assert 20 < counted["c_call"] <= 60, counted


def test_jobs_of_one_transaction_share_a_notification(transactional_db):
    def act():
        with transaction.atomic():
            for _ in range(5):
                jobs.ok.enqueue()

    assert sent(act) == ["BEGIN", *["INSERT"] * 5, "COMMIT", "SELECT"]


def test_without_notifications_nothing_follows_the_commit(transactional_db, settings):
    settings.DJANGO_JOBS = {"notify": False}

    def act():
        with transaction.atomic():
            jobs.ok.enqueue()

    assert sent(act) == ["BEGIN", "INSERT", "COMMIT"]
