"""Connections of the threads that run bodies: a job never fails because an idle one was cut."""

from __future__ import annotations

import asyncio
import resource
import threading
import time

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.db import connections as django_connections

from django_jobs.worker import connections
from django_jobs.worker.connections import is_lasting
from tests import jobs
from tests.eventually import eventually
from tests.worker.workers import QUICK, end_sessions, job_of, running


@pytest.mark.parametrize("session", [jobs.backend_pid, jobs.abackend_pid], ids=["sync", "async"])
class TestAcrossJobs:
    @pytest.fixture(autouse=True)
    def kept_while_idle(self, settings, transactional_db, monkeypatch):
        settings.DJANGO_JOBS = QUICK
        monkeypatch.setitem(django_connections.settings["default"], "CONN_MAX_AGE", None)
        yield
        asyncio.run(sync_to_async(django_connections.close_all)())  # where async bodies had theirs

    def test_bodies_keep_their_connection(self, session):
        with running(threads=1):
            assert len({job_of(session.enqueue()).return_value for _ in range(3)}) == 1

    def test_one_that_was_cut_while_idle_costs_no_job(self, session):
        with running(threads=1):
            for _ in range(3):
                job = job_of(session.enqueue())
                assert (job.state, job.attempt) == ("SUCCESSFUL", 1)

                end_sessions(job.return_value)


@pytest.mark.parametrize("session", [jobs.backend_pid, jobs.abackend_pid], ids=["sync", "async"])
class TestWhenDjangoKeepsNone:
    """CONN_MAX_AGE is 0, as it is by default."""

    @pytest.fixture(autouse=True)
    def quick(self, settings, transactional_db):
        settings.DJANGO_JOBS = QUICK

    def test_jobs_that_follow_each_other_share_one_until_the_slot_was_idle(self, session, monkeypatch):
        monkeypatch.setattr("django_jobs.worker.slots.IDLE_SECONDS", 3.0)
        monkeypatch.setattr("django_jobs.worker.event_loop.IDLE_SECONDS", 3.0)
        with running(threads=1, async_slots=1):
            [pid] = {job_of(session.enqueue()).return_value for _ in range(3)}

            eventually(lambda: pid not in sessions())


def sessions():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return {row[0] for row in cursor.fetchall()}


@pytest.mark.parametrize("session", [jobs.backend_pid, jobs.abackend_pid], ids=["sync", "async"])
def test_one_that_is_older_than_django_allows_is_replaced(session, settings, transactional_db, monkeypatch):
    settings.DJANGO_JOBS = QUICK
    monkeypatch.setitem(django_connections.settings["default"], "CONN_MAX_AGE", 0.01)
    with running(threads=1):
        first = job_of(session.enqueue()).return_value
        time.sleep(0.02)  # its age is what counts

        assert job_of(session.enqueue()).return_value != first


def test_jobs_that_use_no_database_make_no_hop_to_the_thread_that_does(
    transactional_db, settings, monkeypatch
):
    settings.DJANGO_JOBS = QUICK
    with running():
        job_of(jobs.abackend_pid.enqueue())
        hops = []

        def hop(call):
            hops.append(call)
            return sync_to_async(call)

        monkeypatch.setattr(connections, "sync_to_async", hop)
        jobs.agive.enqueue_many((number,) for number in range(50))
        job_of(jobs.agive.enqueue(0))

    assert connections.check_connections not in hops


def test_a_connection_is_fit_however_many_files_are_open(db, many_files):
    found = []

    def look():
        connection.ensure_connection()
        assert connection.connection.fileno() > 1024
        found.append(connections.is_unfit(connection))
        connection.close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [False]


def spin(over):
    """Do nothing, in Python alone, until it is over."""
    while not over.is_set():
        pass


def test_looking_whether_one_was_cut_wakes_no_other_thread(db):
    """Each look would wake one of those that wait for the interpreter's lock, if it let go of that."""
    connection.ensure_connection()
    over = threading.Event()
    busy = [threading.Thread(target=spin, args=[over]) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        looks = [connections.is_cut(connection) for _ in range(1000)]
        woken = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
    finally:
        over.set()
        for thread in busy:
            thread.join()
    assert looks == [False] * 1000
    assert woken < 100


def test_a_copy_that_a_body_opened_takes_the_place_of_none_that_is_kept_track_of(db):
    found: list[bool] = []

    def look():
        connections.keep_track()
        connection.ensure_connection()
        copy = connection.copy()
        copy.connect()
        with connection._nodb_cursor() as cursor:  # one of no alias that Django knows
            cursor.execute("SELECT 1")
        found.extend(known is django_connections["default"] for known in connections.opened())
        copy.close()
        connection.close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.parametrize(
    ("sql", "lasts"),
    [
        ("SET search_path = a", True),
        (" set session characteristics as transaction read only", True),
        ("RESET ALL", True),
        ("LISTEN a", True),
        ("CREATE TEMP TABLE a ()", True),
        ("create local temporary table a ()", True),
        ("PREPARE a AS SELECT 1", True),
        ("SELECT pg_advisory_lock(1)", True),
        ("SELECT set_config('a.b', '1', false)", True),
        ("SET LOCAL search_path = a", False),
        ("SET TRANSACTION READ ONLY", False),
        ("SET CONSTRAINTS ALL DEFERRED", False),
        ("SELECT pg_advisory_xact_lock(1)", False),
        ("SELECT settings FROM a", False),
        ("UPDATE a SET b = 1", False),
        ("SAVEPOINT a", False),
    ],
)
def test_what_changes_a_session_for_others_is_told_from_what_does_not(sql, lasts):
    assert is_lasting(sql) is lasts
