"""What is captured of a run: its own log lines and queries, within limits, whatever they are made of."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections

from django_jobs import JobTimeout, task
from django_jobs.captures import Capture as Row
from django_jobs.captures import Line
from django_jobs.core.records import Completed, Failed, Retried
from django_jobs.framework import InvalidTask
from django_jobs.models import Job, Queue
from django_jobs.testing import run_due
from django_jobs.worker import capturing
from django_jobs.worker.capturing import Capture, Limits, count_query, running, tap
from tests import jobs
from tests.eventually import eventually
from tests.worker.conftest import executor_with
from tests.worker.test_executor import run
from tests.worker.workers import QUICK, job_of
from tests.worker.workers import running as worker_running

logger = logging.getLogger("tests.captured")
logger.setLevel("DEBUG")
silent = logging.getLogger("tests.captured_silently")
silent.propagate = False
silent.setLevel("DEBUG")


@pytest.fixture(autouse=True)
def nothing_said_by_what_others_left():
    """Bodies that other tests left unfinished are collected at any time, and asyncio says so."""
    log = logging.getLogger("asyncio")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


class Odd:
    """An object that can't be written."""

    def __init__(self, error: type[BaseException] = RuntimeError) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error("no words")


SAID: dict[str, Any] = {
    "plain": lambda: logger.info("order %s", 17),
    "NUL": lambda: silent.info("a\0b\ud800c"),
    "odd": lambda: silent.info("odd: %s", Odd()),
    "wrong arguments": lambda: silent.info("%s and %s", 1),
    "huge": lambda: logger.info("x" * 1_000_000 + "end"),
    "many": lambda: say_many(),
    "silent": lambda: silent.info("not handed on"),
    "exception": lambda: with_exception(),
    "nothing": lambda: None,
}


def say_many() -> None:
    for number in range(1000):
        logger.debug("line %s", number)


def with_exception() -> None:
    try:
        raise KeyError("key")
    except KeyError:
        logger.exception("caught")


@task(capture=True, max_attempts=1)
def say(what: str, then: str = "") -> None:
    SAID[what]()
    if then:
        raise jobs.RAISED[then]()


@task(capture=["logs"], max_attempts=1)
async def asay(what: str, then: str = "") -> None:
    await asyncio.sleep(0)
    SAID[what]()
    if then:
        raise jobs.RAISED[then]()


@task(capture=["queries"])
def ask(count: int) -> None:
    logger.warning("not wanted")
    for _ in range(count):
        Queue.objects.exists()


@task(capture=True)
async def aask(count: int) -> None:
    for _ in range(count):
        await Queue.objects.aexists()
    logger.info("asked %s", count)


@task(capture=True, transactional=True)
def write(name: str, then: str = "") -> None:
    logger.info("writing %s", name)
    Queue.objects.create(name=name)
    if then:
        raise jobs.RAISED[then]()


@task
def say_unheard() -> None:
    logger.warning("unheard")


@task(capture=True)
def meet(name: str, gate: str) -> None:
    for step in range(3):
        logger.info("%s %s", name, step)
        Queue.objects.exists()
        jobs.told.put((name, step))
        jobs.gate(f"{gate} {step}").wait(20)


@task(capture=True)
async def ameet(name: str, count: int) -> None:
    for step in range(count):
        logger.info("%s %s", name, step)
        await Queue.objects.aexists()
        await asyncio.sleep(0.001)


@task
def meet_unheard(gate: str) -> None:
    for step in range(3):
        logger.info("unheard %s", step)
        Queue.objects.exists()
        jobs.gate(f"{gate} {step}").wait(20)


@task(capture=["logs"])
async def spread() -> None:
    """Log from everywhere that a body's context goes."""

    async def child() -> None:
        logger.info("child task")

    await asyncio.gather(child())
    await sync_to_async(logger.info)("sync_to_async")
    await asyncio.to_thread(logger.info, "to_thread")


@task(capture=True, timeout=timedelta(milliseconds=50), max_attempts=1)
def overrun() -> None:
    logger.info("before")
    jobs.wait_for.func("never")


@pytest.fixture(autouse=True)
def heard_no_more():
    yield
    capturing.stop_listening()


def texts(captured):
    """Return the texts of captured lines."""
    return [line[3] for line in json.loads(captured.lines)]


