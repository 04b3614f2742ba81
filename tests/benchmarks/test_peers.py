"""The comparison with other queues that anyone can run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from django.db import connections

from benchmarks.ground import url_of
from benchmarks.peers.catalogue import CONTENDERS, OURS, each
from benchmarks.peers.environments import NotInstalled, environment
from benchmarks.peers.marks import FILE, Mark, marks_for
from benchmarks.peers.measure import Failed, TooShort, drain, prepare, window
from benchmarks.peers.report import Report
from benchmarks.peers.servers import NAME, Databases

TINY = ["--runs", "1", "--seconds", "0.05", "--latencies", "5", "--enqueues", "10"]

MACHINE = {
    "cores": 2,
    "processor": "a processor",
    "python": "3.13.0",
    "server": {"server_version": "18.4"},
    "options": {"runs": 3, "seconds": 4.0},
}


@pytest.fixture(scope="module")
def server(django_db_blocker):
    """The address of the tests' server, for a run with databases of its own."""
    with django_db_blocker.unblock():
        address = connections["default"].get_connection_params()
    given = {name: address[name] for name in ("host", "port", "user", "password") if address.get(name)}
    return url_of(given | {"dbname": "postgres"})


@pytest.fixture(scope="module")
def peers(server):
    """A function that runs the command once no other test does, and gives what came of it."""

    def run(*arguments):
        deadline = time.monotonic() + 600
        while True:
            result = subprocess.run(
                [sys.executable, "-m", "benchmarks", "peers", *arguments],
                env={**os.environ, "DATABASE_URL": server},
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            if "Another run" not in result.stderr or time.monotonic() > deadline:
                return result

    return run


def databases(server, contender):
    with psycopg.connect(server) as connection:
        return connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [f"{NAME}_{contender}"]
        ).fetchall()


@pytest.fixture(scope="module")
def broken(peers, tmp_path_factory):
    """A run beside a queue whose environment says it is complete, with a Python that hasn't the queue."""
    folder = tmp_path_factory.mktemp("peers")
    oban = next(contender for contender in CONTENDERS if contender.name == "oban")
    python = folder / "oban" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (folder / "oban" / "installed.json").write_text(json.dumps([sys.version, *oban.requirements]))
    file = folder / "found"

    result = peers("--only", "oban", *TINY, "--markdown", "--environments", folder, "--json", file)

    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads(file.read_text())


def test_the_command_measures_with_its_own_marks_and_leaves_no_database(broken, server):
    printed, report = broken

    figures = report["queues"]["django_jobs"]["figures"]
    for kind in ("nothing", "query"):
        (run,) = figures[f"run {kind} 1"]
        assert run["jobs"] >= 200
        assert run["repeated"] == 0
        # All but the first body are counted, and they are stored after they ran.
        assert run["counted"] == run["jobs"] - 1
        assert run["bodies"] >= run["stored"] > 0
    # A body may begin before its client, busy or not, has noted that enqueueing is done.
    assert -1000 < figures["p50"][0] <= figures["p99"][0] < 10_000
    assert figures["enqueue"][0] > 0
    assert "| django_jobs | " in printed
    assert databases(server, "django_jobs") == []


def test_a_queue_that_fails_is_left_out_with_what_it_printed(broken):
    printed, report = broken

    assert "No module named 'oban'" in report["could not run"]["oban"]
    assert "| oban | prepare: " in printed
    assert report["queues"]["oban"]["figures"] == {}


@pytest.mark.slow
def test_another_queue_is_installed_and_measured_in_an_environment_of_its_own(peers, server, tmp_path):
    folder = tmp_path / "environments"

    result = peers("--only", "oban", *TINY, "--environments", folder, "--json", tmp_path / "found")

    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "found").read_text())
    why = report["could not run"].get("oban", "")
    if "can't be installed" in why:
        pytest.skip(why)
    assert why == ""
    found = report["queues"]["oban"]
    assert found["packages"]["oban"] == found["version"]
    assert (folder / "oban" / "bin" / "python").exists()
    assert found["figures"]["run nothing 1"][0]["repeated"] == 0
    assert set(found["figures"]) >= {"drain nothing 1", "drain query 1", "p50", "p99", "enqueue"}
    ours = report["queues"]["django_jobs"]["figures"]["drain nothing 1"][0]
    ratio = float(found["ours/theirs"]["drain nothing 1"].replace(",", ""))
    assert ratio == pytest.approx(ours / found["figures"]["drain nothing 1"][0], abs=0.5)
    assert databases(server, "oban") == []


