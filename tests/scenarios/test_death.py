"""Processes that die: of kills, of their jobs, or right at their start."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from django_jobs.models import Attempt, Job, StateChoices, Worker, WorkerState, clock
from django_jobs.worker.board import path_of
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, is_in, job_of, kinds, nothing_runs
from tests.scenarios.marks import marks

TWO = ("--processes", "2", "--threads", "2")


class TestKilledChild:
    def test_it_is_replaced_and_its_job_runs_again_while_its_sibling_carries_on_28_63(self, runjobs):
        worker = runjobs(*TWO).is_ready(2)
        results = [tasks.held.enqueue("open") for _ in range(4)]
        first = begun("open", 4)
        victim = first[0].pid
        lost = {mark.job for mark in first if mark.pid == victim}

        os.kill(victim, signal.SIGKILL)

        again = begun("open", 4 + len(lost))[4:]
        assert {mark.job for mark in again} == lost
        assert {mark.attempt for mark in again} == {2}
        assert victim not in {mark.pid for mark in again}
        assert all((mark.at - lost_at(mark.job)).total_seconds() < 5 for mark in again)
        worker.is_ready(2)
        runjobs.open("open")
        is_done(*results)
        for result in results:
            assert kinds(result) == (["LOST"] if int(result.id) in lost else [])
        assert f"worker process {victim} died: killed by SIGKILL" in worker.said()

    def test_an_idle_one_is_replaced_and_jobs_go_on_41(self, runjobs):
        worker = runjobs(*TWO).is_ready(2)

        for _ in range(3):
            os.kill(worker.workers()[0].pid, signal.SIGKILL)
            is_done(tasks.quick.enqueue())

        worker.is_ready(2)


def lost_at(job: Any) -> datetime:
    found = Attempt.objects.get(job_id=job, kind="LOST").ended_at
    assert found is not None
    return found


class TestKilledParent:
    def test_its_children_end_their_jobs_and_stop_by_themselves(self, runjobs):
        worker = runjobs(*TWO).is_ready(2)
        result = tasks.held.enqueue("open")
        begun("open")

        os.kill(worker.pid, signal.SIGKILL)
        eventually(lambda: not Worker.objects.filter(state=WorkerState.RUNNING).exists())
        late = tasks.quick.enqueue()
        runjobs.open("open")

        eventually(lambda: not worker.children())
        is_done(result)
        assert len(marks("begin", "open")) == 1
        assert job_of(late).state == StateChoices.READY
        assert nothing_runs()


@pytest.mark.slow
class TestKilledMachine:
    def test_its_jobs_run_on_another_one_within_seconds_28(self, runjobs):
        worker = runjobs(*TWO).is_ready(2)
        results = [tasks.held.enqueue("open") for _ in range(3)]
        before = begun("open", 3)
        other = runjobs().is_ready()

        worker.tell(signal.SIGKILL, group=True)
        killed = clock("default")

        after = begun("open", 6)[3:]
        assert {mark.pid for mark in after} == {other.pid}
        assert max(mark.at for mark in after) - killed < timedelta(seconds=3)
        runjobs.open("open")
        is_done(*results)
        assert all(kinds(result) == ["LOST"] for result in results)
        assert {mark.pid for mark in before} == set(
            Worker.objects.filter(state=WorkerState.LOST).values_list("pid", flat=True)
        ) & {mark.pid for mark in before}

    def test_a_newcomer_that_dies_soon_is_missed_as_fast_28(self, runjobs):
        runjobs("--exclude-queue", "mail").is_ready()
        newcomer = runjobs().is_ready()
        result = tasks.send.enqueue("never")
        begun("never")

        newcomer.tell(signal.SIGKILL)
        killed = clock("default")

        eventually(lambda: kinds(result) == ["LOST"])
        assert lost_at(result.id) - killed < timedelta(seconds=3)


class TestDeadlyJob:
    def test_a_job_that_always_kills_its_process_fails_and_does_not_loop_39(self, runjobs):
        runjobs(*TWO).is_ready(2)

        result = tasks.deadly.enqueue("kill")

        job = is_in(result, StateChoices.FAILED)
        assert [mark.attempt for mark in marks("begin", "kill")] == [1, 2]
        assert kinds(result) == ["LOST", "LOST"]
        assert "died while it ran attempt 2" in str(job.reason)
        is_done(tasks.quick.enqueue())

    @pytest.mark.parametrize(
        ("how", "words"),
        [
            ("segfault", "killed by SIGSEGV"),
            ("0", "exit status 0"),
            ("1", "exit status 1"),
            ("3", "exit status 3"),
        ],
    )
    def test_however_a_process_ends_its_job_runs_again_and_the_parent_says_how_63(self, runjobs, how, words):
        worker = runjobs("--processes", "2", "--threads", "1").is_ready(2)
        sibling = tasks.held.enqueue("open")
        begun("open")

        result = tasks.deadly.enqueue(how, times=1)

        is_done(result)
        assert kinds(result) == ["LOST"]
        assert words in worker.said()
        runjobs.open("open")
        is_done(sibling)
        assert len(marks("begin", "open")) == 1

    @pytest.mark.slow
    def test_many_deadly_jobs_do_not_end_the_command_39(self, runjobs):
        worker = runjobs(*TWO).is_ready(2)

        results = [tasks.deadly.enqueue("kill") for _ in range(8)]

        for result in results:
            is_in(result, StateChoices.FAILED)
        assert worker.status is None
        is_done(tasks.quick.enqueue())


def boards():
    """Return the files in which the processes of this test keep what has begun."""
    ids = Worker.objects.values_list("pk", "started_at")
    database = connection.settings_dict["NAME"]
    return [path for pk, at in ids if (path := path_of(database, pk, at)).exists()]


class TestClaimedAhead:
    """Short jobs are claimed before a thread is free for them."""

    def die_with_jobs_in_hand(self):
        tasks.nothing.enqueue_many([()] * 300)  # from now on the worker knows that jobs are short
        eventually(lambda: not Job.objects.exclude(state=StateChoices.SUCCESSFUL).exists())
        with transaction.atomic():
            deadly = tasks.deadly.using(max_attempts=1).enqueue("kill")
            waiting = [tasks.nothing.enqueue() for _ in range(5)]
        return deadly, waiting

    def had_not_begun(self, deadly, waiting):
        is_in(deadly, StateChoices.FAILED)
        assert kinds(deadly) == ["LOST"]
        for result in waiting:
            job = job_of(result)
            assert (job.attempt - job.uncounted, kinds(result)) == (1, [])
        return {job_of(result).uncounted for result in waiting} == {1}

    def test_those_of_a_dead_child_that_had_not_begun_keep_their_only_attempt(self, runjobs):
        worker = runjobs("--processes", "2", "--threads", "1").is_ready(2)
        deadly, waiting = self.die_with_jobs_in_hand()

        is_done(*waiting)

        self.had_not_begun(deadly, waiting)
        worker.is_ready(2)
        assert len(boards()) == 2

    @pytest.mark.slow
    def test_those_of_a_dead_worker_do_when_the_next_one_is_on_its_machine(self, runjobs):
        worker = runjobs("--threads", "1").is_ready()
        deadly, waiting = self.die_with_jobs_in_hand()
        worker.ends(20)

        runjobs()

        is_done(*waiting)
        assert self.had_not_begun(deadly, waiting)

    @pytest.mark.slow
    def test_on_another_machine_they_count_as_begun(self, runjobs, tmp_path):
        worker = runjobs("--threads", "1").is_ready()
        _, waiting = self.die_with_jobs_in_hand()
        worker.ends(20)

        runjobs(variables={"TMPDIR": str(tmp_path)})

        for result in waiting:
            is_in(result, StateChoices.FAILED)
        assert kinds(waiting[0]) == ["LOST"]


@pytest.mark.slow
class TestDyingChildren:
    def test_the_command_ends_after_ten_children_in_a_row_that_could_not_start_65(self, runjobs):
        worker = runjobs(
            "--processes",
            "4",
            "--start-method",
            "spawn",
            variables={"SCENARIO_APPS": "tests.scenarios.apps.dying"},
        )

        assert worker.ends(60) == 6
        said = worker.said()
        assert said.count("died: exit status 7") >= 10
        assert "giving up" in said
        assert nothing_runs()
