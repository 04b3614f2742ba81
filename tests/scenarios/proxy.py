"""A network that a test may break: a TCP proxy before the server, with each connection in its hand."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class Line:
    """One connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.listens = False
        """Whether LISTEN went through it: the listener's."""
        self.frozen = False
        """Whether nothing goes through any more, though both ends take it for open."""
        self.deaf = False
        """Whether the server's answers are lost; the connection is cut with the first."""

    def close(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Listens on a port of 127.0.0.1 and hands on to the server whose address Django's settings have."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.folder = Path(settings["HOST"], f".s.PGSQL.{settings.get('PORT') or 5432}")
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.door.getsockname()[1])
        self.lines: list[Line] = []
        self.delay = 0.0
        """Seconds that everything takes in each direction."""
        self.over = False
        self.thread = threading.Thread(target=self.accept, name="proxy", daemon=True)
        self.thread.start()

    def accept(self) -> None:
        while not self.over:
            try:
                client, _ = self.door.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self.folder))
            except OSError:
                client.close()
                continue
            line = Line(client, server)
            self.lines.append(line)
            threading.Thread(target=self.carry, args=(line,), name="proxy-line", daemon=True).start()

    def carry(self, line: Line) -> None:
        with selectors.DefaultSelector() as ready, suppress(OSError, ValueError):
            ready.register(line.client, selectors.EVENT_READ, line.server)
            ready.register(line.server, selectors.EVENT_READ, line.client)
            while True:
                for key, _ in ready.select(0.5):
                    while line.frozen:
                        time.sleep(0.05)
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data or (line.deaf and key.fileobj is line.server):
                        raise OSError("over")
                    line.listens |= b"LISTEN " in data and key.fileobj is line.client
                    time.sleep(self.delay)
                    key.data.sendall(data)
        line.close()
        if line in self.lines:
            self.lines.remove(line)

    def choose(self, which: Callable[[Line], bool] = lambda line: True) -> list[Line]:
        return [line for line in self.lines if which(line)]

    def cut(self) -> None:
        """Close all connections."""
        for line in list(self.lines):
            line.close()

    def close(self) -> None:
        self.over = True
        self.door.close()
        for line in list(self.lines):
            line.frozen = False
        self.cut()
