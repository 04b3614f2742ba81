"""What pages state in a sentence and no other test shows."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.test import override_settings

from django_jobs.core.states import State
from django_jobs.management.commands.runjobs import log_to_console
from django_jobs.models import Job, Worker
from django_jobs.worker.claiming import Claiming
from django_jobs.worker.requests import Served
from example_project.shop.models import Order
from tests.docs import touring
from tests.docs.blocks import ROOT, blocks
from tests.eventually import eventually


def others() -> int:
    """Return how many sessions this database has besides the test's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
            " AND pid <> pg_backend_pid()"
        )
        [count] = cursor.fetchone()
    return int(count)


@pytest.fixture
def gate(transactional_db):
    """Lets the bodies of `touring` end when the test does."""
    touring.gate.clear()
    yield touring.gate
    touring.gate.set()


def running(count: int) -> bool:
    return Job.objects.filter(state=State.RUNNING).count() == count


class TestConnections:
    """docs/how-to/deploy.md: two, and one for each thread and for the loop where jobs use the database."""

    def test_an_idle_worker_has_two_and_jobs_without_a_query_cost_none(self, start_worker, gate):
        eventually(lambda: others() == 0)
        worker = start_worker(listen=True)
        eventually(lambda: worker.is_healthy and others() == 2)

        touring.waits.enqueue_many([(), ()])

        eventually(lambda: running(2))
        assert others() == 2

    def test_each_thread_costs_one_and_all_async_jobs_together_another(self, start_worker, gate):
        eventually(lambda: others() == 0)
        start_worker(listen=True)

        touring.waits_after_a_query.enqueue_many([(), ()])
        touring.waits_after_an_async_query.enqueue_many([(), (), ()])

        eventually(lambda: running(5) and others() == 2 + 2 + 1)


def test_a_worker_that_polls_writes_nothing_to_the_log_of_queries(start_worker, caplog):
    with caplog.at_level(logging.DEBUG, "django.db.backends"):
        worker = start_worker(poll_seconds=0.05)
        eventually(lambda: worker.dispatcher.claiming.poll_at > 0)
        polled = worker.dispatcher.claiming.poll_at
        eventually(lambda: worker.dispatcher.claiming.poll_at > polled)
        worker.stop(5)

    assert [record for record in caplog.records if record.name.startswith("django.db")] == []


def test_the_idempotency_key_is_the_same_in_every_attempt_and_in_no_other_job(start_worker):
    touring.keys.clear()
    touring.note_its_key.enqueue_many([(), ()])

    start_worker()

    eventually(lambda: Job.objects.filter(state=State.SUCCESSFUL).count() == 2)
    assert len(touring.keys) == 4
    assert len(set(touring.keys)) == 2
    assert len({key for _, key in touring.keys}) == 2


def test_a_task_that_enqueues_itself_does_so_in_its_own_transaction(start_worker):
    touring.goes_on_later.enqueue(1)
    touring.goes_on_later.using(max_attempts=1).enqueue(2)

    start_worker()

    eventually(lambda: Job.objects.filter(attempt=1, finished_at__isnull=False).count() == 2)
    assert [order.price_cents for order in Order.objects.all()] == [1]
    [later] = Job.objects.filter(state=State.READY)
    assert later.args == [2]
    assert later.run_after - later.enqueued_at == timedelta(hours=1)


def test_workers_of_other_lock_classes_hold_other_locks(start_worker):
    with override_settings(DJANGO_JOBS={"lock_class": 4711}):
        worker = start_worker(listen=True)
        eventually(lambda: Worker.objects.filter(holds_lock=True).exists())

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = 4711 AND granted"
        )
        assert cursor.fetchall() == [(worker.dispatcher.worker,)]


def test_polls_of_a_fleet_are_spread():
    polls = set()
    for _ in range(50):
        claiming = Claiming(Served(None, frozenset(), {}), kinds=["sync"], queues=[], poll_seconds=5.0)
        claiming.surveyed([], now=0.0, seconds=0.0)
        polls.add(claiming.poll_at)

    assert len(polls) > 10
    assert 4.5 <= min(polls) <= max(polls) <= 5.5


def test_the_lifespan_of_the_page_on_embedding_starts_and_stops_a_worker(transactional_db):
    names: dict[str, object] = {"__name__": "page_on_embedding"}
    exec(blocks(Path(ROOT, "docs/how-to/embed.md"), "python")[1].code, names)
    application = names["application"]
    told: list[str] = []

    async def serve() -> None:
        inbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()

        async def send(message: dict[str, str]) -> None:
            told.append(message["type"])

        task = asyncio.create_task(application({"type": "lifespan"}, inbox.get, send))  # type: ignore[operator]
        await inbox.put({"type": "lifespan.startup"})
        while not await Worker.objects.filter(state="RUNNING").aexists():
            await asyncio.sleep(0.02)
        await sync_to_async(connections.close_all)()  # of the thread that asked
        await inbox.put({"type": "lifespan.shutdown"})
        await task

    asyncio.run(asyncio.wait_for(serve(), 20))

    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert Worker.objects.get().state == "STOPPED"


@pytest.mark.parametrize(("verbosity", "level"), [(0, logging.ERROR), (2, logging.INFO), (3, logging.DEBUG)])
def test_verbosity_sends_log_lines_to_the_console_where_the_project_does_not(monkeypatch, verbosity, level):
    logger = logging.getLogger("django_jobs")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    monkeypatch.setattr(logger, "propagate", False)

    log_to_console(1, explicit=False)
    assert logger.handlers == []

    log_to_console(verbosity, explicit=True)
    assert [type(handler) for handler in logger.handlers] == [logging.StreamHandler]
    assert logger.level == level


def test_the_readme_says_why_the_database():
    readme = Path(ROOT, "README.md").read_text("utf-8")

    assert "## Why the database" in readme
    assert "docs/explanation/why-the-database.md" in readme
