"""Workers inside another process, and the command in a thread."""

from __future__ import annotations

import threading
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from django_jobs.models import Job, StateChoices
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, job_of, kinds, nothing_runs, other_sessions


@pytest.fixture
def gates(tmp_path, monkeypatch):
    """The folder of gates, for bodies that run in this process."""
    monkeypatch.setenv("SCENARIO_FOLDER", str(tmp_path))
    return tmp_path


def in_thread(work):
    """Run `work` in a thread of its own and return what it returned or raised."""
    found = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001  (handed to the test)
            found.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert found
    return found[0]


earlier: set[threading.Thread] = set()
"""Threads that were there before the test: a body of another one may be about to end."""


@pytest.fixture(autouse=True)
def only_our_threads() -> None:
    earlier.clear()
    earlier.update(threading.enumerate())


def threads() -> set[str]:
    new = set(threading.enumerate()) - earlier
    return {thread.name for thread in new if thread.name.startswith("django_jobs")}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class TestCommandInAThread:
    def test_it_drains_without_a_word_about_signals_51(self, queue, gates):
        results = [tasks.quick.enqueue() for _ in range(3)]
        out = StringIO()

        assert in_thread(lambda: call_command("runjobs", drain=True, stdout=out)) is None

        is_done(*results)
        assert "3 completed" in out.getvalue()
        assert nothing_runs()
        eventually(lambda: not other_sessions())

    def test_inside_a_transaction_it_is_refused_and_the_callers_connection_stays(self, queue, gates):
        def call() -> None:
            with transaction.atomic():
                tasks.quick.enqueue()
                with pytest.raises(CommandError, match=r"inside a transaction on 'default'.*run_due"):
                    call_command("runjobs", drain=True, stdout=StringIO())
                assert Job.objects.count() == 1
            assert Job.objects.get().state == StateChoices.READY

        assert in_thread(call) is None

    def test_its_status_is_that_of_the_error_51(self, queue, gates):
        tasks.flaky.using(max_attempts=1).enqueue(9)

        error = in_thread(lambda: call_command("runjobs", drain=True, stdout=StringIO()))

        assert isinstance(error, CommandError)
        assert error.returncode == 4


class TestEmbeddedWorker:
    def test_start_and_stop_leave_no_session_thread_or_file_behind_176(self, queue, gates):
        def life() -> None:
            worker = Worker(WorkerOptions(threads=2))
            worker.start()
            is_done(tasks.quick.enqueue(), tasks.quick.enqueue())
            (gates / "gate-open").touch()
            is_done(tasks.held_async.enqueue("open"))
            assert worker.stop()
            eventually(lambda: not other_sessions())  # the server needs a moment to hear of it

        life()
        eventually(lambda: not threads())
        before = descriptors()
        life()

        eventually(lambda: not threads())
        assert nothing_runs()
        assert descriptors() <= before

    def test_after_the_grace_a_job_is_handed_back_and_not_run_here_again(self, queue, gates):
        worker = Worker(WorkerOptions(threads=1))
        worker.start()
        first = tasks.held.enqueue("open")
        begun("open")
        second = tasks.quick.enqueue()

        assert not worker.stop(timedelta(seconds=0.2))

        assert job_of(first).state == StateChoices.READY
        assert kinds(first) == ["RELEASED"]
        (gates / "gate-open").touch()
        eventually(lambda: not threads())
        assert job_of(second).state == StateChoices.READY
        assert nothing_runs()