def texts_of(job, number=1):
    found = Row.objects.get(job=job, number=number)
    return [line[3] for line in found.lines]


SAY = pytest.mark.parametrize("say", [say, asay], ids=["sync", "async"])


class TestLines:
    @SAY
    def test_have_time_level_logger_and_text(self, say, caplog):
        captured = run(say, "plain").captured

        [[at, level, name, text]] = json.loads(captured.lines)
        [record] = [record for record in caplog.records if record.name == "tests.captured"]
        assert (at, level, name, text) == (round(record.created, 3), "INFO", "tests.captured", "order 17")
        assert (captured.cut, captured.queries) == (0, 0 if say.capture is True else None)

    @SAY
    def test_of_a_failed_run_are_kept_too(self, say):
        ended = run(say, "plain", "LookupError")

        assert isinstance(ended.outcome, Retried | Failed)
        assert texts(ended.captured) == ["order 17"]
        assert f"in {say.func.__name__}" in ended.outcome.trace.traceback.splitlines()[1]

    def test_have_their_traceback(self):
        [text] = texts(run(say, "exception").captured)

        assert text.startswith("caught\nTraceback")
        assert text.endswith("KeyError: 'key'")

    def test_come_also_from_loggers_that_hand_on_to_no_other(self):
        assert texts(run(say, "silent").captured) == ["not handed on"]

    @pytest.mark.parametrize(
        ("what", "text"),
        [
            ("NUL", "a\\x00b\\ud800c"),
            ("odd", "<the record could not be written: RuntimeError> odd: %s"),
            ("wrong arguments", "<the record could not be written: TypeError> %s and %s"),
        ],
    )
    def test_that_can_not_be_written_as_they_are_harm_nothing(self, what, text, monkeypatch):
        monkeypatch.setattr(silent, "handlers", [])  # those of the tests' runner raise

        ended = run(say, what)

        assert isinstance(ended.outcome, Completed)
        assert texts(ended.captured) == [text]

    def test_a_timeout_that_meets_them_still_ends_the_body(self):
        capture = Capture(("logs",), Limits())
        record = logging.makeLogRecord({"levelno": 20, "msg": "%s", "args": (Odd(JobTimeout),)})
        token = running.set(capture)
        try:
            with pytest.raises(JobTimeout):
                tap.handle(record)
        finally:
            running.reset(token)

    def test_a_handler_of_the_projects_that_raises_is_the_bodys_affair_as_ever(self, monkeypatch):
        class Broken(logging.Handler):
            def handle(self, record: logging.LogRecord) -> bool:
                raise OSError("disk full")

        broken = Broken()
        capturing.listen()
        logger.addHandler(broken)
        try:
            ended = run(say, "plain")
        finally:
            logger.removeHandler(broken)

        assert isinstance(ended.exception, OSError)
        assert ended.captured is not None

    def test_a_record_that_makes_no_sense_costs_its_line_only(self):
        capture = Capture(("logs",), Limits())
        token = running.set(capture)
        try:
            tap.handle(logging.makeLogRecord({"levelno": 20, "msg": "x", "created": None}))
        finally:
            running.reset(token)

        found = capture.result()
        assert found is not None
        assert found.cut == 1

    @SAY
    def test_below_the_level_are_left_out(self, say):
        executor = executor_with(capture=Limits(level=logging.WARNING))

        assert run(say, "plain", executor=executor).captured in (
            None,
            run(say, "nothing", executor=executor).captured,
        )
        assert run(say, "exception", executor=executor).captured is not None

    def test_nothing_is_captured_where_there_is_nothing(self):
        assert run(asay, "nothing").captured is None

    def test_and_nothing_of_tasks_that_do_not_want_it(self):
        assert run(say_unheard).captured is None
        assert tap not in logging.root.handlers


class TestLimits:
    def test_the_first_and_the_last_are_kept(self):
        captured = run(say, "many", executor=executor_with(capture=Limits(lines=10))).captured

        kept = [*range(5), *range(995, 1000)]
        assert texts(captured) == [f"line {number}" for number in kept]
        assert (captured.cut, captured.cut_at) == (990, 5)

    def test_all_together_take_no_more_than_so_many_bytes(self):
        captured = run(say, "many", executor=executor_with(capture=Limits(size_bytes=2000))).captured

        assert sum(len(text) for text in texts(captured)) < 2000
        assert texts(captured)[0] == "line 0"
        assert texts(captured)[-1] == "line 999"
        assert captured.cut + len(texts(captured)) == 1000

    def test_a_huge_one_is_cut_in_its_middle(self):
        captured = run(say, "huge", executor=executor_with(capture=Limits(size_bytes=2000))).captured

        [text] = texts(captured)
        assert len(text) <= 500
        assert text.startswith("x")
        assert "characters cut" in text
        assert text.endswith("end")

    def test_one_line_is_the_least(self):
        captured = run(say, "many", executor=executor_with(capture=Limits(lines=1))).captured

        assert len(texts(captured)) == 1
        assert captured.cut == 999


