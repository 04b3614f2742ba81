"""The tables: what they allow, what they tell people, and that migrations make them as the models say."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.apps import apps
from django.core.exceptions import FieldError
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from django_jobs.core.states import FINAL, MOVES, Decision, Kind, State
from django_jobs.models import (
    Attempt,
    DecisionChoices,
    Job,
    KindChoices,
    StateChoices,
    WorkerState,
    clock,
)
from tests.rows import LONG_AGO, WORKER, row, worker_row

HOUR = timedelta(hours=1)


class TestConstraints:
    def test_allow_the_states_of_the_table_of_moves_and_no_others(self, db):
        for state in MOVES:
            if state is not None:
                assert row(state).state == state

        with pytest.raises(IntegrityError, match="django_jobs_state"), transaction.atomic():
            row("LOST")

    @pytest.mark.parametrize("state", sorted(State))
    def test_a_job_has_an_end_when_its_state_is_final(self, db, state):
        finished = None if state in FINAL else LONG_AGO

        with pytest.raises(IntegrityError, match="django_jobs_finished"), transaction.atomic():
            row(state, finished_at=finished)

    def test_a_running_job_has_a_worker(self, db):
        with pytest.raises(IntegrityError, match="has_worker"), transaction.atomic():
            row(State.RUNNING, worker=None)

    def test_an_attempt_has_a_number_of_its_own(self, db):
        job = row()
        Attempt.objects.create(job=job, number=1, kind=Kind.ERROR)

        with pytest.raises(IntegrityError), transaction.atomic():
            Attempt.objects.create(job=job, number=1, kind=Kind.ERROR)


@pytest.mark.parametrize(
    ("choices", "values"), [(StateChoices, State), (KindChoices, Kind), (DecisionChoices, Decision)]
)
def test_every_value_has_words_for_people(choices, values):
    assert {choice.value for choice in choices} == {value.value for value in values}


class TestLabels:
    @pytest.mark.parametrize(
        ("columns", "label"),
        [
            ({}, "ready"),
            ({"run_after": timezone.now() + HOUR}, "scheduled"),
            ({"run_after": timezone.now() + HOUR, "attempt": 1}, "retrying"),
            ({"run_after": timezone.now() + HOUR, "attempt": 2, "uncounted": 2}, "scheduled"),
            ({"attempt": 1}, "ready"),
            ({"state": State.RUNNING}, "running"),
            ({"state": State.SUCCESSFUL, "run_after": timezone.now() + HOUR}, "successful"),
            ({"state": State.FAILED}, "failed"),
            ({"state": State.CANCELLED}, "cancelled"),
            ({"state": State.BLOCKED}, "blocked"),
        ],
    )
    def test_say_how_a_job_stands(self, db, columns, label):
        job = row(**columns)

        assert job.label == job.phase == label

    def test_a_job_is_called_by_its_task_and_number(self, db):
        job = row()

        assert str(job) == f"tests.jobs.ok #{job.pk}"


class TestDurations:
    def test_are_those_of_the_last_run(self, db):
        job = row(State.SUCCESSFUL, last_attempted_at=LONG_AGO, finished_at=LONG_AGO + HOUR)

        assert job.duration == HOUR

    def test_go_on_while_a_job_runs(self, db):
        passed = row(State.RUNNING).duration

        assert passed is not None
        assert passed > HOUR

    def test_are_none_before_the_first_run(self, db):
        assert row().duration is None
        assert row(State.CANCELLED).duration is None


class TestHistory:
    def attempt(self, job, number, kind=Kind.ERROR, decision=Decision.RETRY):
        return Attempt.objects.create(job=job, number=number, kind=kind, decision=decision, worker=WORKER)

    def test_is_in_the_order_of_the_runs(self, db):
        job = row(State.FAILED, attempt=3)
        for number in (2, 3, 1):
            self.attempt(job, number)

        assert [run.number for run in job.history()] == [1, 2, 3]

    def test_ends_with_the_run_that_succeeded(self, db):
        job = row(
            State.SUCCESSFUL,
            attempt=2,
            worker=WORKER,
            last_attempted_at=LONG_AGO,
            finished_at=LONG_AGO + HOUR,
        )
        self.attempt(job, 1)

        last = job.history()[-1]

        assert (last.number, last.worker, last.decision, last.kind) == (2, WORKER, Decision.SUCCEEDED, "")
        assert (last.started_at, last.ended_at, last.duration) == (LONG_AGO, LONG_AGO + HOUR, HOUR)

    def test_ends_with_the_run_under_way(self, db):
        job = row(State.RUNNING, attempt=2)
        self.attempt(job, 1)

        last = job.history()[-1]

        assert (last.number, last.decision, last.ended_at, last.duration) == (2, "", None, None)

    def test_of_a_job_that_waits_is_what_was_before(self, db):
        assert row().history() == []
        job = row(attempt=1)
        before = self.attempt(job, 1)
        assert job.history() == [before]


class TestJSONText:
    @pytest.mark.parametrize("text", ['{"a":1,"a":2}', "[" * 1000 + "]" * 1000, '["\\ud800"]'], ids=len)
    def test_what_can_not_be_read_is_shown_as_it_is(self, db, text):
        job = row()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_job SET args = %s WHERE id = %s", [text, job.pk])
        job.refresh_from_db()

        assert job.args == text

    def test_a_missing_value_is_none_and_null_is_none_too(self, db):
        job = row(State.SUCCESSFUL)
        assert job.return_value is None
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_jobs_job SET return_value = 'null' WHERE id = %s", [job.pk])
        job.refresh_from_db()
        assert job.return_value is None

    @pytest.mark.parametrize("lookup", ["args", "args__contains", "args__in", "kwargs__icontains"])
    def test_is_no_column_to_search_in(self, db, lookup):
        with pytest.raises(FieldError, match="Unsupported lookup"):
            Job.objects.filter(**{lookup: [1]}).exists()

        assert not Job.objects.filter(return_value__isnull=True).exists()

    def test_survives_dumpdata_and_loaddata(self, db, tmp_path):
        values = {"args": [1, "a", {"z": [1e22, -0.0]}], "kwargs": {"b": None, "a": "x"}}
        job = row(State.SUCCESSFUL, return_value={"sent": True}, **values)
        file = tmp_path / "jobs.json"

        call_command("dumpdata", "django_jobs.job", output=str(file))
        Job.objects.all().delete()
        call_command("loaddata", str(file), verbosity=0)

        again = Job.objects.get(pk=job.pk)
        assert {"args": again.args, "kwargs": again.kwargs} == values
        assert list(again.kwargs) == ["b", "a"]
        assert again.return_value == {"sent": True}


class TestWorkers:
    @pytest.mark.parametrize("state", WorkerState)
    def test_live_while_they_run_or_stop(self, db, state):
        assert worker_row(state=state).is_live is (state in (WorkerState.RUNNING, WorkerState.STOPPING))


def indexes():
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'django_jobs_%'")
        return dict(cursor.fetchall())


class TestMigrations:
    def test_are_complete(self, db):
        call_command("makemigrations", "django_jobs", check=True, dry_run=True, stdout=StringIO())

    def test_can_be_taken_back_and_made_again(self, transactional_db):
        before = indexes()
        try:
            call_command("migrate", "django_jobs", "zero", verbosity=0)
            assert not [
                name for name in connection.introspection.table_names() if name.startswith("django_jobs_")
            ]
        finally:
            call_command("migrate", "django_jobs", verbosity=0)
        assert indexes() == before

    def test_switched_off_leave_the_same_tables(self, transactional_db):
        """Projects that run their tests without migrations have every index and constraint all the same."""
        before = indexes()
        found = apps.get_app_config("django_jobs").get_models()
        models = [model for model in found if model._meta.can_migrate(connection)]
        call_command("migrate", "django_jobs", "zero", verbosity=0)
        try:
            with connection.schema_editor() as editor:
                for model in models:
                    editor.create_model(model)
            assert {"django_jobs_ready", "django_jobs_running", "django_jobs_expiry"} <= set(before)
            assert set(indexes()) == set(before)
            row(State.RUNNING)
            with connection.schema_editor() as editor:
                for model in reversed(models):
                    editor.delete_model(model)
        finally:
            call_command("migrate", "django_jobs", verbosity=0)


def test_the_databases_clock_can_be_read(db):
    assert abs(clock("default") - timezone.now()) < timedelta(minutes=1)
