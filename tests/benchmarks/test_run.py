"""The benchmark that anyone can run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from benchmarks.run import NAME, url_of


def test_the_benchmark_command_prints_every_figure_and_leaves_no_database(django_db_blocker, tmp_path):
    with django_db_blocker.unblock():
        address = connections["default"].get_connection_params()
    given = {name: address[name] for name in ("host", "port", "user", "password") if address.get(name)}
    environment = {**os.environ, "DATABASE_URL": url_of(given | {"dbname": "postgres"})}

    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks",
            "run",
            "--runs",
            "1",
            "--jobs",
            "200",
            "--json",
            tmp_path / "figures",
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    figures = json.loads((tmp_path / "figures").read_text())
    for name, values in figures.items():
        assert name in result.stdout
        assert all(value > 0 for value in values)
    assert [name for name in figures if "drain" in name or "pick-up" in name or "enqueue" in name]
    with django_db_blocker.unblock(), connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname = %s", [NAME])
        assert cursor.fetchone() == (0,)
        connections["default"].close()


def test_an_address_in_a_socket_s_folder_becomes_a_url_that_the_settings_read():
    url = url_of({"dbname": "jobs", "host": "/tmp/a b", "user": "me", "port": "5433"})

    assert conninfo_to_dict(url) == {"dbname": "jobs", "host": "/tmp/a b", "user": "me", "port": "5433"}
