"""A cursor whose changes are taken back, and links that really commit."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from django.db import connection

from django_jobs.store import link
from django_jobs.worker.process import connection_parameters


@pytest.fixture
def cursor(db):
    """Django's cursor, in a transaction that is rolled back."""
    with connection.cursor() as found:
        yield found


@pytest.fixture
def links(transactional_db):
    """A function that opens a worker's own connection, as often as it is called."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(link.connect(connection_parameters("default"), prepare=True))
