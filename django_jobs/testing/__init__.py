"""
Helpers for the tests of projects that use django_jobs.

They work on the test's own connection and in its transaction: in Django's `TestCase` without any commit, and
in `TransactionTestCase`. See the how-to page "Testing code that enqueues jobs".
"""

from __future__ import annotations

from django_jobs.testing.asserting import assert_enqueued, assert_not_enqueued, enqueued
from django_jobs.testing.at_once import immediate
from django_jobs.testing.backends import DummyBackend, ImmediateBackend
from django_jobs.testing.running import Ran, TooManyRuns, adrain, arun_due, drain, run_due


class JobsTestMixin:
    """The helpers as methods, beside Django's test case: `class Tests(JobsTestMixin, TestCase)`."""

    run_due = staticmethod(run_due)
    arun_due = staticmethod(arun_due)
    drain = staticmethod(drain)
    adrain = staticmethod(adrain)
    enqueued = staticmethod(enqueued)
    assert_enqueued = staticmethod(assert_enqueued)
    assert_not_enqueued = staticmethod(assert_not_enqueued)
    immediate = staticmethod(immediate)


__all__ = [
    "DummyBackend",
    "ImmediateBackend",
    "JobsTestMixin",
    "Ran",
    "TooManyRuns",
    "adrain",
    "arun_due",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "enqueued",
    "immediate",
    "run_due",
]
