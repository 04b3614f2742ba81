"""Whatever bodies are given, return and raise: each job ends as it should, and the worker lives."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from django_jobs import task
from django_jobs.core.states import State
from django_jobs.models import Attempt
from tests import jobs
from tests.worker.workers import QUICK, Workers, job_of

COMMITTING = settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # the worker's threads do

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
NAMES = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=128
)
ODD_RESULTS = {
    "NaN": math.nan,
    "infinity": [math.inf],
    "a set": {1, 2},
    "an object": object(),
    "bytes": b"\xff",
    "a lone surrogate": "\ud800",
    "NUL": "a\0b",
    "too deep": None,
}
deep: list[object] = []
for _ in range(5000):
    deep = [deep]
ODD_RESULTS["too deep"] = deep
CLASSES = [
    ValueError,
    KeyError,
    OSError,
    UnicodeError,
    StopIteration,
    AssertionError,
    SystemExit,
    GeneratorExit,
    MemoryError,
]


@task(max_attempts=1)
def give_odd(name: str) -> object:
    return ODD_RESULTS[name]


@task(max_attempts=1)
def fail_with(number: int, words: list[object]) -> None:
    raise CLASSES[number](*words)


@pytest.fixture
def worker(transactional_db, settings):
    settings.DJANGO_JOBS = QUICK
    with Workers() as workers:
        yield workers.start()


class TestInput:
    @COMMITTING
    @given(
        value=VALUES,
        queue=NAMES,
        priority=st.integers(-100, 100),
        after=st.sampled_from([None, timedelta(0), timedelta(milliseconds=5)]),
        is_async=st.booleans(),
    )
    def test_values_come_back_whatever_the_queue_priority_and_time_116(
        self, worker, value, queue, priority, after, is_async
    ):
        chosen = (jobs.agive if is_async else jobs.give).using(
            queue_name=queue, priority=priority, run_after=after
        )

        job = job_of(chosen.enqueue(value))

        assert (job.state, job.attempt) == (State.SUCCESSFUL, 1)
        assert repr(job.return_value) == repr(value)
        assert worker.dispatcher.loop.failures == 0

    @COMMITTING
    @given(number=st.integers(0, len(CLASSES) - 1), words=st.lists(VALUES, max_size=3))
    def test_exceptions_are_recorded_whatever_is_in_them_121_123(self, worker, number, words):
        job = job_of(fail_with.enqueue(number, words))

        assert (job.state, job.attempt) == (State.FAILED, 1)
        [recorded] = Attempt.objects.filter(job=job)
        assert recorded.exception_class
        assert "\0" not in recorded.message + recorded.traceback
        assert worker.dispatcher.loop.failures == 0

    @pytest.mark.parametrize("name", sorted(ODD_RESULTS))
    def test_results_that_cannot_be_stored_fail_their_job_for_good_114(self, worker, name):
        job = job_of(give_odd.enqueue(name))

        assert (job.state, job.attempt) == (State.FAILED, 1)
        assert "return value" in str(job.reason)
        assert job_of(jobs.give.enqueue(1)).return_value == 1
