"""The table of moves."""

from __future__ import annotations

from django_jobs.core.records import Cancelled, Completed, Failed, Released, Retried, Snoozed
from django_jobs.core.states import FAILURES, FINAL, MOVES, RETRYABLE, Decision, Kind, State
from tests.rows import TRACE, claimed_job


def reachable(start):
    found: set[State] = set()
    todo = [start]
    while todo:
        for state in MOVES[todo.pop()] - found:
            found.add(state)
            todo.append(state)
    return found


def test_every_state_has_its_moves_and_can_be_come_to():
    assert set(MOVES) == {None, *State}
    assert reachable(None) == set(State)


def test_only_a_person_moves_a_finished_job():
    for state in FINAL:
        assert MOVES[state] == ({State.READY} if state in RETRYABLE else frozenset())


def test_what_succeeded_is_not_to_be_retried():
    assert FINAL - {State.SUCCESSFUL} == RETRYABLE


def test_nothing_runs_but_what_was_ready():
    assert [state for state, after in MOVES.items() if State.RUNNING in after] == [State.READY]


def test_every_job_can_end():
    for state in set(State) - FINAL:
        assert reachable(state) & FINAL


def test_values_are_their_names_as_they_are_stored():
    for values in (State, Kind, Decision):
        assert all(value.value == value.name for value in values)


def test_failures_are_what_counts_against_a_job():
    assert Kind.SNOOZED not in FAILURES
    assert Kind.RELEASED not in FAILURES
    assert {Kind.ERROR, Kind.TIMEOUT, Kind.LOST, Kind.UNKNOWN_TASK} == FAILURES


def test_users_see_attempts_from_one_on_without_those_that_do_not_count():
    assert claimed_job(attempt=1).counted_attempt == 1
    assert claimed_job(attempt=7, uncounted=4).counted_attempt == 3


def test_outcomes_compare_by_value():
    assert Completed(return_value="1", keep=None) == Completed(return_value="1", keep=None)
    outcomes = {
        Completed(return_value=None, keep=None),
        Failed(kind=Kind.ERROR, trace=TRACE, keep=None),
        Cancelled(reason="", keep=None),
        Released(started=True, reason=""),
        Snoozed(after=claimed_job().run_after - claimed_job().run_after),
        Retried(kind=Kind.ERROR, trace=TRACE, after=claimed_job().run_after - claimed_job().run_after),
    }
    assert len(outcomes) == 6
