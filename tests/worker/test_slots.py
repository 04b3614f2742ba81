"""Threads and the event loop: bodies that end, run over, swallow what they are told, or never listen."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from django_jobs.core.records import Cancelled, Completed, Ended, Failed, Released
from django_jobs.core.states import Kind
from django_jobs.worker import event_loop, slots
from django_jobs.worker.board import Board
from django_jobs.worker.connections import keep_track
from django_jobs.worker.event_loop import AsyncSlots
from django_jobs.worker.slots import ThreadSlots
from tests import jobs
from tests.eventually import eventually
from tests.rows import claimed_job
from tests.worker.conftest import executor_with

numbers = iter(range(1, 10**6))


def job_of(task, *args):
    call = json.dumps([args, {}])
    return claimed_job(id=next(numbers), task_path=task.module_path, call=call, max_attempts=1)


class Pool:
    """Slots of one kind, and what came out of them."""

    def __init__(self, make, **choices):
        self.events: SimpleQueue[Ended] = SimpleQueue()
        self.executor = executor_with()
        self.board = Board()
        self.slots = make(
            board=self.board,
            executor=self.executor,
            deliver=self.events.put,
            timeout_of=self.timeout_of,
            **choices,
        )
        self.slots.start()

    def timeout_of(self, job):
        limit = self.executor.timeout_of(jobs_by_path()[job.task_path], job.queue_name)
        return None if limit is None else limit.total_seconds()

    def submit(self, task, *args):
        job = job_of(task, *args)
        self.slots.submit([job])
        return job

    def ended(self):
        """Return the next run that ends, with the slots being watched meanwhile."""

        def next_event():
            self.slots.watch()
            try:
                return self.events.get_nowait()
            except Empty:
                return None

        return eventually(next_event)

    def watch_until(self, fact):
        def seen():
            self.slots.watch()
            return fact()

        return eventually(seen)


def jobs_by_path():
    return {task.module_path: task for task in vars(jobs).values() if hasattr(task, "module_path")}


@pytest.fixture
def threads(monkeypatch):
    """Two threads, which are given up on soon."""
    monkeypatch.setattr(slots, "STUCK_SECONDS", 0.1)
    pool = Pool(ThreadSlots, count=2)
    yield pool
    for gate in jobs.gates.values():
        gate.set()
    pool.slots.stop(10)
    for slot in [*pool.slots.slots, *pool.slots.stuck]:
        slot.thread.join(10)


@pytest.fixture
def loop():
    pool = Pool(AsyncSlots, count=5)
    yield pool
    for gate in jobs.gates.values():
        gate.set()
    running = pool.slots.loop
    pool.slots.stop(10)
    pool.slots.stop(10)
    assert running is None or running.is_closed()


def told():
    return jobs.told.get(timeout=10)


def test_a_run_that_nobody_listens_to_takes_few_calls_of_python(threads, caplog):
    """What a job costs a worker at thousands a second: asking Django for its connections would show."""
    for logger in ("django.tasks", "django_tasks"):
        caplog.set_level("WARNING", logger)
    [slot, *_] = threads.slots.slots
    threads.slots.timeout_of = lambda job: None
    counted: Counter[str] = Counter()

    def note(frame, event, argument):
        counted[event] += event in ("call", "c_call")

    def run():
        keep_track()
        for job in given:
            slot.run_one(job)
        sys.setprofile(note)
        slot.run_one(given[0])

    given = [job_of(jobs.ok) for _ in range(2)]  # the first ones fill the caches
    thread = Thread(target=run)
    thread.start()
    thread.join()

    assert 20 < counted["call"] <= 36
    assert 20 < counted["c_call"] <= 50, counted


class TestThreads:
    def test_run_what_is_submitted(self, threads):
        for value in range(20):
            threads.submit(jobs.give, value)

        values = {threads.ended().outcome.return_value for _ in range(20)}
        assert values == {str(value) for value in range(20)}

    def test_run_as_many_at_once_as_there_are(self, threads):
        for name in ("a", "b", "c"):
            threads.submit(jobs.wait_for, name)
        assert {told(), told()} == {"a", "b"}
        assert jobs.told.empty()
        assert len(threads.slots.runs()) == 2

        jobs.gate("a").set()

        assert told() == "c"

    @pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "half-made Snooze"])
    def test_survive_whatever_a_body_raises(self, threads, name):
        for _ in range(5):
            threads.submit(jobs.raising, name)
            threads.ended()

        assert all(slot.thread.is_alive() for slot in threads.slots.slots)

    def test_survive_a_failure_around_the_body(self, threads, monkeypatch):
        monkeypatch.setattr(slots, "check_connections", lambda: 1 / 0)
        threads.submit(jobs.ok)

        outcome = threads.ended().outcome

        assert outcome.trace.exception_class == "builtins.ZeroDivisionError"
        monkeypatch.undo()
        threads.submit(jobs.ok)
        assert isinstance(threads.ended().outcome, Completed)

    def test_survive_a_failure_to_tidy_up(self, threads, monkeypatch, caplog):
        monkeypatch.setattr(slots, "tidy_connections", lambda path: 1 / 0)
        for value in range(4):
            threads.submit(jobs.give, value)

            assert threads.ended().outcome.return_value == str(value)
        assert "could not be tidied" in caplog.text

    def test_give_back_what_has_not_begun(self, threads):
        for name in ("a", "b"):
            threads.submit(jobs.wait_for, name)
            told()
        waiting = [threads.submit(jobs.ok) for _ in range(3)]

        assert threads.slots.take_back() == waiting
        assert len(threads.board.places) == 2
        assert threads.slots.take_back() == []


class TestTimeoutsInThreads:
    def test_a_body_is_told_by_an_exception(self, threads):
        threads.submit(jobs.overrun, "a")

        ended = threads.ended()

        assert isinstance(ended.outcome, Failed)
        assert ended.outcome.kind == Kind.TIMEOUT
        assert "0:00:00.050000" in ended.outcome.trace.message
        assert "wait_for" in ended.outcome.trace.traceback
        assert threads.slots.stuck == []

    def test_a_body_may_swallow_it_and_return(self, threads):
        threads.submit(jobs.swallow_timeout, "a")

        ended = threads.ended()

        assert (told(), told()) == ("a", "JobTimeout")
        assert ended.outcome.return_value == '"swallowed"'

    def test_the_thread_goes_on_with_other_jobs(self, threads):
        for number in range(6):
            threads.submit(jobs.overrun, f"gate {number}")
            threads.ended()
        threads.submit(jobs.give, 1)

        assert threads.ended().outcome.return_value == "1"
        assert threads.slots.made == 2

    def test_a_body_that_does_not_listen_loses_its_slot(self, threads, caplog):
        job = threads.submit(jobs.ignore_timeout, "a")

        ended = threads.ended()

        assert (ended.job, ended.outcome.kind) == (job, Kind.TIMEOUT)
        assert "its slot is replaced" in caplog.text
        assert (len(threads.slots.slots), len(threads.slots.stuck)) == (2, 1)

    def test_the_pool_stays_at_full_strength(self, threads):
        for number in range(3):
            threads.submit(jobs.ignore_timeout, f"gate {number}")
            threads.ended()
            told()
        for name in ("a", "b"):
            threads.submit(jobs.wait_for, name)

        assert {told(), told()} == {"a", "b"}

    def test_what_a_body_that_was_given_up_on_returns_later_is_dropped(self, threads):
        threads.submit(jobs.ignore_timeout, "a")
        threads.ended()
        [slot] = threads.slots.stuck

        jobs.gate("a").set()

        slot.thread.join(10)
        assert not slot.thread.is_alive()
        assert threads.events.empty()

    def test_a_job_in_time_is_left_alone(self, threads):
        threads.submit(jobs.timed)

        assert isinstance(threads.ended().outcome, Completed)


class TestTheLoop:
    def test_runs_what_is_submitted_side_by_side(self, loop):
        for name in "abcde":
            loop.submit(jobs.await_gate, name)
        assert {told() for _ in range(5)} == set("abcde")
        assert len(loop.slots.runs()) == 5

        for name in "abcde":
            jobs.gate(name).set()

        assert {loop.ended().outcome.return_value for _ in range(5)} == {f'"{name}"' for name in "abcde"}
        assert loop.slots.runs() == []

    def test_runs_as_many_at_once_as_it_has_slots(self, loop):
        for name in "abcdef":
            loop.submit(jobs.await_gate, name)
        assert {told() for _ in range(5)} == set("abcde")
        assert jobs.told.empty()
        assert loop.slots.has_waiting()

        jobs.gate("a").set()

        assert told() == "f"
        assert not loop.slots.has_waiting()

    def test_gives_back_what_has_not_begun(self, loop):
        for name in "abcde":
            loop.submit(jobs.await_gate, name)
            told()
        waiting = [loop.submit(jobs.agive, 1) for _ in range(3)]

        assert loop.slots.take_back() == waiting
        assert len(loop.board.places) == 5
        assert loop.slots.take_back() == []

    def test_does_not_begin_what_was_cancelled_while_it_waited(self, loop):
        for name in "abcde":
            loop.submit(jobs.await_gate, name)
            told()
        job = loop.submit(jobs.await_gate, "f")
        loop.executor.is_cancelled = lambda job_id: job_id == job.id

        jobs.gate("a").set()

        outcomes = {ended.job.id: ended.outcome for ended in (loop.ended(), loop.ended())}
        assert outcomes[job.id] == Cancelled(reason="cancelled before it began", keep=timedelta(days=14))
        assert jobs.told.empty()

    def test_a_run_that_was_given_up_on_leaves_its_slot_to_the_next(self, loop, monkeypatch):
        monkeypatch.setattr(event_loop, "STUCK_SECONDS", 0.1)
        for _ in range(5):
            loop.submit(jobs.aignore_timeout, "a")
            assert told() == "a"
        loop.submit(jobs.agive, 1)

        ended = [loop.ended().outcome for _ in range(6)]

        jobs.gate("a").set()
        assert eventually(lambda: not loop.slots.stuck)
        assert [type(outcome) for outcome in ended].count(Failed) == 5
        assert Completed(return_value="1", keep=timedelta(days=1)) in ended

    @pytest.mark.parametrize(
        "name", ["SystemExit", "KeyboardInterrupt", "CancelledError", "half-made Snooze"]
    )
    def test_survives_whatever_a_body_raises(self, loop, name):
        loop.submit(jobs.araising, name)
        loop.ended()
        loop.submit(jobs.agive, 1)

        assert loop.ended().outcome.return_value == "1"

    def test_cancels_a_body_that_runs_over(self, loop):
        loop.submit(jobs.aoverrun, "a")

        outcome = loop.ended().outcome

        assert isinstance(outcome, Failed)
        assert (outcome.kind, outcome.trace.message) == (
            Kind.TIMEOUT,
            "The run took longer than its timeout of 0:00:00.050000.",
        )

    def test_cancels_a_body_whose_job_is_cancelled(self, loop):
        job = loop.submit(jobs.await_gate, "a")
        told()

        loop.slots.cancel(job.id, "not wanted")

        outcome = loop.ended().outcome
        assert outcome == Cancelled(reason="not wanted", keep=timedelta(days=14))

    def test_hands_all_back_at_the_end(self, loop):
        for name in "abc":
            loop.submit(jobs.await_gate, name)
            told()

        loop.slots.release("the worker stops")

        released = Released(started=True, reason="the worker stops")
        assert [loop.ended().outcome for _ in range(3)] == [released] * 3

    def test_to_cancel_what_is_over_does_nothing(self, loop):
        job = loop.submit(jobs.agive, 1)
        loop.ended()

        loop.slots.cancel(job.id, "too late")
        loop.submit(jobs.agive, 2)

        assert loop.ended().outcome.return_value == "2"

    def test_names_a_body_that_blocks_it(self, loop, monkeypatch, caplog):
        monkeypatch.setattr(event_loop, "BLOCKED_SECONDS", 0.05)
        caplog.set_level(logging.WARNING)
        job = loop.submit(jobs.block_loop, "a")
        told()

        loop.watch_until(lambda: caplog.records)

        assert f"job {job.id} tests.jobs.block_loop blocks the event loop" in caplog.text
        jobs.gate("a").set()
        loop.ended()
        assert len(caplog.records) == 1

    def test_is_not_started_before_the_first_job(self, loop):
        assert loop.slots.loop is None
        assert loop.slots.watch() is None
