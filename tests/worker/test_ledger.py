"""What a worker has in its hands, and how much more it may take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_jobs.core.records import Cancelled, Completed, Ended, Failed, Released, Retried
from django_jobs.core.states import Kind
from django_jobs.worker.ledger import AHEAD_MOST, AHEAD_SECONDS, BATCH_CHARACTERS, SHORT_SECONDS, Ledger
from tests.rows import LONG_AGO, TRACE, claimed_job

DONE = Completed(return_value=None, keep=None)
FAILED = Failed(kind=Kind.ERROR, trace=TRACE, keep=None)


def ledger(sync=3, **choices):
    given: dict[str, Any] = {
        "kind_of": lambda job: "sync",
        "timeout_of": lambda job: None,
    }
    return Ledger({"sync": sync, "async": 2}, **given | choices)


def jobs(count, **columns):
    return [claimed_job(id=number, **columns) for number in range(1, count + 1)]


def end(of, job, outcome=DONE, seconds=0.0):
    of.end(Ended(job, outcome, seconds=seconds))
    return of.leave(job.id)[0]


def test_what_is_taken_takes_room():
    of = ledger()
    of.take(jobs(2))

    assert of.free(()) == {"sync": 1, "async": 2}


def test_what_is_about_to_leave_makes_room():
    of = ledger()
    [first, _] = taken = jobs(2)
    of.take(taken)

    assert of.free([Ended(first, DONE)])["sync"] == 2


def test_what_left_makes_room():
    of = ledger()
    taken = jobs(2)
    of.take(taken)
    for job in taken:
        end(of, job, Released(started=False, reason=""))

    assert of.free(()) == {"sync": 3, "async": 2}
    assert (of.in_flight, of.ended, of.queue_counts) == ({}, {}, {})


def test_a_job_that_was_taken_over_and_claimed_again_takes_one_place():
    """Its first run may still go on here; whatever that comes to is void."""
    of = ledger()
    [first] = jobs(1)
    of.take([first])
    of.end(Ended(first, DONE))
    second = claimed_job(id=first.id, attempt=2)
    of.take([second])
    of.end(Ended(first, DONE))

    assert (of.free(())["sync"], of.ended) == (2, {})
    end(of, second, Released(started=False, reason=""))
    assert (of.free(())["sync"], of.queue_counts) == (3, {})


def test_the_end_of_an_earlier_run_with_the_same_number_is_void():
    """A claim that a crash of the server took back was none, so the next one counts the same attempt."""
    of = ledger()
    [first], [second] = jobs(1), jobs(1)
    of.take([first])
    of.take([second])
    assert first == second

    of.end(Ended(first, FAILED))

    assert (of.free(())["sync"], of.ended) == (2, {})
    assert end(of, second).outcome == DONE


def test_short_jobs_let_some_wait_before_the_threads():
    of = ledger()
    for number in range(400):
        job = claimed_job(id=number)
        of.take([job])
        end(of, job, seconds=0.001)

    assert 3 < of.free(())["sync"] <= 3 + 3 * AHEAD_SECONDS / 0.001
    assert of.free(())["async"] == 2


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_those_that_wait_are_as_many_as_the_threads_get_to_in_a_while(slots):
    of = ledger(sync=slots)
    of.average["sync"] = AHEAD_SECONDS / 4

    assert of.free(())["sync"] == slots + 4 * slots


def test_async_bodies_run_in_one_thread_so_no_more_wait_for_more_slots():
    of = ledger()
    of.average["async"] = SHORT_SECONDS / 8

    assert of.free(())["async"] == 2 + 8


def test_no_job_waits_before_threads_whose_jobs_are_not_short():
    of = ledger()
    of.average["sync"] = SHORT_SECONDS
    assert of.free(())["sync"] > 3

    of.average["sync"] = SHORT_SECONDS * 1.01

    assert of.free(())["sync"] == 3


def test_a_long_job_ends_that_at_once():
    of = ledger()
    of.average["sync"] = 0.0
    assert of.free(())["sync"] == 3 + AHEAD_MOST
    [job] = jobs(1)
    of.take([job])
    end(of, job, seconds=10.0)

    assert of.free(())["sync"] == 3


def test_a_job_that_was_handed_back_tells_nothing_of_the_length_of_jobs():
    of = ledger()
    before = of.average["sync"]
    [job] = jobs(1)
    of.take([job])
    end(of, job, Released(started=False, reason=""), seconds=0.0)

    assert of.average["sync"] == before


def test_the_first_end_of_a_run_counts():
    of = ledger()
    [job] = jobs(1)
    of.take([job])
    of.end(Ended(job, FAILED))
    of.end(Ended(job, DONE))

    assert [ended.outcome for ended in of.batch(10)] == [FAILED]


def test_the_end_of_a_run_that_is_not_ours_is_void():
    of = ledger()
    of.take(jobs(1, attempt=3))
    of.end(Ended(claimed_job(id=1, attempt=2), DONE))
    of.end(Ended(claimed_job(id=9), DONE))

    assert of.batch(10) == []


def test_a_batch_is_no_larger_than_asked_for():
    of = ledger()
    taken = jobs(5)
    of.take(taken)
    for job in taken:
        of.end(Ended(job, DONE))

    assert [ended.job.id for ended in of.batch(3)] == [1, 2, 3]


def test_a_batch_of_large_results_is_smaller():
    of = ledger()
    taken = jobs(3)
    of.take(taken)
    large = Completed(return_value="x" * (BATCH_CHARACTERS // 2 + 1), keep=None)
    for job in taken:
        of.end(Ended(job, large))

    assert [ended.job.id for ended in of.batch(3)] == [1]


def test_a_batch_is_never_empty_while_something_ended():
    of = ledger()
    [job] = jobs(1)
    of.take([job])
    of.end(Ended(job, Completed(return_value="x" * (BATCH_CHARACTERS + 1), keep=None)))

    assert len(of.batch(3)) == 1


def test_a_retry_that_was_cancelled_in_the_database_is_told_so():
    of = ledger()
    [job] = jobs(1)
    retried = Ended(job, Retried(kind=Kind.ERROR, trace=TRACE, after=timedelta(0)))

    assert isinstance(of.conclude(retried, (1, "CANCELLED", LONG_AGO)).outcome, Cancelled)
    assert of.conclude(retried, (1, "READY", LONG_AGO)).outcome == retried.outcome
    assert of.tally == {"cancelled": 1, "retried": 1}


def test_jobs_that_failed_for_good_are_remembered():
    of = ledger()
    for job in jobs(3):
        of.conclude(Ended(job, FAILED if job.id != 2 else DONE), (job.id,))

    assert list(of.dead) == [1, 3]


def test_runs_with_a_timeout_are_counted():
    of = ledger(timeout_of=lambda job: 5.0 if job.id == 1 else None)
    taken = jobs(2)
    of.take(taken)
    assert of.timed == 1

    for job in taken:
        end(of, job)

    assert of.timed == 0
