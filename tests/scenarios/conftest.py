"""A database of the scenarios' own for each xdist worker, and processes that end with their test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connections
from psycopg import sql

from example_project.database import from_url
from tests.scenarios import marks
from tests.scenarios.facts import rows
from tests.scenarios.harness import CHECKOUT, Process, Processes
from tests.scenarios.proxy import Proxy
from tests.scenarios.servers import OwnServer

TABLES = (
    "django_jobs_job, django_jobs_attempt, django_jobs_worker, django_jobs_queue, django_jobs_bulkaction, "
    "scenario_mark"
)


@pytest.fixture(scope="session")
def database(django_db_blocker, worker_id) -> Iterator[str]:
    """The name of a migrated database, in place of `default` for the length of a test."""
    name = f"scenarios_{worker_id}_{os.getpid()}"
    with django_db_blocker.unblock():
        server = marks.address()
    create(server, name)
    migrate({"SCENARIO_DATABASE": name})
    with psycopg.connect(**{**server, "dbname": name}, autocommit=True) as connection:
        connection.execute(marks.TABLE)
    yield name
    with psycopg.connect(**server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def create(server: dict[str, object], name: str) -> None:
    """Make an empty database."""
    with psycopg.connect(**server, autocommit=True) as connection:  # type: ignore[arg-type]
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def migrate(variables: dict[str, str]) -> None:
    """Make the tables, as a project does."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"],
        cwd=CHECKOUT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.scenarios.settings", **variables},
        check=True,
    )


@pytest.fixture
def queue(database, django_db_blocker, monkeypatch) -> Iterator[None]:
    """The scenarios' database, empty, as `default` of this process too."""
    connections["default"].close()
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", database)
    with django_db_blocker.unblock():
        with connections["default"].cursor() as cursor:
            cursor.execute(f"TRUNCATE {TABLES}")
        yield
        connections["default"].close()


@pytest.fixture(scope="module")
def running_server() -> Iterator[OwnServer]:
    """A server for the outages of a module, with the tables in it."""
    server = OwnServer()
    with psycopg.connect(server.url, autocommit=True) as connection:
        # As in earnest: the tests' servers are made for speed, and may forget what they said was committed.
        connection.execute("ALTER DATABASE postgres SET synchronous_commit = on")
    migrate({"DATABASE_URL": server.url})
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(marks.TABLE)
    yield server
    server.leave()


@pytest.fixture
def own_server(running_server, queue, django_db_blocker, monkeypatch) -> Iterator[OwnServer]:
    """A server that nothing else uses, as `default` of this process too; its queue is empty."""
    running_server.start()
    settings = connections["default"].settings_dict
    connections["default"].close()
    for name, value in from_url(running_server.url).items():
        monkeypatch.setitem(settings, name, value)
    with connections["default"].cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES}")
    yield running_server
    connections["default"].close()


@pytest.fixture
def runjobs(queue, database, tmp_path, request) -> Iterator[Processes]:
    """Starts `runjobs`; ends all that it started, and shows what they said when the test failed."""
    place = {"SCENARIO_DATABASE": database}
    if "own_server" in request.fixturenames:
        place = {"DATABASE_URL": request.getfixturevalue("own_server").url}
    starter = Processes(tmp_path, place)
    request.node.stash[STARTER] = starter
    try:
        yield starter
    finally:
        starter.close()


@pytest.fixture
def proxy(queue) -> Iterator[Proxy]:
    """A network before the scenarios' server; `runjobs` goes through it with SCENARIO_PORT."""
    proxy = Proxy(connections["default"].settings_dict)
    yield proxy
    proxy.close()


@pytest.fixture
def through_proxy(runjobs, proxy) -> Callable[..., Process]:
    """Starts `runjobs` whose connections all go through the proxy."""

    def start(*words: str, **options: Any) -> Process:
        process: Process = runjobs(*words, variables={"SCENARIO_PORT": str(proxy.port)}, **options)
        return process

    return start


@pytest.fixture
def database_default(database, queue) -> Iterator[Callable[[str, str], None]]:
    """Sets what sessions of the scenarios' database begin with, as an administrator may have done."""
    chosen: list[str] = []

    def choose(name: str, value: str) -> None:
        rows(f"ALTER DATABASE {database} SET {name} = '{value}'")
        chosen.append(name)

    yield choose
    for name in chosen:
        rows(f"ALTER DATABASE {database} RESET {name}")


STARTER = pytest.StashKey[Processes]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add to a failure what the processes said."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed and STARTER in item.stash:
        report.sections += item.stash[STARTER].told()
    return report  # type: ignore[return-value]
