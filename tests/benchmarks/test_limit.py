"""The reference does what a worker does: pgbench, and the bare loop that takes its place, on real rows."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection

from benchmarks.claims import timed_claims
from benchmarks.ground import Ground, url_of
from benchmarks.limit import BATCH, pgbench, psycopg_loop, run_pgbench
from django_jobs.core.states import State
from django_jobs.models import Job
from tests import jobs

TASK = jobs.ok.module_path


@pytest.fixture
def ground(transactional_db):
    given = connection.get_connection_params()
    names = ("dbname", "host", "port", "user", "password")
    url = url_of({name: given[name] for name in names if given.get(name)})
    with psycopg.connect(url, autocommit=True) as own:
        yield Ground(url, own)


def states():
    found = Job.objects.values_list("state", flat=True)
    return {state: list(found).count(state) for state in set(found)}


def test_pgbench_claims_and_finishes_a_hundred_jobs_in_each_transaction(ground):
    program = pgbench(ground)
    if program is None:
        pytest.skip("no pgbench here")
    jobs.ok.enqueue_many(() for _ in range(6 * BATCH))

    assert run_pgbench(program, ground, TASK, transactions=4, clients=1) > 0

    assert states() == {State.SUCCESSFUL: 3 * BATCH, State.RUNNING: BATCH, State.READY: 2 * BATCH}
    assert set(Job.objects.exclude(state=State.READY).values_list("attempt", flat=True)) == {1}


def test_two_clients_of_pgbench_share_the_jobs(ground):
    program = pgbench(ground)
    if program is None:
        pytest.skip("no pgbench here")
    jobs.ok.enqueue_many(() for _ in range(6 * BATCH))

    run_pgbench(program, ground, TASK, transactions=3, clients=2)

    assert states() == {State.SUCCESSFUL: 4 * BATCH, State.RUNNING: 2 * BATCH}


def test_without_pgbench_a_bare_loop_does_the_same(ground):
    jobs.ok.enqueue_many(() for _ in range(6 * BATCH))

    assert psycopg_loop(ground, TASK, transactions=3, clients=2) > 0

    assert states() == {State.SUCCESSFUL: 6 * BATCH}


def test_claims_are_timed_until_none_is_left(ground):
    jobs.ok.enqueue_many(() for _ in range(5 * BATCH))

    found = timed_claims(ground, batch=BATCH, seconds=60, tasks=[TASK])

    assert states() == {State.SUCCESSFUL: 5 * BATCH}
    assert len(found.all) >= 5
    assert found.plain
    assert found.after_points
    assert all(milliseconds > 0 for milliseconds in found.all)