class TestWithoutHandlers:
    """What Python writes to standard error where a project has no handler, it still writes, and once."""

    @pytest.mark.parametrize("configured", [False, True])
    def test_the_last_resort_stays_what_it_is(self, configured, monkeypatch):
        written = io.StringIO()
        monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(written))
        logging.lastResort.setLevel(logging.WARNING)  # type: ignore[union-attr]
        alone = logging.getLogger("tests.captured_alone")
        alone.propagate = False
        handlers = [logging.NullHandler()] if configured else []
        monkeypatch.setattr(alone, "handlers", handlers)
        capturing.listen()

        alone.warning("seen")
        alone.debug("unseen")

        assert written.getvalue() == ("" if configured else "seen\n")


@pytest.mark.django_db
class TestQueries:
    def test_are_counted_with_their_time(self):
        captured = run(ask, 3).captured

        assert captured.queries == 3
        assert 0 < captured.query_seconds < 10
        assert texts(captured) == []
        assert count_query not in connection.execute_wrappers

    def test_that_fail_count_too(self):
        ended = run(fail_query)

        assert ended.captured.queries == 1
        assert count_query not in connection.execute_wrappers

    @pytest.mark.parametrize("asking", [ask, aask], ids=["sync", "async"])
    def test_are_kept_by_run_due_as_by_a_worker(self, asking):
        asking.enqueue(2)
        run_due(raise_errors=True)

        found = Row.objects.get()
        assert (found.queries, found.number) == (2, 1)
        assert tap not in logging.root.handlers

    def test_wrappers_of_the_projects_stay_in_their_place(self):
        seen = []

        def theirs(execute, sql, params, many, context):
            seen.append(sql)
            return execute(sql, params, many, context)

        with connection.execute_wrapper(theirs):
            run(ask, 1)
            assert connection.execute_wrappers == [theirs]
        assert len(seen) == 1


@task(capture=True, max_attempts=1)
def fail_query() -> None:
    with suppress(Exception), connection.cursor() as cursor:
        cursor.execute("SELECT nothing_of_that_name")


class TestOption:
    @pytest.mark.parametrize("wrong", ["logs", ["log"], 7, {"logs": True}, [["logs"]]])
    def test_takes_known_parts_only(self, wrong):
        with pytest.raises(InvalidTask, match="capture of task"):
            task(capture=wrong)(plain)

    def test_gives_the_parts(self):
        assert task(plain).captures == ()
        assert task(capture=True)(plain).captures == ("logs", "queries")
        made = task(capture=["queries"])(plain)
        assert made.captures == ("queries",)
        assert hash(made) == hash(made.using())


def plain() -> None:
    pass


@pytest.fixture
def quick(transactional_db, settings):
    settings.DJANGO_JOBS = QUICK
    yield
    asyncio.run(sync_to_async(connections.close_all)())  # where async bodies had theirs


