"""The servers under the queues: a database for each measurement, and a Redis where one is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from benchmarks.ground import checkpoint, url_of, wait_for
from benchmarks.peers.plain import ROWS

NAME = "django_jobs_peers"
"""What the names of all databases here begin with."""


class Databases:
    """
    Databases for one measurement each, copied from a template that a queue has prepared once.

    So every measurement begins with the same fresh tables, whatever tables a queue has.
    """

    def __init__(self, maintenance: str) -> None:
        self.address = psycopg.conninfo.conninfo_to_dict(maintenance)
        self.admin = psycopg.connect(maintenance, autocommit=True)
        self.made: list[str] = []

    def url(self, name: str) -> str:
        """Return the address of a database on this server."""
        return url_of(self.address | {"dbname": name})

    def create(self, name: str, template: str = "template1") -> str:
        """Make a database anew and return its address."""
        self.drop(name)
        self.admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        self.made.append(name)
        return self.url(name)

    def drop(self, name: str) -> None:
        """Drop a database, whoever is still connected."""
        self.admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def new_template(self, name: str) -> str:
        """Make the database that a queue prepares, with the table that jobs read."""
        url = self.create(name)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE benchmark_thing (id int PRIMARY KEY, name text NOT NULL)")
            connection.execute(
                "INSERT INTO benchmark_thing SELECT id, 'thing ' || id FROM generate_series(1, %s) AS id",
                [ROWS],
            )
        return url

    @contextmanager
    def copy(self, template: str) -> Iterator[str]:
        """Give the address of a fresh copy, and drop it afterwards."""
        name = f"{template}_run"
        try:
            yield self.create(name, template)
        finally:
            self.drop(name)

    def settle(self, url: str) -> None:
        """Before a drain: statistics of what was loaded, and no checkpoint in the middle."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            checkpoint(connection)

    def close(self) -> None:
        """Drop all that was made."""
        for name in set(self.made):
            self.drop(name)
        self.admin.close()


class Redis:
    """A server of our own with nothing in it, which keeps nothing on disk."""

    def __init__(self, program: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.folder = tempfile.TemporaryDirectory(prefix="django-jobs-redis-")
        self.process = subprocess.Popen(
            [
                *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder.name),
                *("--save", "", "--appendonly", "no", "--loglevel", "warning"),
            ],
            stdout=subprocess.DEVNULL,
        )
        wait_for(self.answers)
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def answers(self) -> bool:
        """Return whether it accepts connections."""
        try:
            return self.say("PING").startswith("+PONG")
        except OSError:
            return False

    def say(self, command: str) -> str:
        """Send one command and return the answer as it comes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(f"{command}\r\n".encode())
            return connection.recv(4096).decode()

    def close(self) -> None:
        """End the server and remove its folder."""
        self.process.terminate()
        self.process.wait(30)
        self.folder.cleanup()


@contextmanager
def redis() -> Iterator[Redis | None]:
    """Run a Redis of our own for the length of the measurements; None where no redis-server is installed."""
    program = shutil.which("redis-server")
    server = Redis(program) if program else None
    try:
        yield server
    finally:
        if server:
            server.close()
