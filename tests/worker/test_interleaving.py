"""
Nothing that was committed is left behind, and nothing is claimed twice, in whatever order things happen.

A worker's claims, plain and after points, meet what others do on connections of their own: transactions that
commit late, claims that are rolled back or lost with their worker, retries and rescues. Each step is one that
the dispatcher makes, by the statements and the plan that it uses.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_jobs.core.records import Completed, Ended, Released, Retried, Snoozed, Wake
from django_jobs.core.states import Kind, State
from django_jobs.models import Job
from django_jobs.store import claim, finish, rescue, scout
from django_jobs.store.link import connect, run_together
from django_jobs.worker.claiming import Claiming
from django_jobs.worker.process import connection_parameters
from django_jobs.worker.requests import Served
from tests import jobs
from tests.rows import TRACE, WORKER, worker_row

KNOWN = [jobs.ok.module_path]
POLL = 5.0
DEAD = 77
"""The id of a worker that has no row: what runs under it is an orphan."""

INSERT = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, meta, enqueued_at,
        run_after)
    VALUES (%s, %s, '[]', '{}', %s, 'READY', 0, 0, '{}', now(), clock_timestamp() - %s * interval '1 second')
 RETURNING id, run_after
"""

INSERT_OTHERS = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, meta, enqueued_at,
        run_after)
    SELECT %s, 'others.task', '[]', '{}', 0, 'READY', 0, 0, '{}', now(), now() - n * interval '15 seconds'
      FROM generate_series(1, %s) AS n
