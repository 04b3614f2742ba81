"""Enqueueing many jobs at once, and after a commit elsewhere."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone as django_timezone

import django_jobs
from django_jobs.models import Job
from tests import jobs

HOUR = timedelta(hours=1)


class TestMany:
    def test_each_call_is_a_job(self, db):
        count = jobs.ok.enqueue_many([(1,), [2], {"three": 3}, ()])

        assert count == 4
        found = [(job.args, job.kwargs) for job in Job.objects.order_by("pk")]
        assert found == [([1], {}), ([2], {}), ([], {"three": 3}), ([], {})]

    def test_ids_come_back_in_order(self, db):
        ids = jobs.ok.enqueue_many(((number,) for number in range(10)), ids=True)

        assert [Job.objects.get(pk=job_id).args for job_id in ids] == [[number] for number in range(10)]
        assert jobs.ok.get_result(ids[3]).args == [3]

    def test_they_are_like_jobs_enqueued_one_by_one(self, db):
        special = jobs.ok.using(run_after=HOUR, priority=3, queue_name="m", meta={"a": 1}, max_attempts=2)
        single = special.enqueue(1)
        special.enqueue_many([(1,)])

        own = {"id", "enqueued_at", "run_after"}
        one, other = (
            {name: value for name, value in job.items() if name not in own} for job in Job.objects.values()
        )
        assert one == other
        assert {job.run_after - job.enqueued_at for job in Job.objects.all()} == {HOUR}
        assert single.task.priority == 3

    def test_none_is_no_job(self, db):
        assert jobs.ok.enqueue_many([]) == 0
        assert jobs.ok.enqueue_many(iter([]), ids=True) == []

    def test_an_iterator_is_read_a_chunk_at_a_time(self, transactional_db, monkeypatch):
        monkeypatch.setattr("django_jobs.enqueueing.CHUNK", 10)
        stored = []

        def calls():
            for number in range(35):
                stored.append(Job.objects.count())
                yield (number,)

        assert jobs.ok.enqueue_many(calls()) == 35

        assert stored == [0] * 10 + [10] * 10 + [20] * 10 + [30] * 5

    def test_a_failure_of_the_iterator_takes_all_back(self, transactional_db, monkeypatch):
        monkeypatch.setattr("django_jobs.enqueueing.CHUNK", 10)

        def calls():
            yield from ((number,) for number in range(25))
            raise jobs.Unwell

        with pytest.raises(jobs.Unwell):
            jobs.ok.enqueue_many(calls())

        assert not Job.objects.exists()

    @pytest.mark.slow
    @pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads the peak that Linux keeps")
    def test_a_hundred_thousand_from_an_iterator_take_no_more_memory_than_ten_thousand(self, db):
        def peak(count):
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            assert jobs.ok.enqueue_many((number,) for number in range(count)) == count
            status = Path("/proc/self/status").read_text()
            return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

        few = peak(10_000)

        # A list of the calls alone takes 7,000 kB.
        assert peak(100_000) - few < 4_000

    def test_thousands_are_two_statements(self, db, django_assert_num_queries):
        with django_assert_num_queries(2):  # one draws the ids, one is the COPY
            jobs.ok.enqueue_many((number,) for number in range(3000))

        assert Job.objects.count() == 3000

    def test_errors_of_the_database_are_djangos(self, db):
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_jobs_job ADD CHECK (priority < 50) NOT VALID")

        with pytest.raises(IntegrityError), transaction.atomic():
            jobs.ok.using(priority=60).enqueue_many([()])


class TestOnCommit:
    def test_a_job_is_enqueued_after_the_commit(self, transactional_db):
        with transaction.atomic():
            django_jobs.enqueue_on_commit(jobs.ok, 1, key=2)
            assert not Job.objects.exists()

        job = Job.objects.get()
        assert (job.args, job.kwargs) == ([1], {"key": 2})

    def test_a_rollback_enqueues_nothing(self, transactional_db):
        with transaction.atomic():
            django_jobs.enqueue_on_commit(jobs.ok)
            transaction.set_rollback(True)

        assert not Job.objects.exists()

    def test_without_a_transaction_it_is_enqueued_at_once(self, transactional_db):
        django_jobs.enqueue_on_commit(jobs.ok)

        assert Job.objects.exists()

    def test_a_wrong_call_is_refused_at_once(self, transactional_db):
        with pytest.raises(TypeError, match="missing"):
            django_jobs.enqueue_on_commit(jobs.give)
        with pytest.raises(ValueError, match="nan"):
            django_jobs.enqueue_on_commit(jobs.give, math.nan)

    def test_the_limits_of_the_tasks_own_backend_hold(self, transactional_db, settings):
        settings.TASKS = {
            "default": {
                "BACKEND": "django_jobs.backend.JobsBackend",
                "QUEUES": [],
                "OPTIONS": {"max_argument_bytes": 10},
            }
        }
        with pytest.raises(ValueError, match="over the limit of 10"), transaction.atomic():
            django_jobs.enqueue_on_commit(jobs.give, "x" * 20)

    def test_what_is_changed_after_the_call_is_not_enqueued(self, transactional_db):
        names = ["a"]
        with transaction.atomic():
            django_jobs.enqueue_on_commit(jobs.give, names)
            names.append("b")

        assert Job.objects.get().args == [["a"]]

    def test_an_argument_may_be_called_task(self, transactional_db):
        django_jobs.enqueue_on_commit(jobs.ok, task=1)

        assert Job.objects.get().kwargs == {"task": 1}

    def test_it_is_the_time_of_the_commit_that_counts(self, transactional_db):
        with transaction.atomic():
            django_jobs.enqueue_on_commit(jobs.ok)
            began = django_timezone.now()

        assert Job.objects.get().enqueued_at > began
