"""
Playwright for tests that also use Django's ORM.

Its own synchronous interface leaves an event loop running in the thread of the test, and in such a thread
neither Django's ORM nor `asyncio.run` works. So the asynchronous one runs here in a thread of its own, and a
`Remote` stands for each of its things: call it as in Playwright's documentation, without `await`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isawaitable
from threading import Thread
from typing import Any

import pytest
from playwright.async_api import async_playwright
from playwright.async_api import expect as expect_async

CHROMIUM = shutil.which(os.environ.get("CHROMIUM", "chromium"))
REQUIRED = bool(os.environ.get("REQUIRE_CHROMIUM"))

in_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not REQUIRED, reason="Chromium isn't installed (on Debian: apt install chromium)"
    ),
    pytest.mark.django_db(transaction=True),
]
"""The marks of every module of tests here."""

SECONDS = 60.0
"""Longest wait for one call, longer than each of Playwright's own."""


class Remote:
    """Something of Playwright's, for another thread than its own; what its methods give is one too."""

    def __init__(self, thing: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.thing = thing
        self.loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.thing, name)
        return self.caller(found) if callable(found) else given(found, self.loop)

    def caller(self, method: Any) -> Any:
        async def called(words: Any, options: Any) -> Any:
            result = method(*words, **options)
            return await result if isawaitable(result) else result

        def call(*words: Any, **options: Any) -> Any:
            words = tuple(local(word) for word in words)
            options = {name: local(value) for name, value in options.items()}
            doing = asyncio.run_coroutine_threadsafe(called(words, options), self.loop)
            return given(doing.result(SECONDS), self.loop)

        return call


def given(value: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """Return what came from Playwright for the tests' thread."""
    if isinstance(value, list):
        return [given(one, loop) for one in value]
    return Remote(value, loop) if type(value).__module__.startswith("playwright.") else value


def local(value: Any) -> Any:
    """Return a value of the tests' thread for Playwright."""
    return value.thing if isinstance(value, Remote) else value


def expect(remote: Any) -> Any:
    """Return Playwright's assertions, which wait until they hold, about a page or a part of one."""
    return Remote(expect_async(remote.thing), remote.loop)


@contextmanager
def chromium_running() -> Iterator[Any]:
    """Give Debian's Chromium, without a window."""
    assert CHROMIUM is not None, "REQUIRE_CHROMIUM is set, and there is none"
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="browser", daemon=True)
    thread.start()
    driver = Remote(async_playwright(), loop)
    playwright = driver.start()
    try:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])],
        )
        yield browser
        browser.close()
    finally:
        playwright.stop()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
