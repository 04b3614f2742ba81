"""`manage.py demo`, as a reader runs it: on a database of its own, to its end, or killed in the middle."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from psycopg.conninfo import make_conninfo

from example_project import embedded
from example_project.demo.processes import Processes
from example_project.demo.story import Story, Unmet
from tests.eventually import eventually

SECONDS = 300
"""Longest run of the demo, on a machine that is busy with other tests; about 25 are usual."""


SESSIONS = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"


class Demo:
    """Demos on one new database, with a folder for all they write."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.name = f"demo_{secrets.token_hex(4)}"
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start a demo whose output can be read."""
        process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", *options],
            cwd=settings.BASE_DIR,
            env={
                **os.environ,
                "DATABASE_URL": urlsplit(self.url)._replace(path=f"/{self.name}").geturl(),
                "DJANGO_SETTINGS_MODULE": "example_project.settings",
                "EXAMPLE_VAR": str(self.folder / "var"),
                "TMPDIR": str(self.folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def sessions(self) -> int:
        """Return how many connections to the database there are: each process of a demo has some."""
        with self.connect() as connection:
            return len(connection.execute(SESSIONS, [self.name]).fetchall())

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True)

    def none_left(self) -> bool:
        return self.sessions() == 0


@pytest.fixture
def demo(tmp_path) -> Iterator[Demo]:
    url = os.environ.get("DATABASE_URL")
    if not url:
        server = settings.DATABASES["default"]["EMBEDDED"]
        embedded.join(server)
        url = server.url
    found = Demo(url, tmp_path)
    with found.connect() as connection:
        connection.execute(f"CREATE DATABASE {found.name}")
    yield found
    for process in found.processes:
        process.kill()
        process.communicate()
    with found.connect() as connection:
        connection.execute(f"DROP DATABASE {found.name} WITH (FORCE)")


def test_the_demo_runs_to_its_end_and_leaves_nothing_running(demo):
    process = demo.start()

    told, _ = process.communicate(timeout=SECONDS)

    assert process.returncode == 0, told
    for chapter in ("What became of each job", "Dead letters", "A worker is killed", "is rolled back"):
        assert chapter in told
    for fact in (
        r"make_thumbnail +Torn +1 +error: image file is truncated.* failed for good",
        r"settle_order +order 2 +1 +snoozed: no 30 × 40 cm paper +run again in",
        r"nightly_report +\S+ +1 +timed out +retry in [^\n]+\n +2 +timed out +retry in [^\n]+\n +3 ",
        r"print_order +order 3 +1 +worker lost +retry[^\n]*\n +2 +successful +done",
        r"neither is there",
        r"All \d+ expectations are met",
    ):
        assert re.search(fact, told), f"{fact} is not in\n{told}"
    eventually(demo.none_left, timeout=30)
    assert [path.name for path in demo.folder.iterdir()] == ["var"]
    with psycopg.connect(make_conninfo(demo.url, dbname=demo.name)) as connection:
        assert connection.execute("SELECT username FROM auth_user").fetchall() == []


def test_a_demo_that_is_killed_takes_its_processes_with_it(demo):
    process = demo.start("--serve")
    assert process.stdout is not None
    assert any("  workers  " in line for line in process.stdout)  # reads on until it says so
    assert demo.sessions() > 1

    process.kill()

    eventually(demo.none_left, timeout=30)


def test_a_second_demo_on_the_same_database_is_refused(demo):
    from example_project.shop.management.commands.demo import LOCK

    url = make_conninfo(demo.url, dbname=demo.name)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        process = demo.start()
        told, _ = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "Another demo runs on this database" in told


class TestStory:
    def test_an_expectation_that_is_not_met_ends_the_story_by_its_name(self):
        story = Story(print, Processes())

        story.expect(True, "the sky is blue")
        with pytest.raises(Unmet, match="the moon is green"):
            story.expect(False, "the moon is green")
        assert story.met == 1

    def test_a_fact_that_does_not_come_in_time_is_named(self):
        with pytest.raises(Unmet, match=r"the bus comes \(within 0 s\)"):
            Story(print, Processes()).wait_for(lambda: False, "the bus comes", seconds=0)
