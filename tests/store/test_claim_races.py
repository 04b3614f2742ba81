"""Several workers claim at once: no job goes to two of them, and none waits for another's lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from psycopg.errors import DivisionByZero

from django_jobs.core.records import Completed
from django_jobs.core.states import State
from django_jobs.models import Job
from django_jobs.store.claim import BEGINNING, Room, Span, claim, claim_after, claimed
from django_jobs.store.finish import finish
from django_jobs.store.link import run_together
from tests import jobs
from tests.rows import row, run_of

KNOWN = [jobs.ok.module_path]


def fill(count):
    Job.objects.bulk_create([Job(task_path=KNOWN[0], queue_name=f"q{number % 3}") for number in range(count)])


def test_jobs_that_someone_else_is_claiming_are_skipped(links):
    first, second = (row() for _ in range(2))
    rooms = [Room("default", 10)]
    one, other = links(), links()

    with one.transaction():
        [found] = claimed(one.execute(*claim(1, rooms, KNOWN, 1)).fetchall())
        [left] = claimed(other.execute(*claim(2, rooms, KNOWN, 10)).fetchall())

    assert (found.id, left.id) == (first.pk, second.pk)


def test_what_a_claim_only_looked_at_is_open_to_others(links):
    """Or it would be passed over by all: there may be thousands, for another kind of slot or worker."""
    job = row()
    rooms = [Room("default", 10)]
    one, other = links(), links()

    with one.transaction():
        assert one.execute(*claim(1, rooms, ["another.task"], 10)).fetchall() == []
        behind = [Room("default", 10, [Span(0, BEGINNING)])]
        [found] = claimed(other.execute(*claim_after(2, behind, KNOWN, 10)).fetchall())

    assert found.id == job.pk


def test_no_job_is_claimed_twice(links):
    fill(300)
    barrier = Barrier(4)
    rooms = [Room(f"q{number}", 10) for number in range(3)]
    behind = [Room(f"q{number}", 10, [Span(0, BEGINNING)]) for number in range(3)]

    def work(worker):
        link = links()
        found: list[int] = []
        barrier.wait()
        while True:
            make, from_where = (claim, rooms) if worker % 2 else (claim_after, behind)
            jobs_found = claimed(link.execute(*make(worker, from_where, KNOWN, 7)).fetchall())
            if not jobs_found:
                return found
            found += [job.id for job in jobs_found]

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(work, range(1, 5)))

    together = [job_id for found in taken for job_id in found]
    assert len(together) == len(set(together)) == 300
    assert Job.objects.filter(state=State.RUNNING, attempt=1).count() == 300


def test_a_cycle_writes_and_claims_in_one_transaction(links):
    """A hundred outcomes and a hundred claims are two statements and one commit."""
    link = links()
    fill(200)
    rooms = [Room(f"q{number}", 100) for number in range(3)]
    claimed_first = claimed(link.execute(*claim(1, rooms, KNOWN, 100)).fetchall())
    running = {job.pk: job for job in Job.objects.filter(state=State.RUNNING)}
    done = [run_of(running[job.id], Completed(return_value=None, keep=None)) for job in claimed_first]

    statements = [*finish(1, done, keep_cancelled=None), claim(1, rooms, KNOWN, 100)]
    written, found = run_together(link, statements)

    assert len(statements) == 2
    assert {job_id for [job_id] in written} == set(running)
    assert len(found) == 100
    with link.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM django_jobs_job")
        assert cursor.fetchone() == (1,)


def test_when_one_statement_fails_none_has_happened(links):
    link = links()
    job = row()
    statements = [claim(1, [Room("default", 1)], KNOWN, 1), ("SELECT 1 / %(nothing)s", {"nothing": 0})]

    with pytest.raises(DivisionByZero):
        run_together(link, statements)

    job.refresh_from_db()
    assert job.state == State.READY
    assert run_together(link, statements[:1])[0][0][0] == job.pk
