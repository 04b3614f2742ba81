"""What is left to do for a worker that drains."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_jobs.core.states import State
from django_jobs.models import Queue
from django_jobs.store.cursor import run
from django_jobs.store.stock import left
from tests.rows import row

LATER = timezone.now() + timedelta(hours=1)


def is_left(cursor, queues=None, excluded=(), tasks=("tests.jobs.ok",)):
    [[answer]] = run(cursor, left(queues, excluded, tasks))
    return answer


def test_nothing_in_an_empty_table(cursor):
    assert not is_left(cursor)


@pytest.mark.parametrize(
    ("columns", "answer"),
    [
        ({}, True),
        ({"run_after": LATER}, False),
        ({"run_after": LATER, "attempt": 1}, True),
        ({"run_after": LATER, "attempt": 1, "uncounted": 1}, False),
        ({"task_path": "tests.jobs.renamed"}, False),
        ({"queue_name": "other"}, True),
    ],
    ids=["due", "scheduled", "retrying", "snoozed", "unknown", "other queue"],
)
def test_what_is_due_or_waits_for_another_attempt(cursor, columns, answer):
    row(**columns)

    assert is_left(cursor) is answer


@pytest.mark.parametrize("state", sorted(set(State) - {State.READY}))
def test_nothing_but_ready_jobs(cursor, state):
    row(state)

    assert not is_left(cursor)


def test_only_of_the_queues_served(cursor):
    row(queue_name="mail")

    assert is_left(cursor, queues=["mail", "other"])
    assert not is_left(cursor, queues=["other"])
    assert not is_left(cursor, excluded=["mail"])


def test_nothing_of_a_paused_queue(cursor):
    row()
    Queue.objects.create(name="default", paused_at=timezone.now())

    assert not is_left(cursor)
