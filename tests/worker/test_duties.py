"""When duties come again."""

from __future__ import annotations

from typing import Any

import pytest

from django_jobs import conf
from django_jobs.worker import duties
from django_jobs.worker.duties import WALK_SHARE, Duties, Duty


class Hands:
    """A clock, and a duty that takes a while by it."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.takes = 0.0
        self.pause: float | None = None
        monkeypatch.setattr(duties, "monotonic", lambda: self.now)
        monkeypatch.setattr(duties, "spread", lambda least, most: (least + most) / 2)

    def run(self, *, share):
        """Do the duty once, and return for how long it waits after that."""
        duty = Duty("walk", 10.0, self.work, 0.0, share)
        of = Duties(conf.current())
        of.table = [duty]
        nobody: Any = None
        of.run_due(nobody)
        return duty.due_at - self.now

    def work(self, of, dispatcher):
        self.now += self.takes
        return self.pause


@pytest.fixture
def hands(monkeypatch):
    return Hands(monkeypatch)


def test_one_that_walks_far_waits_many_times_as_long(hands):
    hands.takes = 3.0

    assert hands.run(share=WALK_SHARE) == pytest.approx(300.0)
    assert hands.run(share=0.0) == pytest.approx(10.0)


def test_one_that_is_soon_done_keeps_to_its_time(hands):
    hands.takes = 0.001

    assert hands.run(share=WALK_SHARE) == pytest.approx(10.0)


def test_one_that_has_more_to_do_goes_on_at_once(hands):
    hands.takes, hands.pause = 3.0, 0.0

    assert hands.run(share=WALK_SHARE) == 0.0


def test_what_looks_at_runs_that_may_be_many_keeps_to_its_share():
    shares = {duty.name: duty.share for duty in Duties(conf.current()).table}

    assert {name for name, share in shares.items() if share} == {"orphans", "stock"}
