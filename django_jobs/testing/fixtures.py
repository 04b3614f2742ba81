"""
A fixture for pytest. Name the module in your `conftest.py`:

    pytest_plugins = ["django_jobs.testing.fixtures"]
"""

from __future__ import annotations

import pytest

from django_jobs.testing import JobsTestMixin


@pytest.fixture
def jobs(db: None) -> JobsTestMixin:
    """The helpers of `django_jobs.testing`: `jobs.run_due()`, `jobs.assert_enqueued(task, …)`, ….

    Brings a database in a transaction that is rolled back; beside `transactional_db`, one that is flushed.
    """
    return JobsTestMixin()
