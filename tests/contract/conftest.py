"""A project that has our backend in `TASKS`, and what its tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_jobs.framework import task_enqueued, task_finished, task_started
from tests.contract import tasks


@pytest.fixture(autouse=True)
def project(settings):
    """Have the contract's backends in the settings, and one attempt for a job that says nothing else."""
    settings.TASKS = tasks.TASKS
    settings.DJANGO_JOBS = {"max_attempts": 1}
    while not tasks.seen.empty():
        tasks.seen.get_nowait()
    return settings


@pytest.fixture
def told() -> Iterator[list[tuple[Any, ...]]]:
    """What Django's three signals say: name, sender and a copy of the result as it was then."""
    found: list[tuple[Any, ...]] = []
    receivers = []
    for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

        def receive(sender, task_result, name=name, **kwargs):
            found.append((name, sender, task_result))

        signal.connect(receive)
        receivers.append((signal, receive))
    yield found
    for signal, receive in receivers:
        signal.disconnect(receive)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Write lone surrogates of log lines as escapes: no process can send them to another."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report  # type: ignore[return-value]
