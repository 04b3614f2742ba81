"""What log records carry."""

from __future__ import annotations

from datetime import date

import pytest

from django_jobs import task
from django_jobs.core import rich
from django_jobs.core.arguments import encode_call
from django_jobs.core.masking import MASK
from django_jobs.core.records import Completed
from django_jobs.telemetry import job_ended
from tests.rows import claimed_job


@task
def log_in(name, password, *tokens, secret=None, note=None):
    """Take arguments that nobody shall read."""


@task(encoding="rich")
def sign(day, keys):
    """Take arguments beyond JSON."""


@pytest.fixture
def logged(caplog, settings):
    """Return what the record about a run carries of a call."""
    caplog.set_level("DEBUG", "django_jobs")

    def record(task, args, kwargs=None, **chosen):
        settings.DJANGO_JOBS = chosen
        call = ",".join(encode_call(args, kwargs or {}, max_bytes=10_000))
        job = claimed_job(call=f"[{call}]", task_path=getattr(task, "module_path", task))
        job_ended(job, Completed(return_value=None, keep=None), None, 0.1)
        found = caplog.records[-1]
        return getattr(found, "job_args", None), getattr(found, "job_kwargs", None)

    return record


class TestArguments:
    def test_are_left_out(self, logged):
        assert logged(log_in, ["ada", "x"]) == (None, None)

    def test_are_there_when_asked_for_but_for_those_with_sensitive_names(self, logged):
        given = {"secret": "s", "note": {"api_key": 1, "n": 2}}

        args, kwargs = logged(log_in, ["ada", "x", "y", "z", "the last"], given, log_arguments=True)

        assert args == ["ada", MASK, MASK, MASK, MASK]
        assert kwargs == {"secret": MASK, "note": {"api_key": MASK, "n": 2}}

    def test_names_are_the_projects_to_choose(self, logged):
        assert logged(log_in, ["ada", "x"], log_arguments=True, sensitive_names=["name"]) == ([MASK, "x"], {})

    def test_of_rich_encoding_are_masked_too(self, logged):
        args = [rich.flatten(date(2026, 1, 31)), rich.flatten({"secret": "s", 1: "t"})]

        shown, _ = logged(sign, args, log_arguments=True)

        assert rich.restore(shown) == [date(2026, 1, 31), {"secret": MASK, 1: "t"}]

    def test_of_a_task_that_is_not_known_are_hidden(self, logged):
        assert logged("elsewhere.tasks.gone", ["x"], {"a": 1}, log_arguments=True) == ([MASK], {"a": 1})
