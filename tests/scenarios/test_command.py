"""The command line: what it says, refuses and watches."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from django.core.management import execute_from_command_line

from django_jobs.models import Worker
from django_jobs.tasks import unconfigured_backend
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done


def refusal(capsys, *words: str) -> str:
    """Return what is said of a wrong command line; it ends with status 2."""
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "runjobs", *words])
    assert ended.value.code == 2
    return str(capsys.readouterr().err)


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--qeue", "mail"], "unrecognized arguments: --qeue"),
            (["--queue", "a:0"], "'0' is not a whole number above 0"),
            (["--queue", "mail:many"], "'many' is not a whole number above 0"),
            (["--queue", ""], "is not the name of a queue"),
            (["--queue", "x" * 129], "1 to 128 characters"),
            (["--threads", "0"], "'0' is not a whole number above 0"),
            (["--poll-interval", "-1"], "'-1' is not a number of seconds above 0"),
            (["--worker-name", "x" * 191], "can't be longer than 190 characters, but has 191"),
            (["--shutdown-timeout", "nan"], "'nan' is not a number of seconds, 0 or more"),
            (["--drain", "--processes", "2"], "--drain works in one process"),
            (["--timeout", "5"], "add --drain"),
            (["--database", "defalt"], "There is no database 'defalt' in DATABASES. Did you mean 'default'?"),
            (["--health-file", "/nowhere/at/all"], "/nowhere/at"),
        ],
        ids=lambda value: " ".join(value)[:20] if isinstance(value, list) else "",
    )
    def test_a_wrong_command_line_is_refused_with_the_reason(self, capsys, words, said):
        assert said in refusal(capsys, *words)

    def test_a_queue_that_the_project_does_not_declare_is_refused_with_a_suggestion(
        self, capsys, monkeypatch
    ):
        monkeypatch.setattr(unconfigured_backend(), "queues", {"default", "mail"})

        for option in ("--queue", "--exclude-queue"):
            assert "has a queue 'mial'. Did you mean 'mail'?" in refusal(capsys, option, "mial")

    def test_where_any_queue_may_be_used_one_that_no_task_has_is_mentioned(self, runjobs):
        worker = runjobs("--queue", "mial").is_ready()

        assert "'mial' by itself. Did you mean 'mail'?" in worker.said()
        is_done(tasks.quick.using(queue_name="mial").enqueue())


class TestHelp:
    def test_it_fits_one_screen_and_names_every_status(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit):
            execute_from_command_line(["manage.py", "runjobs", "--help"])

        said = capsys.readouterr().out

        assert all(len(line) <= 120 for line in said.splitlines())
        assert len(said.splitlines()) < 100
        for status in range(7):
            assert f"\n  {status}  " in said


class TestBanner:
    def test_it_says_what_is_served_from_where(self, runjobs):
        worker = runjobs("--queue", "mail:2", "--queue", "default", "--threads", "3", "--worker-name", "Ada")
        [row] = worker.is_ready().workers()

        said = worker.said()

        assert len(said.splitlines()) < 12
        assert runjobs.database["SCENARIO_DATABASE"] in said
        assert "mail (at most 2), default" in said
        ours = [path for path in row.tasks if not path.startswith("django_jobs.")]
        assert f"tasks      {len(ours)} known" in said
        assert "1 x (3 threads + 10 async)" in said
        assert "notifications, and a poll every 5 s" in said
        assert (row.name, row.queues, row.threads) == ("Ada", ["mail", "default"], 3)


class TestHealthFile:
    @pytest.mark.parametrize("place", [(), ("--processes", "2")], ids=["in place", "2 processes"])
    def test_it_is_renewed_while_all_is_well_and_goes_with_the_worker_200(self, runjobs, tmp_path, place):
        file = tmp_path / "health"
        worker = runjobs("--health-file", str(file), *place)
        eventually(file.exists, 20)
        first = file.stat().st_mtime

        eventually(lambda: file.stat().st_mtime > first, 20)

        assert json.loads(file.read_text())["healthy"] is True
        worker.tell(signal.SIGTERM)
        assert worker.ends() == 0
        assert not file.exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("place", [(), ("--processes", "2")], ids=["in place", "2 processes"])
    def test_it_grows_old_when_the_database_is_gone_200(self, own_server, runjobs, tmp_path, place):
        file = tmp_path / "health"
        worker = runjobs("--health-file", str(file), *place).is_ready(2 if place else 1)
        eventually(file.exists)

        own_server.crash()
        crashed = time.time()
        eventually(lambda: "trying again" in worker.said())

        eventually(lambda: time.time() - file.stat().st_mtime > 8, 30)
        assert file.stat().st_mtime - crashed < 6  # two seconds on an idle machine
        own_server.start()
        eventually(lambda: time.time() - file.stat().st_mtime < 2, 20)


class TestReload:
    def test_it_restarts_when_code_changes_and_loses_no_job(self, runjobs, tmp_path):
        package = tmp_path / "changing"
        package.mkdir()
        (package / "__init__.py").touch()
        module = package / "tasks.py"
        module.write_text("# the first version\n")
        worker = runjobs(
            "--reload",
            variables={"SCENARIO_APPS": "changing", "PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": ""},
        )
        first = eventually(running, 20)
        result = tasks.held.enqueue("open")
        begun("open")

        def restarted() -> bool:
            touch(module)  # again and again: a change before the reloader's first look isn't seen
            return bool(running()) and running() != first

        eventually(restarted, 30)
        assert "handed back" in worker.said()
        runjobs.open("open")
        is_done(result)
        is_done(tasks.quick.enqueue())


def running() -> list[int]:
    return list(Worker.objects.filter(state="RUNNING", holds_lock=True).values_list("pk", flat=True))


def touch(file: Path) -> None:
    """Make a file newer than it was."""
    later = file.stat().st_mtime + 1
    os.utime(file, (later, later))
