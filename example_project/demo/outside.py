"""
The world outside the shop, with its moods: a mail server, partners with webhooks, a printer, exchange rates.

All are threads of the demo's process on free ports of this machine; each keeps what it was sent.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session

TRICKLE_SECONDS = 0.2
"""Pause between two bytes of an answer that trickles in."""

RATES = {"CHF": "0.9312", "USD": "1.0871"}


class Outside:
    """All servers, and what they know. Attributes are guarded by `changed`."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.mails: list[tuple[str, str]] = []
        """Receipts that were taken: address and subject."""
        self.delivered: dict[str, list[int]] = {}
        """Orders that each partner has heard of."""
        self.printed: Counter[str] = Counter()
        """Copies that lie in the printer's tray, by key."""
        self.print_requests: Counter[int] = Counter()
        """How often the printer was asked, by order."""
        self.repaired = False
        """Whether the partner whose server is always down has mended it."""
        self.holding = False
        """Whether the printer takes until it is released."""
        self.asked: Counter[str] = Counter()
        self.closing = False
        self.http = HttpServer(self)
        self.mail = MailServer(self)

    def start(self) -> None:
        self.http.start()
        self.mail.start()

    def stop(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.http.stop()
        self.mail.stop()

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which the shop's settings find us."""
        return {
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(self.mail.port),
            "PRINTER_URL": f"{self.http.url}/printer",
            "RATES_URL": f"{self.http.url}/rates",
            "NO_PROXY": "127.0.0.1",
        }

    def times_asked(self, what: str) -> int:
        """Count this request and return how many there were with the same `what`, this one included."""
        with self.changed:
            self.asked[what] += 1
            return self.asked[what]

    def hold(self) -> None:
        """Have the printer take until it is released."""
        self.holding = True

    def release(self) -> None:
        with self.changed:
            self.holding = False
            self.changed.notify_all()


class HttpServer:
    """Partners, printer and rates, by path."""

    def __init__(self, outside: Outside) -> None:
        self.server = Server(outside)
        self.thread = threading.Thread(
            target=self.server.serve_forever, args=[0.1], name="outside-http", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
        self.server.server_close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, outside: Outside) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.outside = outside

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away in the middle are part of the story."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/printer":
            self.printer(content)
        else:
            self.partner(self.path.rpartition("/")[2], content["order"])

    def do_GET(self) -> None:
        """Give the exchange rates: the first two answers to each request come byte by byte."""
        body = json.dumps(RATES).encode()
        slowly = self.server.outside.times_asked(f"rates {self.headers['X-Request-Id']}") <= 2
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not slowly:
            self.wfile.write(body)
            return
        outside = self.server.outside
        for byte in body:
            self.wfile.write(bytes([byte]))
            with outside.changed:
                if outside.changed.wait_for(lambda: outside.closing, TRICKLE_SECONDS):
                    return

    def partner(self, mood: str, order: int) -> None:
        """Answer a webhook in the way of this partner."""
        outside = self.server.outside
        time = outside.times_asked(f"partner {mood} {order}")
        match mood:
            case "once" if time == 1:
                self.answer(503)
            case "sometimes" if time == 1:
                self.answer(502)
            case "sometimes" if time == 2:
                self.close_connection = True  # no answer at all
            case "down" if not outside.repaired:
                self.answer(500)
            case _:
                with outside.changed:
                    outside.delivered.setdefault(mood, []).append(order)
                self.answer(204)

    def printer(self, content: dict[str, Any]) -> None:
        """Print, unless held up, what was not printed before under the same key."""
        outside, key = self.server.outside, self.headers["Idempotency-Key"]
        order = int(key.split("-")[1])
        with outside.changed:
            outside.print_requests[order] += 1
            outside.changed.notify_all()
            outside.changed.wait_for(lambda: not outside.holding or outside.closing)
            if key not in outside.printed:
                outside.printed[key] = content["copies"]
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


class MailServer:
    """Takes mail, but sends an address away that it hasn't seen: it shall come again (greylisting)."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside
        self.port = 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, name="outside-mail", daemon=True)

    def start(self) -> None:
        self.server = self.loop.run_until_complete(self.loop.create_server(self.protocol, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()

    def protocol(self) -> SMTP:
        return SMTP(self, loop=self.loop, hostname="mail.example")

    def run(self) -> None:
        """Serve until the loop is stopped."""
        try:
            self.loop.run_forever()
        finally:
            self.server.close()
            rest = asyncio.all_tasks(self.loop)
            for task in rest:
                task.cancel()
            if rest:
                self.loop.run_until_complete(asyncio.wait(rest))
            self.loop.close()

    async def handle_DATA(  # noqa: N802  aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.outside.times_asked(f"mail {envelope.rcpt_tos}") == 1:
            return "451 4.7.1 greylisted"
        content = envelope.content.decode(errors="replace") if isinstance(envelope.content, bytes) else ""
        subject = next((x[9:] for x in content.splitlines() if x.startswith("Subject: ")), "")
        with self.outside.changed:
            self.outside.mails += [(address, subject) for address in envelope.rcpt_tos]
        return "250 OK"
