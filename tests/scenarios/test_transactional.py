"""`transactional=True`: killed between any two steps, effect and outcome of a job both exist or neither."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from django_jobs.models import Job, StateChoices
from tests.eventually import eventually
from tests.scenarios import marks as marking
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, job_of, kinds, rows
from tests.scenarios.marks import marks

TWO = ("--processes", "2", "--threads", "1")
STEP = 4711
"""Key of the advisory lock before which a transaction stops."""


@contextmanager
def stopping_at(timing: str) -> Iterator[psycopg.Connection]:
    """Have the first transaction that completes a job wait: right after that statement, or in its commit."""
    rows(
        "CREATE FUNCTION scenario_wait() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_advisory_xact_lock({STEP}); RETURN NULL; END $$"
    )
    rows(
        "CREATE CONSTRAINT TRIGGER scenario_step AFTER UPDATE ON django_jobs_job"
        f" DEFERRABLE INITIALLY {timing} FOR EACH ROW WHEN (NEW.state = 'SUCCESSFUL')"
        " EXECUTE FUNCTION scenario_wait()"
    )
    try:
        with psycopg.connect(**marking.address(), autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(%s)", [STEP])
            yield holder
    finally:
        rows("DROP FUNCTION scenario_wait CASCADE")


def is_waiting() -> bool:
    """Tell whether a session has come to the step."""
    return bool(
        rows("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted", STEP)
    )


class TestKill:
    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_before_or_after_its_writes_a_killed_body_left_nothing_b1(self, runjobs, moment):
        runjobs(*TWO).is_ready(2)

        result = tasks.transfer.enqueue("money", die_at=moment)

        is_done(result)
        assert [mark.attempt for mark in marks("begin")] == [1, 2]
        assert [mark.attempt for mark in marks("effect")] == [2]
        assert kinds(result) == ["LOST"]

    @pytest.mark.parametrize("timing", ["IMMEDIATE", "DEFERRED"])
    def test_between_outcome_and_commit_both_exist_or_neither_b3(self, runjobs, timing):
        runjobs(*TWO).is_ready(2)
        with stopping_at(timing) as holder:
            result = tasks.transfer.enqueue("money")
            [mark] = begun("money")
            eventually(is_waiting)

            os.kill(mark.pid, signal.SIGKILL)
            holder.execute("SELECT pg_advisory_unlock(%s)", [STEP])
            is_done(result)

        effects = marks("effect")
        assert len(effects) == 1
        # A commit that has begun isn't stopped by its client's death; anything else is rolled back.
        assert effects[0].attempt == (1 if timing == "DEFERRED" else 2)
        assert kinds(result) == ([] if timing == "DEFERRED" else ["LOST"])
        assert len(marks("begin")) == effects[0].attempt

    def test_a_job_that_was_taken_over_rolls_back_what_its_body_wrote_b4(self, runjobs):
        worker = runjobs("--threads", "1").is_ready()
        result = tasks.transfer.enqueue("money", die_at="gate")
        begun("money")

        # As a rescuer does, while the body is at work.
        rows(
            "UPDATE django_jobs_job SET state = 'READY', worker = NULL, run_after = 'tomorrow' WHERE id = %s",
            result.id,
        )
        runjobs.open("money")

        eventually(lambda: "taken over" in worker.said() or "handed back" in worker.said())
        is_done(tasks.quick.enqueue())
        assert marks("effect") == []
        assert job_of(result).state == StateChoices.READY
        Job.objects.get(pk=result.id).run_now()
        is_done(result)
        assert len(marks("effect")) == 1
