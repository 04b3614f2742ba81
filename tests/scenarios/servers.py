"""A PostgreSQL server of a test's own, to be crashed and started."""

from __future__ import annotations

import os
import secrets
import signal

from django.db import connections

from example_project.embedded import Server, client, for_tests
from example_project.embedded.server import try_lock
from tests.eventually import eventually


class OwnServer:
    """One server that nothing else uses, so that it may be treated badly."""

    def __init__(self) -> None:
        self.server: Server = for_tests(secrets.token_hex(4))
        self.start()

    @property
    def url(self) -> str:
        return self.server.url

    def start(self) -> None:
        """Start it, on the data that it left when it crashed."""
        client.join(self.server)

    def crash(self) -> None:
        """Have it end without a word to its clients, and with recovery to do: `pg_ctl stop -m immediate`."""
        connections["default"].close()
        pid = int((self.server.data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGQUIT)
        eventually(self.is_gone, 20)

    def is_gone(self) -> bool:
        """Tell whether neither the server nor its watchdog runs."""
        descriptor = try_lock(self.server.watchdog_lock)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    def leave(self) -> None:
        """Let it go: without a user, it deletes its data and ends by itself."""
        self.start()
        os.close(client.users.pop(self.server))
