"""
The ground that everything is measured on: databases of the benchmark's own, real workers, and waiting.

Nothing here measures. A `Ground` is a database with the queue's tables; the first one is also the one that
Django in this process knows. Workers are `manage.py runjobs` processes that are told their ground by the
environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

NAME = "django_jobs_benchmark"
"""The database of the measurements; further ones have a word appended."""

PATIENCE = 120.0
"""Seconds that anything small may take."""

TURN = 0x646A6265
"""Key of the advisory lock that one run holds, since a second one would drop its databases."""

MIGRATE = """\
from django.core.management import execute_from_command_line
execute_from_command_line(["", "migrate", "--verbosity", "0", "--skip-checks"])
"""


class Busy(Exception):
    """Another run of the benchmarks is under way on this server."""


@dataclass(frozen=True)
class Ground:
    """A database with the queue's tables."""

    url: str
    connection: psycopg.Connection[Any]

    def execute(self, query: str, parameters: Any = None) -> psycopg.Cursor[Any]:
        return self.connection.execute(query, parameters)

    def one(self, query: str, parameters: Any = None) -> Any:
        """Return the one value of a query."""
        row = self.connection.execute(query, parameters).fetchone()
        return None if row is None else row[0]

    def empty(self) -> None:
        """Begin a measurement with empty tables, and with nothing left to write to the disk."""
        empty(self.connection)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process that works here."""
        return {
            **os.environ,
            "BENCHMARK_URL": self.url,
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
        } | more


@contextmanager
def benchmark_ground() -> Iterator[Ground]:
    """Make the database of the measurements, give it to Django and to children, and drop it again."""
    maintenance = maintenance_url()
    with psycopg.connect(maintenance, autocommit=True) as admin:
        if not admin.execute("SELECT pg_try_advisory_lock(%s)", [TURN]).fetchone() == (True,):
            raise Busy("Another run of the benchmarks is under way on this server. Wait until it has ended.")
        with database(admin, NAME) as url:
            os.environ["BENCHMARK_URL"] = url
            os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
            import django
            from django.core.management import call_command
            from django.db import connections

            django.setup()
            call_command("migrate", verbosity=0)
            try:
                with psycopg.connect(url, autocommit=True) as connection:
                    yield Ground(url, connection)
            finally:
                connections.close_all()


@contextmanager
def benchmark_database() -> Iterator[psycopg.Connection[Any]]:
    """Make the database of the measurements, and give a connection to it."""
    with benchmark_ground() as ground:
        yield ground.connection


@contextmanager
def another_ground(word: str, settings: str = "benchmarks.settings") -> Iterator[Ground]:
    """Make a further database, with the tables of the apps in `settings`."""
    with (
        psycopg.connect(maintenance_url(), autocommit=True) as admin,
        database(admin, f"{NAME}_{word}") as url,
    ):
        migrate = [sys.executable, "-c", MIGRATE]
        subprocess.run(migrate, env=environment(url, settings) | {"DATABASE_URL": url}, check=True)
        with psycopg.connect(url, autocommit=True) as connection:
            yield Ground(url, connection)


def environment(url: str, settings: str) -> dict[str, str]:
    """Return the environment of a process that works on a database of ours."""
    return {**os.environ, "BENCHMARK_URL": url, "DJANGO_SETTINGS_MODULE": settings}


@contextmanager
def database(admin: psycopg.Connection[Any], name: str) -> Iterator[str]:
    """Create a database, yield its address, and drop it."""
    admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    admin.execute(f"CREATE DATABASE {name}")
    try:
        yield url_of(conninfo_to_dict(maintenance_url()) | {"dbname": name})
    finally:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def maintenance_url() -> str:
    """Return the address of the server: DATABASE_URL, or the one that comes with the `demo` extra."""
    from example_project.embedded import database_url

    return database_url()


def url_of(address: Mapping[str, Any]) -> str:
    """Return an address as the URL that the settings read; a socket's folder goes to the query."""
    given = {key: str(value) for key, value in address.items() if value is not None}
    name = quote(given.pop("dbname"))
    return f"postgresql:///{name}?{urlencode(given, quote_via=quote)}"


@contextmanager
def workers(
    count: int, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `count` workers, each a command of its own."""
    command = [sys.executable, "-m", "django", "runjobs", "--verbosity", "0", *options]
    running = [subprocess.Popen(command, env=environment) for _ in range(count)]
    try:
        yield running
    finally:
        for worker in running:
            worker.terminate()
        for worker in running:
            worker.wait(PATIENCE)


def wait_for(fact: Callable[[], Any], *, pause: float = 0.02, patience: float = PATIENCE) -> Any:
    """Wait until `fact` is true and return it. Raises TimeoutError."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found := fact():
            return found
        time.sleep(pause)
    raise TimeoutError(f"not within {patience:.0f} s")


def one(connection: psycopg.Connection[Any], query: str) -> Any:
    """Return the one value of a query."""
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def empty(connection: psycopg.Connection[Any]) -> None:
    """Begin a measurement with empty tables, and with nothing left to write to the disk."""
    connection.execute("TRUNCATE django_jobs_job, django_jobs_attempt, django_jobs_worker")
    checkpoint(connection)


def checkpoint(connection: psycopg.Connection[Any]) -> None:
    """Have what was written before reach the disk now, where the role may ask for that."""
    with suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute("CHECKPOINT")


def idle_workers(ground: Ground, count: int) -> None:
    """Wait until so many workers listen and have looked for jobs once."""
    wait_for(lambda: ground.one("SELECT count(*) FROM django_jobs_worker WHERE holds_lock") >= count)
