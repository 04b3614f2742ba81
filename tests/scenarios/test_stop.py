"""Stopping by signals: gracefully, in stages, and at any moment."""

from __future__ import annotations

import signal
import time

import pytest

from django_jobs.models import Job, StateChoices, Worker
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, job_of, kinds, nothing_runs, other_sessions
from tests.scenarios.marks import marks

PLACES = pytest.mark.parametrize("place", [(), ("--processes", "2")], ids=["in place", "2 processes"])
GROUP = pytest.mark.parametrize("group", [False, True], ids=["parent", "group"])


def workers_of(place: tuple[str, ...]) -> int:
    return int(place[1]) if place else 1


class TestSigterm:
    @PLACES
    def test_an_idle_worker_ends_at_once_44(self, runjobs, place):
        worker = runjobs(*place).is_ready(workers_of(place))

        told = worker.tell(signal.SIGTERM)

        assert worker.ends() == 0
        assert time.monotonic() - told < 3  # half a second on an idle machine
        assert nothing_runs()

    @PLACES
    @pytest.mark.parametrize(
        ("number", "group"),
        [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)],
        ids=["TERM", "TERM to the group", "Ctrl-C"],
    )
    def test_running_jobs_end_first_and_none_is_claimed_44_47(self, runjobs, place, number, group):
        worker = runjobs(*place).is_ready(workers_of(place))
        results = [tasks.held.enqueue("open"), tasks.held_async.enqueue("open")]
        begun("open", 2)

        worker.tell(number, group=group)
        eventually(lambda: Worker.objects.filter(state="STOPPING").count() == workers_with_jobs())
        late = tasks.quick.enqueue()
        assert worker.status is None
        runjobs.open("open")

        assert worker.ends() == 0
        is_done(*results)
        assert len(marks("end", "open")) == 2
        assert job_of(late).state == StateChoices.READY
        assert nothing_runs()

    @PLACES
    @pytest.mark.parametrize(
        ("words", "seconds"),
        [(("--shutdown-timeout", "0.5"), 60), ((), 0.5)],
        ids=["by the option", "by the setting"],
    )
    def test_after_the_grace_jobs_are_handed_back_and_the_status_is_3_49(
        self, runjobs, place, words, seconds
    ):
        worker = runjobs(*words, *place, settings={"shutdown_seconds": seconds})
        worker.is_ready(workers_of(place))
        results = [tasks.held.enqueue("long"), tasks.held_async.enqueue("long")]
        begun("long", 2)

        worker.tell(signal.SIGTERM)

        assert worker.ends() == 3
        assert nothing_runs()
        for result in results:
            assert (job_of(result).state, job_of(result).counted_attempt) == (StateChoices.READY, 0)
            assert kinds(result) == ["RELEASED"]
        runjobs.open("long")
        runjobs()
        is_done(*results)
        assert {(mark.job, mark.attempt) for mark in marks("end")} == {(int(r.id), 1) for r in results}

    @PLACES
    @GROUP
    def test_a_second_sigint_hands_back_at_once(self, runjobs, place, group):
        worker = runjobs("--shutdown-timeout", "60", *place).is_ready(workers_of(place))
        result = tasks.held.enqueue("long")
        begun("long")

        worker.tell(signal.SIGINT, group=group)
        eventually(lambda: Worker.objects.filter(state="STOPPING").count() == workers_with_jobs())
        told = worker.tell(signal.SIGINT, group=group)

        assert worker.ends() == 3
        assert time.monotonic() - told < 5
        assert job_of(result).state == StateChoices.READY
        assert kinds(result) == ["RELEASED"]
        assert nothing_runs()

    @PLACES
    @pytest.mark.parametrize("moment", ["session", "banner", "worker"])
    def test_in_the_middle_of_its_start_a_worker_ends_well_46(self, runjobs, place, moment):
        tasks.quick.enqueue_many(() for _ in range(50))
        worker = runjobs(*place)
        moments = {
            "session": lambda: other_sessions() or "database" in worker.said(),
            "banner": lambda: "database" in worker.said(),
            "worker": lambda: Worker.objects.exists(),
        }
        eventually(moments[moment], 20)

        worker.tell(signal.SIGTERM)

        assert worker.ends() == 0
        assert nothing_runs()
        assert "Traceback" not in worker.said()

    @PLACES
    @pytest.mark.slow
    def test_in_the_middle_of_a_load_a_worker_loses_no_job_46(self, runjobs, place):
        tasks.quick.enqueue_many((str(number),) for number in range(600))
        worker = runjobs(*place)
        eventually(lambda: len(marks("begin")) > 50, 20)

        worker.tell(signal.SIGTERM)

        assert worker.ends() == 0
        assert nothing_runs()
        runjobs("--drain").ends(60)
        assert Job.objects.exclude(state=StateChoices.SUCCESSFUL).count() == 0
        assert sorted(int(mark.key) for mark in marks("begin")) == list(range(600))


def workers_with_jobs() -> int:
    return Job.objects.filter(state=StateChoices.RUNNING).values("worker").distinct().count()
