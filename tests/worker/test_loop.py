"""The only loop: it ticks, waits, and backs off when a tick fails."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from django_jobs.worker.loop import FIRST_PAUSE, LONGEST_PAUSE, Loop, one_line


class Passing(Exception):
    pass


class Script:
    """Ticks that do what is written, and the pauses that were waited."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.waited: list[float] = []
        self.waits: list[BaseException | None] = []
        self.resets = 0
        self.loop = Loop("script", tick=self.tick, wait=self.wait, passing=(Passing,), reset=self.reset)

    def tick(self):
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    def wait(self, seconds):
        self.waited.append(seconds)
        error = self.waits.pop(0) if self.waits else None
        if error is not None:
            raise error

    def reset(self):
        self.resets += 1


def run(*steps, waits=()):
    script = Script(*steps)
    script.waits = list(waits)
    script.loop.run()
    return script


def test_it_waits_as_long_as_the_tick_says_and_ends_when_that_says_so():
    assert run(1.0, 0.0, 2.5, None).waited == [1.0, 0.0, 2.5]


def test_a_failure_that_may_pass_is_followed_by_a_pause_that_grows():
    script = run(*[Passing("x")] * 12, None)

    longest = [min(LONGEST_PAUSE, FIRST_PAUSE * 2**count) for count in range(12)]
    assert all(most / 2 <= waited <= most for waited, most in zip(script.waited, longest, strict=True))
    assert script.resets == 12


def test_after_a_success_pauses_begin_anew():
    script = run(Passing(), Passing(), Passing(), 0.0, Passing(), None)

    assert script.waited[-1] <= FIRST_PAUSE


def test_a_streak_of_failures_is_logged_once(caplog):
    caplog.set_level(logging.INFO)

    run(Passing("the first\nof all"), Passing("second"), 0.0, None)

    assert [record.getMessage() for record in caplog.records] == [
        "script: Passing: the first of all; trying again",
        "script works again after 2 failures",
    ]


@pytest.mark.parametrize("error", [ValueError("ours"), SystemExit(1), KeyboardInterrupt()])
def test_any_other_error_ends_it_and_is_kept(error):
    script = run(1.0, error, 1.0)

    assert script.loop.error is error
    assert script.waited == [1.0]


@pytest.mark.parametrize("error", [ValueError("ours"), SystemExit(1), KeyboardInterrupt()])
@pytest.mark.parametrize("steps", [(1.0, 1.0), (Passing(), 1.0)], ids=["after a tick", "after a failure"])
def test_so_does_one_while_it_waits(steps, error):
    script = run(*steps, waits=[error])

    assert script.loop.error is error
    assert script.steps == [1.0]


def test_a_wait_that_fails_is_a_failure_that_may_pass():
    script = run(1.0, 2.0, 3.0, None, waits=[Passing("x")])

    assert (script.loop.error, script.steps, script.resets) == (None, [], 1)
    assert script.waited[0] == 1.0
    assert 0 < script.waited[1] <= FIRST_PAUSE
    assert script.waited[-1] == 3.0


def test_waits_that_go_on_failing_are_one_streak(caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    slept: list[float] = []
    monkeypatch.setattr("django_jobs.worker.loop.sleep", slept.append)

    run(*[1.0] * 12, None, waits=[Passing("x")] * 24)

    longest = [min(LONGEST_PAUSE, FIRST_PAUSE * 2**count) for count in range(12)]
    assert all(most / 2 <= pause <= most for pause, most in zip(slept, longest, strict=True))
    assert [record.getMessage() for record in caplog.records] == [
        "script: Passing: x; trying again",
        "script works again after 12 failures",
    ]


def test_a_failing_reset_is_a_failure_that_may_pass():
    script = Script(Passing("x"), None)
    script.loop.reset = Mock(side_effect=Passing("reset"))

    script.loop.run()

    assert script.loop.error is None
    assert script.steps == []


def test_an_error_is_told_in_one_line():
    assert one_line(ValueError("a\n  b\tc ")) == "ValueError: a b c"
    assert one_line(ValueError()) == "ValueError"


def test_a_servers_error_is_told_without_the_details_that_quote_values():
    class Refused(Exception):
        diag = SimpleNamespace(message_primary="new row violates check constraint")

    assert one_line(Refused("… DETAIL: Failing row contains (4711, secret)")) == (
        "Refused: new row violates check constraint"
    )
