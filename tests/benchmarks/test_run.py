"""The benchmark that anyone can run again."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from benchmarks.ground import NAME, TURN, url_of
from benchmarks.run import GROUPS

TINY = ["--quick", "--jobs", "200", "--seconds", "0.5", "--idle-seconds", "2", "--bulk", "100,200"]
TINY += [
    "--finished",
    "2000",
    "--scheduled",
    "2000",
    "--waiting",
    "2000",
    "--queues",
    "4",
    "--minutes",
    "0.02",
    "--processes",
    "1",
    "--clients",
    "2",
    "--listeners",
    "2",
]


def measured(result, file):
    """Return the figures of a run, each of which is in what it printed."""
    assert result.returncode == 0, result.stderr
    report = json.loads(file.read_text())
    for figures in report["figures"].values():
        for name, figure in figures.items():
            assert name in result.stdout
            assert len(figure["values"]) >= 1
            assert all(value >= 0 for value in figure["values"]), name
    return report


def databases(server):
    with psycopg.connect(server) as connection:
        return connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [NAME]
        ).fetchall()


def test_the_benchmark_command_prints_every_figure_and_leaves_no_database(benchmark, server, tmp_path):
    result = benchmark("enqueue", "bulk", "pick-up", *TINY, "--runs", "2", "--json", tmp_path / "found")

    report = measured(result, tmp_path / "found")
    assert list(report["figures"]) == ["enqueue", "bulk", "pick-up"]
    assert {
        len(figure["values"]) for figures in report["figures"].values() for figure in figures.values()
    } == {2}
    assert report["machine"]["options"]["jobs"] == 200
    assert report["machine"]["server"]["server_version"]
    assert databases(server) == []


@pytest.mark.slow
def test_every_kind_of_group_can_be_measured(benchmark, server, tmp_path):
    groups = [name for name in GROUPS if name not in ("scheduled-first", "waiting", "priorities")]

    result = benchmark(*groups, *TINY, "--markdown", "--json", tmp_path / "found")

    report = measured(result, tmp_path / "found")
    assert list(report["figures"]) == groups
    for group in groups:
        assert f"| {group} | median (smallest–largest) |" in result.stdout
    assert databases(server) == []


def test_a_group_that_is_none_is_named_with_those_there_are(benchmark):
    result = benchmark("drian")

    assert result.returncode == 2
    assert "there is no group 'drian'; the groups are: enqueue, bulk, drain" in result.stderr


def test_a_second_run_on_a_server_doesn_t_spoil_the_first(benchmark, server):
    with psycopg.connect(server, autocommit=True) as first:
        first.execute("SELECT pg_advisory_lock(%s)", [TURN])

        result = benchmark("enqueue", *TINY)

    assert result.returncode == 1
    assert "Another run of the benchmarks is under way on this server." in result.stderr


def test_an_address_in_a_socket_s_folder_becomes_a_url_that_the_settings_read():
    url = url_of({"dbname": "jobs", "host": "/tmp/a b", "user": "me", "port": "5433"})

    assert conninfo_to_dict(url) == {"dbname": "jobs", "host": "/tmp/a b", "user": "me", "port": "5433"}