def test_a_worker_that_ends_by_itself_is_not_waited_for(server):
    broken = replace(OURS, name="broken", workers=each("-c", "raise SystemExit('no luck today')"))
    databases_made = Databases(server)
    try:
        place = prepare(broken, sys.executable, databases_made, None)

        with pytest.raises(Failed, match="a worker ended by itself: no luck today"):
            drain(broken, place, "nothing", 10, 1)
    finally:
        databases_made.close()

    assert databases(server, "broken") == []


def test_a_drain_in_which_a_process_had_no_part_has_no_figure(server):
    # Asked for two, it runs one.
    lonely = replace(OURS, name="lonely", workers=lambda processes: OURS.workers(1))
    databases_made = Databases(server)
    try:
        place = prepare(lonely, sys.executable, databases_made, None)

        with pytest.raises(TooShort, match="1 of 2 processes had a part in 20 jobs"):
            drain(lonely, place, "nothing", 20, 2)
    finally:
        databases_made.close()


def test_packages_that_can_t_be_installed_are_a_reason_with_the_words_of_pip(tmp_path):
    with pytest.raises(NotInstalled, match="no-such-queue can't be installed: ERROR"):
        environment(tmp_path / "cache", "none", ["--no-index", "no-such-queue"])


def test_bodies_in_several_processes_mark_one_file(tmp_path):
    body = "from benchmarks.peers.marks import mark; [mark(number) for number in range({}, {})]"
    with marks_for(6) as (path, marks):
        for first in (0, 2):
            subprocess.run(
                [sys.executable, "-c", body.format(first, first + 3)],
                env={**os.environ, FILE: str(path)},
                cwd=Path(__file__).parents[2],
                check=True,
            )

        found = marks.all()

    assert [mark.runs for mark in found] == [1, 1, 2, 1, 1]
    assert marks.read(5) is None
    assert [mark.process == found[0].process for mark in found] == [True, True, True, False, False]
    assert found[0].at <= found[1].at < found[3].at


def test_a_process_that_begins_later_does_not_count_as_a_slow_one():
    ran = [Mark(at, 1, 1) for at in (10.0, 11.0, 12.0, 13.0)] + [Mark(at, 2, 1) for at in (11.5, 12.5, 14.0)]

    assert window(ran) == (11.5, 14.0, 4)


class TestReport:
    @pytest.fixture
    def report(self):
        report = Report(MACHINE)
        peer = replace(OURS, name="other", package="other")
        for contender, rates, waits in (
            (peer, (90, 100, 200), (4, 8, 6)),
            (OURS, (400, 410, 390), (2, 1, 3)),
        ):
            report.introduce(contender, {contender.package: "1.2"})
            for rate, wait in zip(rates, waits, strict=True):
                report.add(contender, "drain nothing 1", rate)
                report.add(contender, "p50", wait)
        report.cannot_run(replace(OURS, name="third"), "no redis-server\nis installed")
        return report

    def test_a_ratio_is_how_many_times_faster_ours_is_by_the_medians(self, report):
        assert report.ratio("other", "drain nothing 1") == "4.0"
        assert report.ratio("other", "p50") == "3.0"
        assert report.ratio("other", "enqueue") == "—"

    def test_the_markdown_has_medians_ranges_and_reasons(self, report):
        text = report.markdown()

        assert "| other | 100 (90–200) |" in text
        assert "| third | no redis-server is installed |" in text
        assert "| other | 1.2 | " in text

    def test_the_heading_says_how_many_repetitions_there_were_in_the_end(self, report):
        assert "; 3 repetitions, " in report.heading()

        report.add(OURS, "p50", 2)

        assert "; 3–4 repetitions, " in report.heading()

    def test_the_json_has_every_value(self, report):
        found = json.loads(report.json())

        assert found["queues"]["other"]["figures"]["p50"] == [4, 8, 6]
        assert found["could not run"] == {"third": "no redis-server is installed"}


def test_every_name_of_a_contender_is_given_once():
    assert len({contender.identifier for contender in CONTENDERS}) == len(CONTENDERS)
    assert CONTENDERS[-1] is OURS
