"""A database that answers with errors: of its settings, of its disk, of others' transactions."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import psycopg
import pytest

from django_jobs.models import Job, StateChoices
from tests.eventually import eventually
from tests.scenarios import marks as marking
from tests.scenarios import tasks
from tests.scenarios.facts import (
    begun,
    is_done,
    kinds,
    lock_holders,
    nothing_runs,
    rows,
    terminate,
    usual,
    waits,
)
from tests.scenarios.marks import marks

pytestmark = pytest.mark.slow


@contextmanager
def raising(
    sqlstate: str, *, times: int | None = None, when: str = "OLD.state = 'RUNNING'"
) -> Iterator[None]:
    """Have every write of an outcome fail so, or the first `times` of them."""
    rows("CREATE SEQUENCE scenario_count")
    rows(
        "CREATE FUNCTION scenario_raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {'true' if times is None else f'nextval($q$scenario_count$q$) <= {times}'} THEN"
        f" RAISE EXCEPTION 'injected' USING ERRCODE = '{sqlstate}'; END IF; RETURN NEW; END $$"
    )
    rows(
        "CREATE TRIGGER scenario_raise BEFORE UPDATE ON django_jobs_job FOR EACH ROW"
        f" WHEN ({when}) EXECUTE FUNCTION scenario_raise()"
    )
    try:
        yield
    finally:
        rows("DROP FUNCTION IF EXISTS scenario_raise CASCADE")
        rows("DROP SEQUENCE scenario_count")


class TestOutcomesThatCannotBeWritten:
    @pytest.mark.parametrize(
        "sqlstate", ["53100", "25006", "57P01", "53200"], ids=["disk full", "read-only", "shutdown", "memory"]
    )
    def test_wait_until_they_can_and_no_body_runs_again_9_10(self, runjobs, sqlstate):
        worker = runjobs("--threads", "4").is_ready()
        results = [tasks.held.enqueue("open", end=False) for _ in range(3)]
        begun("open", 3)

        with raising(sqlstate):
            runjobs.open("open")
            eventually(lambda: "trying again" in worker.said())
            assert Job.objects.filter(state=StateChoices.RUNNING).count() == 3

        is_done(*results, tasks.quick.enqueue())
        assert len(marks("begin", "open")) == 3
        assert not any(kinds(result) for result in results)
        worker.is_ready()

    @pytest.mark.parametrize(
        "sqlstate", ["40P01", "40001", "57014"], ids=["deadlock", "serialization", "cancel"]
    )
    def test_that_meet_a_passing_conflict_are_written_at_the_next_try_10_167(self, runjobs, sqlstate):
        worker = runjobs("--threads", "4", "--poll-interval", "600").is_ready()

        with raising(sqlstate, times=3):
            results = [tasks.quick.enqueue() for _ in range(30)]
            is_done(*results)

        assert len(marks("begin")) == 30
        assert not any(kinds(result) for result in results)
        assert worker.status is None

    def test_a_claim_that_fails_counts_no_attempt(self, runjobs):
        runjobs("--threads", "2", "--poll-interval", "0.3").is_ready()

        with raising("40001", times=2, when="NEW.state = 'RUNNING'"):
            results = [tasks.quick.enqueue() for _ in range(5)]
            is_done(*results)

        assert {mark.attempt for mark in marks("begin")} == {1}
        assert len(marks("begin")) == 5


class TestDefaults:
    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    def test_in_any_isolation_level_jobs_run_once_without_noise_167(self, runjobs, database_default, level):
        database_default("default_transaction_isolation", level)
        workers = [runjobs("--threads", "4") for _ in range(2)]

        results = [tasks.quick.enqueue() for _ in range(80)]
        moves = [tasks.transfer.enqueue("t") for _ in range(20)]
        is_done(*results, *moves)

        assert len([mark for mark in marks("begin") if mark.key == ""]) == 80
        assert len(marks("effect")) == 20  # a body in a transaction of its own may have to run again
        for worker in workers:
            assert "trying again" not in worker.said()
            assert "ERROR" not in worker.said()

    def test_short_timeouts_of_the_role_end_neither_worker_nor_listener_169(self, runjobs, database_default):
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            database_default(name, "300ms")
        database_default("idle_session_timeout", "1500ms")
        worker = runjobs("--poll-interval", "600", settings={"heartbeat_seconds": 0.5}).is_ready()
        holders = lock_holders()

        with psycopg.connect(**marking.address()) as blocker:
            blocker.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
            blocker.execute("LOCK TABLE django_jobs_worker IN SHARE MODE")  # heartbeats wait
            started = time.monotonic()
            eventually(lambda: time.monotonic() - started > 1.5)
        results = [tasks.quick.enqueue() for _ in range(10)]

        is_done(*results)
        assert {mark.attempt for mark in marks("begin")} == {1}
        assert lock_holders() == holders
        assert worker.said().count("trying again") == 0


class TestLocks:
    def test_start_and_stop_wait_for_no_dump_and_run_no_ddl_26(self, runjobs):
        with psycopg.connect(**marking.address()) as dump:
            dump.execute(
                "LOCK TABLE django_jobs_job, django_jobs_worker, django_jobs_queue"
                " IN SHARE UPDATE EXCLUSIVE MODE"
            )
            dump.execute("SELECT count(*) FROM django_jobs_job, pg_class")

            worker = runjobs().is_ready()
            is_done(tasks.quick.enqueue())
            worker.tell(signal.SIGTERM)
            assert worker.ends() == 0
            dump.rollback()

    def test_while_a_body_runs_no_transaction_is_open_and_no_row_locked_170(self, runjobs):
        runjobs("--threads", "2").is_ready()
        results = [tasks.held.enqueue("open"), tasks.held_async.enqueue("open")]
        begun("open", 2)

        def quiet() -> bool:
            return not rows(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND (xact_start IS NOT NULL OR state LIKE 'idle in%%')"
            )

        eventually(quiet)
        with psycopg.connect(**marking.address()) as other:
            other.execute("SELECT * FROM django_jobs_job FOR UPDATE NOWAIT")
            other.rollback()
        runjobs.open("open")
        is_done(*results)


class TestSessions:
    def test_with_no_session_to_be_had_the_worker_waits_for_one(self, own_server, runjobs):
        worker = runjobs("--poll-interval", "1", "--threads", "2").is_ready()
        result = tasks.held.enqueue("open", end=False)
        begun("open")
        taken = ExitStack()

        def none_left() -> bool:
            terminate(worker_sessions())
            while True:
                try:
                    taken.enter_context(psycopg.connect(own_server.url, application_name="taken"))
                except psycopg.OperationalError:
                    return not worker_sessions()

        with taken:
            eventually(none_left, 40)
            runjobs.open("open")
            assert worker.status is None

        is_done(result, tasks.quick.enqueue())
        assert len(marks("begin", "open")) == 1
        worker.is_ready()

    def test_once_the_database_is_back_work_goes_on_within_seconds_2(self, own_server, runjobs):
        worker = runjobs("--poll-interval", "600").is_ready()
        result = tasks.held.enqueue("open", end=False)
        begun("open")
        own_server.crash()
        runjobs.open("open")
        eventually(lambda: worker.said().count("trying again") >= 2)
        down = time.monotonic()
        eventually(lambda: time.monotonic() - down > 8, 15)  # until the pauses are at their longest

        own_server.start()
        back = time.monotonic()
        is_done(result, tasks.quick.enqueue())

        print(f"worked again {time.monotonic() - back:.1f} s after the database was back")
        assert time.monotonic() - back < 10  # three on an idle machine
        assert len(marks("begin", "open")) == 1
        assert not kinds(result)


def worker_sessions() -> list[int]:
    """Return the sessions of the worker itself."""
    found = rows(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name <> 'taken' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    return [pid for [pid] in found]


class TestEndInTheMiddleOfAClaim:
    def test_a_claim_that_commits_after_the_stop_leaves_no_job_behind_46(self, runjobs):
        """The claim waits in its commit; SIGTERM comes; the claim goes through."""
        worker = runjobs("--threads", "2", "--poll-interval", "0.3").is_ready()
        rows(
            "CREATE FUNCTION scenario_wait() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_advisory_xact_lock(4712); RETURN NULL; END $$"
        )
        rows(
            "CREATE CONSTRAINT TRIGGER scenario_wait AFTER UPDATE ON django_jobs_job"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'RUNNING')"
            " EXECUTE FUNCTION scenario_wait()"
        )
        try:
            with psycopg.connect(**marking.address(), autocommit=True) as holder:
                holder.execute("SELECT pg_advisory_lock(4712)")
                result = tasks.quick.enqueue()
                eventually(
                    lambda: rows(
                        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4712 AND NOT granted"
                    )
                )
                worker.tell(signal.SIGTERM)
        finally:
            rows("DROP FUNCTION scenario_wait CASCADE")

        assert worker.ends() == 0
        assert nothing_runs()
        job = Job.objects.get(pk=result.id)
        assert job.state in (StateChoices.READY, StateChoices.SUCCESSFUL)
        assert job.counted_attempt == len(marks("begin"))
        runjobs("--drain").ends(30)
        assert len(marks("begin")) == 1


def lock_holders_but(former: set[int]) -> set[int]:
    return lock_holders() - former


def test_a_listener_that_was_cut_is_back_within_seconds_1(runjobs):
    worker = runjobs("--poll-interval", "600").is_ready()
    seconds = []
    for _ in range(3):
        holders = lock_holders()
        cut = time.monotonic()
        terminate(holders)
        eventually(partial(lock_holders_but, holders), 10)
        waits(tasks.quick.enqueue())
        seconds.append(time.monotonic() - cut)

    print(f"a listener that was cut: latency normal again after {max(seconds):.1f} s")
    assert usual(sorted(seconds)) < 5
    worker.is_ready()
