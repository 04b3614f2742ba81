"""A real browser on a real server, for the tests of what a page does and how it looks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.test.testcases import LiveServerThread

CHROMIUM = os.environ.get("CHROMIUM", "chromium")
POLICY = "default-src 'self'"

needs_chromium = pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="there is no chromium")

Change = Callable[[HttpRequest], HttpResponse | None]


class Visitor:
    """Signs a superuser in and sends a strict policy; `before` and `after` see each request."""

    before: ClassVar[Change | None] = None
    after: ClassVar[Callable[[HttpRequest, HttpResponse], HttpResponse] | None] = None

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.user = User.objects.get(username="ada")
        response = Visitor.before(request) if Visitor.before else None
        response = response or self.get_response(request)
        if Visitor.after:
            response = Visitor.after(request, response)
        response.headers["Content-Security-Policy"] = POLICY
        return response


@contextmanager
def serving(
    before: Change | None = None, after: Callable[[HttpRequest, HttpResponse], HttpResponse] | None = None
) -> Iterator[str]:
    """Give the address of a server with a superuser signed in. pytest-django's own takes no middleware."""
    Visitor.before = staticmethod(before) if before else None
    Visitor.after = staticmethod(after) if after else None
    User.objects.create_superuser("ada")
    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, f"{__name__}.Visitor"]):
        server = LiveServerThread("127.0.0.1", StaticFilesHandler)
        server.daemon = True
        server.start()
        server.is_ready.wait()
        assert server.error is None
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            server.terminate()


def dom(url: str, folder: Path, *flags: str) -> tuple[str, list[str]]:
    """Return a page after some seconds of the browser's own time, and what the browser complained of."""
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", f"--user-data-dir={folder}", "--enable-logging=stderr",
            "--virtual-time-budget=9000", *flags, "--dump-dom", url,
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)
