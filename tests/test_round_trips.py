"""How often enqueuing code goes to the database: once before the commit, and at most once after it."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_jobs import waking
from tests import jobs


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
