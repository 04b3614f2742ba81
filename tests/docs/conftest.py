"""Workers for the tests of the docs, inside the test's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker

Start = Callable[..., Worker]


@pytest.fixture
def start_worker(transactional_db) -> Iterator[Start]:
    """Starts workers on the test's database; they are stopped at the end."""
    workers: list[Worker] = []

    def start(**options: object) -> Worker:
        worker = Worker(WorkerOptions(**{"threads": 2, "listen": False, "poll_seconds": 0.2, **options}))  # type: ignore[arg-type]
        workers.append(worker)
        worker.start()
        return worker

    yield start
    for worker in workers:
        if worker.dispatcher.connection is not None or not worker.ended.is_set():
            worker.stop(0)
