"""From new jobs to rows, one by one and many at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from django_jobs.core.records import NewJob
from django_jobs.models import Job
from django_jobs.store.insert import insert, insert_many

NEW = NewJob(
    queue_name="mail",
    task_path="tests.jobs.ok",
    args='[{"b":1,"a":-0.0},1e22]',
    kwargs='{"z": "é\\n\\t\\\\N \\" 😀", "a": 1}',
    priority=-5,
    run_after=None,
    max_attempts=None,
    meta='{"tag": "x"}',
)
DUE = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


def one(cursor, job):
    return insert(cursor, job)


def many(cursor, job):
    [inserted] = insert_many(cursor, [job])
    return inserted


@pytest.fixture(params=[one, many])
def insert_it(request, cursor):
    return lambda job: request.param(cursor, job)


def texts(cursor, number):
    cursor.execute("SELECT args::text, kwargs::text FROM django_jobs_job WHERE id = %s", [number])
    return cursor.fetchone()


def test_what_comes_back_is_what_was_stored(insert_it):
    inserted = insert_it(NEW)

    job = Job.objects.get(pk=inserted.id)
    assert (job.enqueued_at, job.run_after) == (inserted.enqueued_at, inserted.run_after)
    assert job.run_after == job.enqueued_at


def test_texts_are_stored_to_the_letter(insert_it, cursor):
    assert texts(cursor, insert_it(NEW).id) == (NEW.args, NEW.kwargs)


def test_a_job_may_be_due_at_an_instant(insert_it):
    assert insert_it(replace(NEW, run_after=DUE)).run_after == DUE


def test_a_job_may_be_due_after_a_delay(insert_it):
    inserted = insert_it(replace(NEW, run_after=timedelta(days=-1, microseconds=1)))

    assert inserted.run_after - inserted.enqueued_at == timedelta(days=-1, microseconds=1)


def test_many_keep_their_order(cursor):
    made = insert_many(cursor, [replace(NEW, args=f"[{number}]") for number in range(50)])

    ids = [inserted.id for inserted in made]
    assert ids == sorted(ids)
    assert [texts(cursor, number)[0] for number in ids] == [f"[{number}]" for number in range(50)]


def test_none_is_no_statement(django_assert_num_queries, cursor):
    with django_assert_num_queries(0):
        assert insert_many(cursor, []) == []


def test_ids_beyond_32_bits_are_fine(insert_it, cursor):
    cursor.execute("SELECT setval(pg_get_serial_sequence('django_jobs_job', 'id'), %s)", [2**40])

    assert insert_it(NEW).id == 2**40 + 1


def test_tables_may_be_in_any_schema_on_the_search_path(cursor):
    cursor.execute("CREATE SCHEMA elsewhere")
    cursor.execute("ALTER TABLE django_jobs_job SET SCHEMA elsewhere")
    cursor.execute("SET LOCAL search_path TO elsewhere, public")

    assert insert(cursor, NEW).id + 1 == insert_many(cursor, [NEW])[0].id
