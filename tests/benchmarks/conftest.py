"""The benchmark's command, on the tests' server."""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg
import pytest
from django.db import connections

from benchmarks.ground import TURN, url_of


@pytest.fixture
def server(django_db_blocker):
    """The address of the tests' server, for a run with databases of its own."""
    with django_db_blocker.unblock():
        address = connections["default"].get_connection_params()
    given = {name: address[name] for name in ("host", "port", "user", "password") if address.get(name)}
    return url_of(given | {"dbname": "postgres"})


@pytest.fixture
def benchmark(server):
    """A function that runs the command, and gives what came of it. One at a time: tests run side by side."""

    def run(*arguments):
        with psycopg.connect(server, autocommit=True) as turn:
            turn.execute("SELECT pg_advisory_lock(%s)", [TURN + 1])
            return subprocess.run(
                [sys.executable, "-m", "benchmarks", "run", *arguments],
                env={**os.environ, "DATABASE_URL": server},
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )

    return run
