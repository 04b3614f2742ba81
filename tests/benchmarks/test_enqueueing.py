"""The two ways of Django's connections that are measured."""

from __future__ import annotations

import pytest
from django.db import connection

from benchmarks.enqueueing import prepared
from django_jobs.models import Job
from tests import jobs

HELD = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO django_jobs_job%'"


def held():
    """Return how many statements that enqueue the session holds."""
    for _ in range(10):
        jobs.ok.enqueue()
    with connection.cursor() as cursor:
        cursor.execute(HELD)
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_an_enqueueing_is_prepared_where_djangos_options_say_so_and_nowhere_else():
    assert held() == 0
    with prepared(connection):
        assert held() == 1
    assert held() == 0

    assert Job.objects.count() == 30