"""

clients = st.integers(0, 1)
places = st.integers(0, 5)
INSERT_STEP = st.tuples(
    st.just("insert"),
    clients,
    st.sampled_from("ab"),
    st.sampled_from([0, 0, 5, 7]),
    st.sampled_from([0, 0, 1, 60]),
)
CLAIM_STEP = st.tuples(st.just("claim"), st.integers(1, 3))
CLAIM_ELSEWHERE = st.tuples(st.just("claim elsewhere"), st.integers(1, 2))
END_STEP = st.tuples(
    st.just("end"), clients, st.sampled_from(["COMMIT", "COMMIT", "ROLLBACK"]), st.booleans()
)
STEPS = st.one_of(
    *[INSERT_STEP] * 3,  # most steps need jobs to be of any use
    *[CLAIM_STEP] * 3,
    st.tuples(st.just("insert others"), st.sampled_from("ab"), st.integers(1, 5)),
    st.tuples(st.just("begin"), clients),
    END_STEP,
    st.tuples(st.just("complete"), places),
    st.tuples(st.just("retry"), places),
    st.tuples(st.just("snooze"), places),
    st.tuples(st.just("hand back"), places),
    CLAIM_ELSEWHERE,
    st.tuples(st.just("lose elsewhere"), st.booleans()),
    st.tuples(st.just("rescue"), st.booleans()),
    st.tuples(st.just("let pass"), st.sampled_from([0.001, 0.1, 1.0, 6.0])),
)


class Simulation:
    """One worker's claims by a clock of its own, and what others do at the same time."""

    def __init__(self, link, elsewhere, *clients):
        self.link, self.elsewhere, self.clients = link, elsewhere, clients
        self.now = 0.0
        self.claiming = Claiming(
            Served(None, frozenset(), {}),
            kinds=("sync",),
            queues=("a",),
            poll_seconds=POLL,
            jitter=lambda: 1.0,
        )
        [now] = self.link.execute("SELECT clock_timestamp()").fetchone()
        self.claiming.set_clock(now, self.now)
        self.held = []
        self.claims: Counter[int] = Counter()
        self.runs = set()
        self.uncommitted: dict[int, list[Any]] = {0: [], 1: []}
        self.committed = set()
        self.open = set()

    # What clients do

    def begin(self, client):
        if client not in self.open:
            self.clients[client].execute("BEGIN")
            self.open.add(client)

    def insert(self, client, queue, priority, age):
        [row] = self.clients[client].execute(INSERT, [queue, KNOWN[0], priority, age]).fetchall()
        self.uncommitted[client].append((*row, queue, priority))
        if client not in self.open:
            self.heard(client, told=True)

    def insert_others(self, queue, count):
        """Insert old jobs of a task that this worker doesn't know."""
        self.link.execute(INSERT_OTHERS, [queue, count])

    def end(self, client, how, told):
        if client in self.open:
            self.clients[client].execute(how)
            self.open.discard(client)
            if how == "ROLLBACK":
                self.uncommitted[client].clear()
            self.heard(client, told=told)

    def heard(self, client, *, told):
        """Have the worker hear of what was committed, unless the notification is lost."""
        rows, self.uncommitted[client] = self.uncommitted[client], []
        self.committed |= {row[0] for row in rows}
        if told and rows:
            wakes = [Wake(queue, priority, due) for _, due, queue, priority in rows]
            self.claiming.woken(wakes, self.now, silence=0.0)

    # What the worker does

    def claim(self, free):
        for request in self.claiming.requests(self.now, {"sync": free}, {}):
            make = claim.claim if request.plain else claim.claim_after
            rows = self.link.execute(*make(WORKER, request.rooms, KNOWN, request.limit)).fetchall()
            found = claim.claimed(rows)
            assert len(found) <= free
            self.take(found)
            self.claiming.took(request, found, self.now, 0.002)
        for search in self.claiming.searches(self.now, {"sync": free}):
            rows = self.link.execute(*scout.scout(search.spans, KNOWN, search.walk)).fetchall()
            self.claiming.scouted(search, scout.scouted(rows), self.now, 0.001)
        if self.claiming.is_survey_due(self.now):
            places_found = claim.surveyed(self.link.execute(*claim.survey()).fetchall())
            self.claiming.surveyed(places_found, self.now, 0.001)

    def take(self, found):
        self.held += found
        for job in found:
            assert (job.id, job.attempt) not in self.runs
            self.runs.add((job.id, job.attempt))
            self.claims[job.id] += 1

    def finish(self, place, outcome):
        """Write the end of a run of ours, as a cycle does."""
        if place >= len(self.held):
            return None
        job = self.held.pop(place)
        [rows] = run_together(self.link, finish.finish(WORKER, [Ended(job, outcome)], keep_cancelled=None))
        assert [row[0] for row in rows] == [job.id]
        self.claiming.freed([job.queue_name])
        return job

    def complete(self, place):
        self.finish(place, Completed(return_value=None, keep=None))

    def retry(self, place):
        if self.finish(place, Retried(kind=Kind.ERROR, trace=TRACE, after=timedelta(0))):
            self.claiming.due_in(0.0, self.now)

    def snooze(self, place):
        if self.finish(place, Snoozed(after=timedelta(0))):
            self.claiming.due_in(0.0, self.now)

    def hand_back(self, place):
        if job := self.finish(place, Released(started=False, reason="no slot")):
            wake = Wake(job.queue_name, job.priority, job.run_after)
            self.claiming.woken([wake], self.now, silence=0.0)

    # What other workers do

    def claim_elsewhere(self, limit):
        """Have another worker begin a claim that isn't committed yet: these rows are skipped meanwhile."""
        if "elsewhere" not in self.open:
            self.elsewhere.execute("BEGIN")
            self.open.add("elsewhere")
            rooms = [claim.Room(name, limit) for name in "ab"]
            self.elsewhere.execute(*claim.claim(DEAD, rooms, KNOWN, limit))

    def lose_elsewhere(self, committed):
        """Have that worker die before its commit, or after: nobody is told."""
        if "elsewhere" in self.open:
            self.elsewhere.execute("COMMIT" if committed else "ROLLBACK")
            self.open.discard("elsewhere")

    def rescue(self, here):
        """Have what died with its worker taken over, by this worker or by one that tells nobody."""
        orphans = rescue.found(self.link.execute(*rescue.orphans()).fetchall())
        retried = Retried(kind=Kind.LOST, trace=TRACE, after=timedelta(0))
        ended = [Ended(orphan.job, retried) for orphan in orphans if orphan.worker == DEAD]
        for statement in finish.finish(DEAD, ended, keep_cancelled=None):
            run_together(self.link, [statement])
        if ended and here:
            self.claiming.look_everywhere()

    def let_pass(self, seconds):
        self.now += seconds

    def come_to_rest(self):
        """End all that is open without a word, then go on for three polls with room enough."""
        for client in (0, 1):
            self.end(client, "COMMIT", told=False)
        self.lose_elsewhere(committed=True)
        self.rescue(here=False)
        while self.held:
            self.complete(0)
        end = self.now + 3 * POLL
        while self.now < end:
            self.claim(100)
            self.now += max(0.0005, self.claiming.seconds_left(self.now, {"sync": 100}, {}))
        while self.held:
            self.complete(0)


@pytest.fixture
def simulation(transactional_db, monkeypatch):
    """
    A function that begins anew with empty tables, on the same four connections.

    Claims over older rows go on in portions of two, and those that are filled are followed by ones that name
    no priority further down.
    """
    monkeypatch.setattr("django_jobs.worker.requests.PORTION", 2)
    monkeypatch.setattr("django_jobs.worker.requests.SMALLEST_PORTION", 1)
    monkeypatch.setattr("django_jobs.worker.reach.FURTHER_PLACES", 0)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(connect(connection_parameters("default"), prepare=True)) for _ in range(4)
        ]

        def begin():
            for link in opened:
                link.execute("ROLLBACK")
            with connection.cursor() as cursor:
                cursor.execute("TRUNCATE django_jobs_job, django_jobs_attempt, django_jobs_worker")
            worker_row(id=WORKER)
            return Simulation(*opened)

        yield begin


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_every_committed_job_runs_to_its_end_and_no_claim_is_made_twice(simulation, steps):
    found = simulation()
    for name, *arguments in steps:
        getattr(found, name.replace(" ", "_"))(*arguments)
    found.come_to_rest()

    ended = set(Job.objects.filter(state=State.SUCCESSFUL).values_list("pk", flat=True))
    ours = Job.objects.filter(task_path=KNOWN[0])
    assert ended == set(ours.values_list("pk", flat=True)) == found.committed
    assert set(found.claims) == found.committed
