"""The library's own tests, as a project writes them; `test_project` runs them with `manage.py test`."""

from __future__ import annotations

from datetime import timedelta

from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from django_jobs.models import Job
from django_jobs.testing import JobsTestMixin, immediate
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker
from tests.contract.project.library.models import Book
from tests.contract.project.library.tasks import add_book, fail, print_title
from tests.eventually import eventually

DAY = timedelta(days=1)


class InATestCase(JobsTestMixin, TestCase):
    """In one transaction that is never committed."""

    def setUp(self) -> None:
        assert Job.objects.count() == 0

    def test_jobs_are_enqueued_asserted_and_run(self) -> None:
        book = Book.objects.create(title="Momo")
        with transaction.atomic():
            result = print_title.enqueue(book.pk)
        self.assert_enqueued(print_title, [book.pk], queue="default", due=timedelta(0))
        self.assert_not_enqueued(fail)

        assert self.run_due().completed == 1

        result.refresh()
        assert result.return_value == "Momo"
        assert connection.in_atomic_block

    def test_time_moves_without_a_clock(self) -> None:
        result = add_book.using(run_after=7 * DAY).enqueue("Krabat")
        self.assert_enqueued(add_book, ["Krabat"], due=7 * DAY)

        assert not self.run_due(at=6 * DAY)
        assert self.run_due(at=7 * DAY + DAY).completed == 1

        result.refresh()
        assert result.finished_at - result.enqueued_at > 7 * DAY

    @immediate()
    def test_immediate_mode_has_the_real_checks(self) -> None:
        assert add_book.enqueue(b"Ronja").args == ["Ronja"]
        assert Book.objects.filter(title="Ronja").exists()
        with self.assertRaises(TypeError):  # noqa: PT027  (as a project writes it, without pytest)
            add_book.enqueue(object())

    async def test_async_tests_too(self) -> None:
        await add_book.aenqueue("Emil")

        assert (await self.arun_due()).completed == 1
        assert await Book.objects.filter(title="Emil").aexists()


class InATransactionTestCase(JobsTestMixin, TransactionTestCase):
    """With commits; the tables are flushed after each test."""

    def setUp(self) -> None:
        assert Job.objects.count() == 0

    def test_jobs_are_run(self) -> None:
        add_book.enqueue("Pippi")

        assert self.drain().completed == 1
        assert Book.objects.count() == 1

    def test_a_real_worker_leaves_no_session_behind(self) -> None:
        worker = Worker(WorkerOptions(threads=1))
        worker.start()
        result = add_book.enqueue("Krümel")
        eventually(lambda: Job.objects.filter(pk=result.id, state="SUCCESSFUL").exists(), 20)
        assert worker.stop(10)

    async def test_async_code_may_commit(self) -> None:
        await add_book.aenqueue("Lotta")

        assert await sync_to_async(Job.objects.count)() == 1
