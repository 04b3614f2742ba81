"""What workers write down of their work."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from django.utils import timezone

from django_jobs.core.records import Cancelled, Completed, Ended, Failed, Released, Retried, Snoozed
from django_jobs.core.states import Kind
from django_jobs.models import Intake, Stat
from django_jobs.store.statistics import Tally
from django_jobs.worker import counting
from django_jobs.worker.counting import OTHERS, Counting
from tests import jobs
from tests.eventually import eventually
from tests.rows import LONG_AGO, TRACE, claimed_job
from tests.worker.workers import Workers, settled

DONE = Completed(return_value=None, keep=None)
FAILED = Failed(kind=Kind.ERROR, trace=TRACE, keep=None)
RETRIED = Retried(kind=Kind.TIMEOUT, trace=TRACE, after=timedelta(0))


def counted(*outcomes, seconds=0.0, **columns):
    found = Counting()
    for outcome in outcomes:
        found.count(Ended(claimed_job(**columns), outcome, seconds=seconds))
    return found


class TestCounting:
    def test_outcomes_are_counted_by_queue_and_task(self):
        found = counted(DONE, DONE, FAILED, RETRIED, Cancelled(reason="", keep=None), queue_name="mail")

        [(key, tally)] = found.tallies.items()
        assert key == ("mail", jobs.ok.module_path)
        assert (tally.completed, tally.failed, tally.retried, tally.cancelled) == (2, 1, 1, 1)

    def test_what_snoozed_or_was_handed_back_is_no_run_that_counts(self):
        found = counted(Snoozed(after=timedelta(1)), Released(started=True, reason=""))

        assert found.written()[1]["counted"] == "[]"

    def test_waiting_and_run_times_are_kept(self):
        found = counted(
            DONE, seconds=3.0, run_after=LONG_AGO, last_attempted_at=LONG_AGO + timedelta(hours=1)
        )

        [tally] = found.tallies.values()
        expected = Tally(completed=1)
        expected.took(3600.0, 3.0)
        assert tally == expected

    def test_a_run_of_a_dead_worker_counts_and_has_no_length(self):
        found = counted(Retried(kind=Kind.LOST, trace=TRACE, after=timedelta(0)))

        assert list(found.tallies.values()) == [Tally(retried=1)]

    def test_beyond_so_many_kinds_they_are_counted_without_a_name(self, monkeypatch):
        monkeypatch.setattr(counting, "MOST", 2)
        found = Counting()
        for number in (1, 2, 3, 4, 1):
            found.count(Ended(claimed_job(queue_name=f"q{number}"), DONE))

        assert {key[0]: tally.completed for key, tally in found.tallies.items()} == {"q1": 2, "q2": 1, "": 2}
        assert OTHERS in found.tallies


@pytest.mark.django_db(transaction=True)
class TestAWorker:
    def test_writes_down_what_it_did_at_the_latest_when_it_stops(self):
        with Workers() as workers:
            workers.start()
            jobs.ok.enqueue_many([() for _ in range(5)])
            jobs.fail_once.enqueue()
            eventually(settled)

        for seconds in (60, 3600):
            found = {s.task_path: (s.completed, s.failed) for s in Stat.objects.filter(seconds=seconds)}
            assert found == {jobs.ok.module_path: (5, 0), jobs.fail_once.module_path: (0, 1)}
        assert sum(Stat.objects.filter(seconds=60, completed=5).get().runs) == 5

    def test_writes_it_down_every_minute_in_one_statement(self):
        with Workers() as workers:
            worker = workers.start()
            jobs.ok.enqueue()
            eventually(settled)
            worker.duties.hurry("figures")
            worker.dispatcher.nudge()
            eventually(lambda: Stat.objects.filter(seconds=60, completed=1).exists())
            eventually(lambda: not worker.duties.counting.tallies)

        assert Stat.objects.get(seconds=60).completed == 1

    def test_counts_new_jobs_also_of_queues_that_nobody_serves(self):
        def a_minute_later():
            before = Intake.objects.get().at
            Intake.objects.update(at=before - timedelta(minutes=1))
            worker.duties.hurry("figures")
            worker.dispatcher.nudge()
            eventually(lambda: Intake.objects.get().at > before - timedelta(seconds=50))

        with Workers() as workers:
            worker = workers.start(queues=["default"])
            worker.duties.hurry("figures")
            worker.dispatcher.nudge()
            eventually(Intake.objects.exists)
            jobs.ok.using(queue_name="nobody").enqueue_many([() for _ in range(3)])
            a_minute_later()
            a_minute_later()

        for seconds in (60, 3600):
            stat = Stat.objects.get(seconds=seconds, queue_name="nobody")
            assert (stat.task_path, stat.enqueued, stat.completed) == (jobs.ok.module_path, 3, 0)

    def test_runs_jobs_also_where_the_table_cannot_be_written(self, caplog):
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_jobs_stat RENAME TO elsewhere")
        try:
            with Workers() as workers:
                worker = workers.start()
                jobs.ok.enqueue()
                eventually(settled)
                worker.duties.hurry("figures")
                worker.dispatcher.nudge()
                eventually(lambda: "figures for the admin can't be written" in caplog.text)
                connection_before = worker.dispatcher.connection
                jobs.ok.enqueue()
                eventually(settled)
                assert worker.dispatcher.connection is connection_before
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE elsewhere RENAME TO django_jobs_stat")

    def test_runs_jobs_also_where_a_stranger_wrote_the_highest_number_there_is(self, caplog):
        hour = timezone.now().replace(minute=0, second=0, microsecond=0)
        for at in (hour, hour + timedelta(hours=1)):
            place = {"seconds": 3600, "at": at, "queue_name": "default", "task_path": jobs.ok.module_path}
            Stat.objects.create(**place, completed=2**63 - 1)
        with Workers() as workers:
            worker = workers.start()
            jobs.ok.enqueue()
            eventually(settled)
            connection_before = worker.dispatcher.connection
            worker.duties.hurry("figures")
            worker.dispatcher.nudge()
            eventually(lambda: "figures for the admin can't be written" in caplog.text)
            jobs.ok.enqueue()
            eventually(settled)
            assert worker.dispatcher.connection is connection_before

    def test_keeps_what_it_counted_while_the_database_is_away(self):
        def away(*args):
            raise psycopg.OperationalError("away")

        found = counted(DONE)
        duties = type("Duties", (), {"counting": found})()
        dispatcher = type("Dispatcher", (), {"connection": object()})()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("django_jobs.worker.duties.run_together", away)
            from django_jobs.worker.duties import write_figures

            with pytest.raises(psycopg.OperationalError):
                write_figures(duties, dispatcher)

        assert found.tallies