@pytest.mark.usefixtures("quick")
class TestAWorker:
    def test_keeps_what_a_run_logged_and_asked_with_its_outcome(self):
        with worker_running():
            done = job_of(say.enqueue("plain"))

        found = Row.objects.get(job=done)
        assert (found.number, found.queries, found.cut) == (1, 0, 0)
        [line] = found.log()
        assert isinstance(line, Line)
        assert line[1:] == ("INFO", "tests.captured", "order 17")

    def test_keeps_each_run_of_a_job_that_fails_by_its_number(self):
        with worker_running():
            result = say.using(max_attempts=2).enqueue("plain", "Retry by backoff")
            eventually(Row.objects.exists)
            Job.objects.get(pk=result.id).run_now()
            done = job_of(result, "FAILED")

        assert [texts_of(done, number) for number in (1, 2)] == [["order 17"]] * 2
        assert [attempt.number for attempt in done.attempts.order_by("number")] == [1, 2]

    @pytest.mark.parametrize("then", ["", "LookupError"])
    def test_keeps_those_of_transactional_bodies(self, then):
        with worker_running():
            done = job_of(write.using(max_attempts=1).enqueue("q", then))

        found = Row.objects.get(job=done)
        assert done.state == ("FAILED" if then else "SUCCESSFUL")
        assert Queue.objects.exists() is (not then)
        assert [line[3] for line in found.lines] == ["writing q"]
        assert found.queries in (1, 2)  # an insert, and what Django asks before it; not how the run was ended

    def test_counts_the_queries_of_async_bodies_whoever_opened_their_connection(self):
        with worker_running():
            job_of(jobs.abackend_pid.enqueue())
            done = [job_of(aask.enqueue(count)) for count in (2, 3)]

        assert [Row.objects.get(job=job).queries for job in done] == [2, 3]
        assert texts_of(done[1]) == ["asked 3"]

    def test_keeps_runs_apart_that_go_on_in_threads_at_the_same_time(self):
        with worker_running(threads=3):
            pair = [meet.enqueue(name, "gate") for name in "ab"]
            meet_unheard.enqueue("gate")
            for step in range(3):
                assert {jobs.told.get(timeout=20) for _ in "ab"} == {("a", step), ("b", step)}
                jobs.gate(f"gate {step}").set()
            done = [job_of(result) for result in pair]

        for name, job in zip("ab", done, strict=True):
            assert texts_of(job) == [f"{name} {step}" for step in range(3)]
            assert Row.objects.get(job=job).queries == 3

    def test_keeps_runs_apart_that_take_turns_on_the_event_loop(self):
        with worker_running(async_slots=3):
            results = [ameet.enqueue(name, 5) for name in "abc"]
            done = [job_of(result) for result in results]

        for name, job in zip("abc", done, strict=True):
            assert texts_of(job) == [f"{name} {step}" for step in range(5)]
            assert Row.objects.get(job=job).queries == 5

    def test_follows_the_context_of_a_body(self):
        with worker_running():
            done = job_of(spread.enqueue())

        assert texts_of(done) == ["child task", "sync_to_async", "to_thread"]

    def test_keeps_what_a_body_logged_that_ran_out_of_time(self):
        with worker_running():
            done = job_of(overrun.enqueue())

        assert done.state == "FAILED"
        assert texts_of(done) == ["before"]

    def test_keeps_nothing_of_a_run_that_was_taken_over(self):
        with worker_running(threads=1):
            result = meet.enqueue("a", "late")
            assert jobs.told.get(timeout=20) == ("a", 0)
            Job.objects.filter(pk=result.id).update(attempt=2, worker=1)
            for step in range(3):
                jobs.gate(f"late {step}").set()
            done = job_of(say.enqueue("plain"))

        assert [found.job_id for found in Row.objects.all()] == [done.pk]

    def test_stores_the_outcome_where_there_is_no_table_or_no_right_to_it(self):
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_jobs_capture RENAME TO django_jobs_elsewhere")
        try:
            with worker_running():
                done = job_of(say.enqueue("plain"))
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE django_jobs_elsewhere RENAME TO django_jobs_capture")

        assert (done.state, done.attempt) == ("SUCCESSFUL", 1)
        assert not Row.objects.exists()

    def test_stores_the_outcome_where_the_database_refuses_the_capture(self):
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_jobs_capture ADD CONSTRAINT refused CHECK (queries < 0)")
        try:
            with worker_running():
                done = job_of(say.enqueue("plain"))
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE django_jobs_capture DROP CONSTRAINT refused")

        assert done.state == "SUCCESSFUL"
        assert not Row.objects.exists()


def test_a_line_after_the_run_is_dropped():
    capture = Capture(("logs",), Limits())
    capture.around(lambda: None)
    token = running.set(capture)
    try:
        logger.info("late")
    finally:
        running.reset(token)

    assert capture.result() is None


def test_strangers_lines_are_passed_over():
    odd = [[1, "INFO", "a", "b"], "x", [1], [1e99, "INFO", "a", "b"], None, ["x", 1, 2, 3]]
    assert list(Row(lines=odd).log()) == list(Row(lines=odd[:1]).log())
    assert list(Row(lines="x", cut=3).log()) == [3]
