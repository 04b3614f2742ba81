"""How a process comes to its end: what is still done, what is reaped, and what ends it before it began."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time

import pytest

from django_jobs.models import Worker, WorkerState
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, job_of, nothing_runs

HOOKED = {"SCENARIO_APPS": "tests.scenarios.apps.hooked"}


class TestLastWords:
    def test_hooks_run_and_logs_are_flushed(self, runjobs, tmp_path):
        worker = runjobs(variables=HOOKED).is_ready()
        worker.tell(signal.SIGTERM)

        assert worker.ends() == 0
        assert (tmp_path / f"word-{worker.pid}").exists()
        assert "the worker stops" in (tmp_path / "held.log").read_text()

    def test_also_while_a_body_never_ends(self, runjobs, tmp_path):
        worker = runjobs("--shutdown-timeout", "0", variables=HOOKED).is_ready()
        tasks.held.enqueue("never")
        begun("never")

        worker.tell(signal.SIGTERM)

        assert worker.ends() == 3
        assert (tmp_path / f"word-{worker.pid}").exists()
        assert "handed back" in (tmp_path / "held.log").read_text()

    @pytest.mark.slow
    def test_a_hook_that_hangs_is_not_waited_for_long(self, runjobs, tmp_path):
        worker = runjobs(variables={**HOOKED, "HOOK_SECONDS": "60"}).is_ready()
        told = worker.tell(signal.SIGTERM)

        assert worker.ends() == 0
        assert (tmp_path / f"word-{worker.pid}").exists()
        assert time.monotonic() - told < 12  # five seconds on an idle machine

    def test_each_process_runs_its_own_hooks_and_no_inherited_ones(self, runjobs, tmp_path):
        worker = runjobs("--processes", "2", variables=HOOKED).is_ready(2)
        worker.tell(signal.SIGTERM)

        assert worker.ends() == 0
        assert [path.name for path in tmp_path.glob("word-*")] == [f"word-{worker.pid}"]
        assert nothing_runs()


class TestTasksThatExit:
    @pytest.mark.parametrize("place", [(), ("--processes", "2")], ids=["in place", "2 processes"])
    def test_a_module_that_exits_is_named_and_the_command_fails_126(self, runjobs, place):
        worker = runjobs(*place, variables={"SCENARIO_APPS": "tests.scenarios.apps.exiting"})

        assert worker.ends() == 1
        [said] = worker.said().splitlines()
        assert said.startswith(
            "CommandError: The module 'tests.scenarios.apps.exiting.tasks' called sys.exit(0)"
        )


def namespaces_work() -> bool:
    """Tell whether this user may make a PID namespace."""
    words = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return shutil.which("unshare") is not None and subprocess.run(words, check=False).returncode == 0


class Namespace:
    """`runjobs` as process 1 of a PID namespace, as in a container."""

    def __init__(self, runjobs, *words: str) -> None:
        prefix = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        self.outside = runjobs.manage("runjobs", "--verbosity=2", *words, prefix=prefix)

    def inside(self) -> list[tuple[int, str]]:
        """Return the processes of the namespace, process 1 first, with their states."""
        shown = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in shown.stdout.splitlines()]
        found, parents = [], {str(self.outside.pid)}
        while parents:
            below = [(pid, stat) for pid, parent, stat in rows if parent in parents]
            found += [(int(pid), stat) for pid, stat in below]
            parents = {pid for pid, _ in below}
        return found

    def zombies(self) -> int:
        return sum(stat.startswith("Z") for _, stat in self.inside())

    def tell(self, number: signal.Signals) -> None:
        os.kill(self.inside()[0][0], number)


def live(count: int) -> bool:
    return Worker.objects.filter(state=WorkerState.RUNNING, holds_lock=True).count() == count


@pytest.mark.skipif(not namespaces_work(), reason="needs unshare, and the right to make a PID namespace")
class TestProcess1:
    PLACES = pytest.mark.parametrize("place", [(), ("--processes", "2")], ids=["in place", "2 processes"])

    @PLACES
    def test_it_reaps_strangers_and_takes_no_status_from_a_body_48(self, runjobs, tmp_path, place):
        space = Namespace(runjobs, *place)
        eventually(lambda: live(2 if place else 1), 20)

        results = [tasks.leave_an_orphan.enqueue(str(number)) for number in range(3)]

        is_done(*results)
        assert {job_of(result).return_value for result in results} == {7}
        eventually(lambda: len(list(tmp_path.glob("orphan-*"))) == 3)
        eventually(lambda: not space.zombies())
        space.tell(signal.SIGTERM)
        assert space.outside.ends() == 0
        assert nothing_runs()

    @PLACES
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_stop_is_heard_at_the_start_too_48(self, runjobs, place, number):
        space = Namespace(runjobs, *place)
        eventually(lambda: "database" in space.outside.said(), 20)

        space.tell(number)

        assert space.outside.ends() == 0
        assert nothing_runs()

    def test_its_status_is_that_of_the_command_48(self, runjobs):
        space = Namespace(runjobs, "--shutdown-timeout", "0")
        eventually(lambda: live(1), 20)
        tasks.held.enqueue("never")
        begun("never")

        space.tell(signal.SIGTERM)

        assert space.outside.ends() == 3
