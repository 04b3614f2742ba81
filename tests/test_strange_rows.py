"""Rows that a stranger wrote by hand, with values that make no sense: no page, command or worker minds."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from django_jobs.core.states import FINAL, State
from django_jobs.models import Attempt, Job, Queue, Worker
from django_jobs.tasks import unconfigured_backend
from tests import jobs
from tests.admin.conftest import JOBS, QUEUES, WORKERS
from tests.rows import row, worker_row
from tests.worker.workers import QUICK, Workers, job_of

COMMITTING = settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a smaller example is not worth minutes of a database's time
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
TIMES = st.sampled_from(
    ["infinity", "-infinity", "4713-01-01 BC", "0001-01-01 BC", "294276-12-31", "9999-12-31 23:59:59Z", "now"]
)
INTEGERS = st.sampled_from([-(2**31), -1, 0, 1, 2, 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)
BIG = st.sampled_from([-(2**63), -1, 0, 2**63 - 1])
TEXTS = st.sampled_from(
    [
        "",
        "default",
        " ",
        "a" * 100,
        "<script>alert(1)</script>",
        "\x1b[31m",
        "..",
        "a.b/c?d#e%00",
        "\u202e",
        "x\ny",
    ]
) | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50)
DOCUMENTS = st.sampled_from(
    [
        "[]",
        "{}",
        "null",
        "[1]",
        '{"a": 1}',
        '"text"',
        "1e400",
        "NaN",
        "[[[[[[[[]]]]]]]]",
        '{"a": 1, "a": 2}',
        "[" * 2000 + "]" * 2000,
        '"\\ud800"',
        "1" * 5000,
        '{"\\u0000": 1}',
    ]
)

JOB_COLUMNS = {
    "queue_name": TEXTS,
    "task_path": TEXTS,
    "args": DOCUMENTS,
    "kwargs": DOCUMENTS,
    "return_value": DOCUMENTS,
    "meta": st.sampled_from(["{}", "[]", "null", "1", '{"a": {"b": [1]}}']),
    "priority": st.integers(-32768, 32767),
    "attempt": INTEGERS,
    "uncounted": INTEGERS,
    "max_attempts": st.none() | INTEGERS,
    "reason": st.none() | TEXTS,
    "worker": BIG,
    "run_after": TIMES,
    "enqueued_at": TIMES,
    "started_at": st.none() | TIMES,
    "last_attempted_at": st.none() | TIMES,
    "expires_at": st.none() | TIMES,
    "cancel_requested_at": st.none() | TIMES,
    "finished_at": TIMES,
}
ATTEMPT_COLUMNS = {
    "number": INTEGERS,
    "worker": st.none() | BIG,
    "started_at": st.none() | TIMES,
    "ended_at": st.none() | TIMES,
    "kind": st.sampled_from(["", "ERROR", "LOST", "WHAT"]),
    "decision": st.sampled_from(["", "RETRY", "WHAT"]),
    "exception_class": TEXTS,
    "message": TEXTS,
    "traceback": TEXTS,
    "next_run_after": st.none() | TIMES,
}
WORKER_COLUMNS = {
    "name": TEXTS,
    "host": TEXTS,
    "pid": INTEGERS,
    "threads": INTEGERS,
    "async_slots": INTEGERS,
    "queues": st.sampled_from(["null", "[]", "{}", "1", '"a"', "[1, null]"]),
    "excluded_queues": st.sampled_from(["null", "[]", "{}", "1", "[[]]"]),
    "limits": st.sampled_from([None, "null", "[]", "{}", "1", '{"default": "x"}', '{"default": -1}']),
    "supervisor": st.sampled_from(["", "a"]),
    "supervisor_pid": st.none() | INTEGERS,
    "memory_bytes": st.none() | BIG,
    "takes_requests": st.booleans(),
    "asked_to": st.sampled_from(["", "DRAIN", "STOP", "WHAT"]),
    "asked_all": st.booleans(),
    "asked_at": st.none() | TIMES,
    "asked_by": TEXTS,
    "tasks": st.sampled_from(["null", "[]", "{}", "1", "[{}]"]),
    "versions": st.sampled_from(["null", "[]", "{}", "1", '{"python": []}']),
    "state": st.sampled_from(["RUNNING", "STOPPING", "STOPPED", "LOST", "", "WHAT"]),
    "holds_lock": st.booleans(),
    "started_at": TIMES,
    "heartbeat_at": TIMES,
    "stopped_at": st.none() | TIMES,
    "ending": TEXTS,
}
QUEUE_COLUMNS = {"paused_at": st.none() | TIMES, "paused_by": TEXTS, "pause_reason": TEXTS}


def some_of(columns):
    """Values for some of the columns: with all of them at once, one would hide what another does."""
    names = st.lists(st.sampled_from(sorted(columns)), max_size=4, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: columns[name] for name in chosen}))


def change(table, key, pk, columns):
    """Write what a person with psql would write; a value that the database itself refuses is left out."""
    for name, value in columns.items():
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"UPDATE {table} SET {name} = %s WHERE {key} = %s", [value, pk])
        except Exception:  # noqa: BLE001
            pass


@pytest.fixture
def staff(db):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.django_db
class TestPagesAndCommands:
    @COMMITTING
    @given(
        state=st.sampled_from(sorted(State)),
        job=some_of(JOB_COLUMNS),
        attempt=some_of(ATTEMPT_COLUMNS),
        worker=some_of(WORKER_COLUMNS),
        queue=some_of(QUEUE_COLUMNS),
    )
    @example("READY", {"run_after": "infinity"}, {}, {}, {})
    @example("SUCCESSFUL", {"last_attempted_at": "-infinity", "finished_at": "infinity"}, {}, {}, {})
    @example(
        "FAILED", {"expires_at": "infinity"}, {"started_at": "-infinity", "ended_at": "infinity"}, {}, {}
    )
    @example("RUNNING", {"last_attempted_at": "infinity"}, {}, {"heartbeat_at": "-infinity"}, {})
    @example(
        "READY", {}, {}, {"heartbeat_at": "infinity", "started_at": "-infinity"}, {"paused_at": "infinity"}
    )
    def test_show_what_a_stranger_wrote_133(self, staff, state, job, attempt, worker, queue):
        with transaction.atomic():
            Job.objects.all().delete()
            Worker.objects.all().delete()
            Queue.objects.all().delete()
            strange, other = row(state, attempt=1), row()
            tried = Attempt.objects.create(job=strange, number=1, kind="ERROR", decision="RETRY")
            known = worker_row()
            setting = Queue.objects.create(name="default")
            change("django_jobs_job", "id", strange.pk, job)
            change("django_jobs_attempt", "id", tried.pk, attempt)
            change("django_jobs_worker", "id", known.pk, worker)
            change("django_jobs_queue", "name", setting.pk, queue)

        for page in (
            JOBS,
            f"{JOBS}?state=ready",
            f"{JOBS}?state={state.lower()}",
            f"{JOBS}?q={strange.pk}",
            f"{JOBS}{strange.pk}/change/",
            f"{JOBS}retry/{strange.pk}/",
            f"{JOBS}cancel/{strange.pk}/",
            f"{JOBS}run/{strange.pk}/",
            f"{JOBS}delete/{strange.pk}/",
            WORKERS,
            f"{WORKERS}{known.pk}/change/",
            QUEUES,
            f"{QUEUES}default/change/",
        ):
            assert staff.get(page, follow=True).status_code == 200, page
        assert f"#{other.pk}" in said("show", other.pk)
        for words in (["show", strange.pk], ["show", strange.pk, "--format", "json"], ["status"]):
            said(*words)
        json.loads(said("status", "--format", "json"))
        result = unconfigured_backend().get_result(str(strange.pk))
        assert result.id == str(strange.pk)
        assert result.attempts is not None


def said(*words):
    """Return what `manage.py jobs` prints; `health` may end with an error of its own."""
    out = StringIO()
    call_command("jobs", *map(str, words), stdout=out, stderr=StringIO())
    return out.getvalue()


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # the worker's own threads do
class TestAWorker:
    @COMMITTING
    @given(
        state=st.sampled_from([State.READY, State.RUNNING, State.FAILED]),
        job=some_of(JOB_COLUMNS),
        worker=some_of(WORKER_COLUMNS),
        known=st.booleans(),
    )
    @example(State.READY, {"run_after": "infinity"}, {}, True)
    @example(State.RUNNING, {"attempt": 2**31 - 1, "worker": -5}, {}, True)
    @example(
        State.RUNNING, {"last_attempted_at": "infinity", "started_at": "-infinity", "worker": -5}, {}, True
    )
    @example(State.READY, {"attempt": -(2**31), "uncounted": 2**31 - 1}, {}, True)
    @example(
        State.RUNNING, {"args": "1e400", "kwargs": "[]", "worker": -5}, {"heartbeat_at": "-infinity"}, True
    )
    def test_goes_on_whatever_a_stranger_wrote_133(self, running, state, job, worker, known):
        path = {} if known else {"task_path": "no.such.task"}
        strange = row(state, **path)
        peer = worker_row()
        change("django_jobs_job", "id", strange.pk, job)
        change("django_jobs_worker", "id", peer.pk, worker)

        assert job_of(jobs.give.enqueue(7)).return_value == 7

        running.dispatcher.duties.hurry("rescue")
        running.dispatcher.duties.hurry("prune")
        running.dispatcher.duties.hurry("unknown")
        running.dispatcher.duties.hurry("stock")
        running.dispatcher.nudge()
        assert job_of(jobs.give.enqueue(8)).return_value == 8
        assert running.dispatcher.loop.failures == 0
        assert not running.ended.is_set()

    @pytest.fixture
    def running(self, transactional_db, settings, monkeypatch):
        monkeypatch.setattr("django_jobs.worker.duties.SETTLED_SECONDS", 0.0)
        settings.DJANGO_JOBS = QUICK | {"rescue_seconds": 0.1, "dead_after_seconds": 60.0}
        with Workers() as workers:
            yield workers.start()


def test_a_job_that_ended_strangely_can_still_be_operated_on(db):
    for state in FINAL:
        job = row(state)
        change("django_jobs_job", "id", job.pk, {"finished_at": "infinity", "run_after": "-infinity"})
        job.refresh_from_db()
        assert job.history() is not None
        assert job.retry() is (state != State.SUCCESSFUL)
