"""An executor without a worker around it, and what to give it."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from datetime import timedelta

import pytest

from django_jobs.core.backoff import Constant
from django_jobs.worker.executor import Executor, Rules
from tests import jobs
from tests.rows import WORKER

RULES = Rules(
    database="default",
    backoff=Constant(timedelta(seconds=30), jitter=0),
    timeout=None,
    queue_timeouts={"slow": timedelta(hours=2)},
    transactional_timeout=timedelta(seconds=60),
    keep_successful=timedelta(days=1),
    keep_failed=timedelta(days=14),
    max_error_chars=8000,
    max_argument_bytes=1000,
)


def executor_with(*, cancelled=(), settle=lambda ended: True, **rules):
    """Return an executor that has these rules, and takes these jobs for cancelled."""
    return Executor(
        replace(RULES, **rules),
        worker=lambda: WORKER,
        is_cancelled=lambda job_id: job_id in cancelled,
        settle=settle,
    )


@pytest.fixture(autouse=True)
def quiet_jobs():
    """Forget what bodies told and where they waited; let those that still wait go."""
    jobs.gates.clear()
    jobs.asked.clear()
    while not jobs.told.empty():
        jobs.told.get_nowait()
    yield
    for gate in jobs.gates.values():
        gate.set()


@pytest.fixture
def many_files():
    """Have every descriptor below 1,024 taken, as in a process with many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2000), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < 1024:
        taken.append(os.dup(taken[0]))
    yield
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
