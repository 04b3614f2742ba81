"""Asking real workers to drain or to stop, by the operator's command and from Python."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import pytest
from django.db import transaction

from django_jobs.dashboard.explaining import explain
from django_jobs.models import Worker
from django_jobs.operations import Operations
from django_jobs.store.steering import Verdict
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, job_of, kinds, nothing_runs
from tests.scenarios.test_stop import PLACES, workers_of

ONE_SLOT = ("--threads", "1", "--async-slots", "1")


def states(*workers):
    return [Worker.objects.get(pk=worker.pk).state for worker in workers]


def ending(worker):
    return Worker.objects.get(pk=worker.pk).ending


class TestDrain:
    @PLACES
    def test_all_that_runs_ends_however_long_it_takes_and_nothing_more_is_claimed(self, runjobs, place):
        runner = runjobs(*place, *ONE_SLOT, "--shutdown-timeout", "0").is_ready(workers_of(place))
        held = tasks.held.enqueue("open")
        begun("open", 1)
        first, *others = runner.workers()

        command = runjobs.manage("jobs", "drain-worker", str(first.pk), "--all-processes")

        assert command.ends() == 0
        assert f"Asked {first.name} #{first.pk} to drain" in command.said()
        eventually(lambda: set(states(first, *others)) <= {"STOPPING", "STOPPED"})
        waiting = tasks.quick.enqueue()
        assert runner.status is None
        runjobs.open("open")
        assert runner.ends() == 0
        is_done(held)
        assert job_of(waiting).state == "READY"
        assert states(first, *others) == ["STOPPED"] * (1 + len(others))
        assert ending(first).startswith("drained, as ")

    def test_a_stop_goes_before_a_drain(self, runjobs):
        runner = runjobs(*ONE_SLOT, "--shutdown-timeout", "0.2").is_ready()
        held = tasks.held.enqueue("never")
        begun("never", 1)
        [worker] = runner.workers()
        Operations().drain_worker(worker.pk, by="ada")
        eventually(lambda: states(worker) == ["STOPPING"])

        [answer] = Operations().stop_worker(worker.pk, by="bob")

        assert answer.verdict == Verdict.ASKED
        assert runner.ends() == 3
        assert kinds(held) == ["RELEASED"]
        assert ending(worker) == "stopped, as bob asked, 1 jobs handed back"

    def test_a_stop_of_one_that_drains_with_all_leaves_the_others_their_time(self, runjobs):
        often = {"heartbeat_seconds": 0.3, "dead_after_seconds": 60.0}
        runner = runjobs("--processes", "2", *ONE_SLOT, "--shutdown-timeout", "0.2", settings=often).is_ready(
            2
        )
        never = tasks.held.enqueue("never")
        begun("never", 1)
        stuck, draining = sorted(runner.workers(), key=lambda worker: worker.pk != job_of(never).worker)
        held = tasks.held.enqueue("open")
        begun("open", 1)
        Operations().drain_worker(stuck.pk, all_processes=True)
        eventually(lambda: states(stuck, draining) == ["STOPPING"] * 2)

        Operations().stop_worker(stuck.pk, by="ada")

        eventually(lambda: states(stuck) == ["STOPPED"])
        stuck.refresh_from_db()
        assert stuck.stopped_at is not None
        late = stuck.stopped_at + timedelta(seconds=2)
        eventually(lambda: Worker.objects.get(pk=draining.pk).heartbeat_at > late)
        runjobs.open("open")
        assert runner.ends() == 3
        is_done(held)
        assert kinds(never) == ["RELEASED"]
        assert ending(stuck) == "stopped, as ada asked, 1 jobs handed back"
        assert ending(draining).startswith("drained, as ")

    def test_a_signal_goes_before_a_drain(self, runjobs):
        runner = runjobs("--processes", "2", *ONE_SLOT, "--shutdown-timeout", "0.2").is_ready(2)
        held = tasks.held.enqueue("never")
        begun("never", 1)
        Operations().drain_worker(runner.workers()[0].pk, all_processes=True)
        eventually(lambda: len(runner.children()) == 1)

        runner.tell(signal.SIGTERM)

        assert runner.ends() == 3
        assert kinds(held) == ["RELEASED"]


class TestStop:
    @PLACES
    def test_what_runs_is_handed_back_after_the_time_of_grace(self, runjobs, place):
        runner = runjobs(*place, *ONE_SLOT, "--shutdown-timeout", "0.3").is_ready(workers_of(place))
        held = tasks.held.enqueue("never")
        begun("never", 1)

        Operations().stop_worker(runner.workers()[0].pk, by="ada", all_processes=True)

        assert runner.ends() == 3
        assert kinds(held) == ["RELEASED"]
        assert nothing_runs()

    def test_an_idle_worker_hears_of_it_at_once(self, runjobs):
        runner = runjobs(settings={"heartbeat_seconds": 20.0, "dead_after_seconds": 60.0}).is_ready()
        [worker] = runner.workers()

        Operations().stop_worker(worker.pk, by="ada")

        assert runner.ends(within=5) == 0
        assert ending(worker) == "stopped, as ada asked"

    def test_one_that_hears_no_notification_learns_it_with_its_heartbeat(self, runjobs):
        runner = runjobs("--no-listen", settings={"heartbeat_seconds": 0.3}).is_ready(listening=False)

        Operations().stop_worker(runner.workers()[0].pk)

        assert runner.ends() == 0


class TestOneProcessOfSeveral:
    @pytest.mark.parametrize("ask", [Operations.drain_worker, Operations.stop_worker])
    def test_it_is_replaced_and_the_others_go_on(self, runjobs, ask):
        runner = runjobs("--processes", "2").is_ready(2)
        one, other = runner.workers()

        ask(Operations(), one.pk, by="ada")

        eventually(lambda: states(one) == ["STOPPED"])
        runner.is_ready(2)
        [kept, new] = runner.workers()
        assert kept.pk == other.pk
        assert (new.supervisor, new.supervisor_pid) == (one.supervisor, runner.pid)
        assert new.asked_to == ""
        is_done(tasks.quick.enqueue())
        runner.tell(signal.SIGTERM)
        assert runner.ends() == 0

    def test_jobs_that_one_handed_back_are_no_matter_when_all_end_later(self, runjobs):
        runner = runjobs("--processes", "2", *ONE_SLOT, "--shutdown-timeout", "0.2").is_ready(2)
        held = tasks.held.enqueue("open")
        [mark] = begun("open", 1)
        [busy] = [worker for worker in runner.workers() if worker.pid == mark.pid]
        Operations().stop_worker(busy.pk)
        eventually(lambda: states(busy) == ["STOPPED"])
        runjobs.open("open")
        runner.is_ready(2)
        is_done(held)

        runner.tell(signal.SIGTERM)

        assert runner.ends() == 0


class TestAllProcesses:
    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    @pytest.mark.parametrize("ask", [Operations.drain_worker, Operations.stop_worker])
    def test_they_end_together_however_they_were_made(self, runjobs, method, ask):
        runner = runjobs("--processes", "2", "--start-method", method).is_ready(2)

        ask(Operations(), runner.workers()[0].pk, all_processes=True)

        assert runner.ends() == 0

    def test_one_that_dies_while_it_drains_is_not_replaced(self, runjobs):
        runner = runjobs("--processes", "2", *ONE_SLOT).is_ready(2)
        tasks.held.enqueue("never")
        [mark] = begun("never", 1)
        Operations().drain_worker(runner.workers()[0].pk, all_processes=True)
        eventually(lambda: len(runner.children()) == 1)

        os.kill(mark.pid, signal.SIGKILL)

        assert runner.ends() == 0

    def test_the_health_file_is_kept_while_some_still_drain(self, runjobs, tmp_path):
        health = tmp_path / "health"
        runner = runjobs("--processes", "2", *ONE_SLOT, "--health-file", str(health)).is_ready(2)
        tasks.held.enqueue("open")
        begun("open", 1)
        eventually(health.exists)
        Operations().drain_worker(runner.workers()[0].pk, all_processes=True)
        eventually(lambda: len(runner.children()) == 1)
        before = health.stat().st_mtime

        eventually(lambda: health.stat().st_mtime > before)

        runjobs.open("open")
        assert runner.ends() == 0


def test_a_worker_that_was_taken_for_dead_still_does_what_it_was_asked(runjobs):
    runner = runjobs(settings={"heartbeat_seconds": 0.5, "dead_after_seconds": 2.0}).is_ready()
    [worker] = runner.workers()
    runner.tell(signal.SIGSTOP)
    with transaction.atomic():  # a heartbeat may be under way
        Operations().stop_worker(worker.pk, by="ada")
        Worker.objects.filter(pk=worker.pk).update(state="LOST", stopped_at="2026-01-01T00:00Z")

    runner.tell(signal.SIGCONT)

    assert runner.ends() == 0
    last = Worker.objects.latest("pk")
    assert last.pk > worker.pk
    assert last.ending == "stopped, as ada asked"


def test_the_limit_of_a_queue_is_told_while_its_worker_has_free_slots(runjobs):
    runjobs("--queue", "mail:1", "--threads", "4").is_ready()
    held = tasks.send.enqueue("open")
    begun("open", 1)
    waiting = tasks.send.enqueue("open")

    [reason] = explain("default", int(waiting.id)).reasons

    assert reason.key == "limit"
    assert "may run 1 of its jobs at once" in reason.says
    assert reason.remedy.endswith("manage.py runjobs --queue=mail:2")
    runjobs.open("open")
    is_done(held, waiting)
