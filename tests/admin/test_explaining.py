"""Why a job isn't running, as its page in the admin says it."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.expressions import RawSQL
from django.utils import timezone

from django_jobs.dashboard.explaining import explain
from django_jobs.models import Job, Queue
from django_jobs.store import explain as explaining
from tests import jobs
from tests.admin.conftest import detail

pytestmark = pytest.mark.django_db

KNOWN = jobs.ok.module_path
FREE = {"tasks": [KNOWN, jobs.agive.module_path], "async_slots": 4}
"""A worker that lives, serves every queue and knows the tasks."""


def told(job_id):
    """Return the causes by name, each with its remedy."""
    return {reason.key: f"{reason.says} {reason.remedy}" for reason in explain("default", job_id).reasons}


@pytest.fixture
def due(make_job):
    """A job that has been due for a minute."""

    def make(**columns):
        ago = timezone.now() - timedelta(minutes=1)
        return make_job(**{"task_path": KNOWN, "run_after": ago} | columns)

    return make


class TestWaiting:
    def test_nothing_keeps_a_job_that_a_free_worker_serves_and_knows(self, due, make_worker):
        make_worker(**FREE)

        reasons = told(due().pk)

        assert list(reasons) == ["any-moment"]
        assert "It starts within 5.0 s" in reasons["any-moment"]

    def test_it_is_not_due(self, make_job, make_worker):
        make_worker(**FREE)
        job = make_job(task_path=KNOWN, run_after=timezone.now() + timedelta(hours=2, seconds=30))

        assert told(job.pk) == {
            "not-due": "It isn’t due: its time comes in 2 h 0 min. Wait, or run it now.",
        }

    def test_it_waits_for_another_attempt(self, make_job, make_worker):
        make_worker(**FREE)
        job = make_job("RETRYING", task_path=KNOWN, reason="SMTPError: no")

        reasons = told(job.pk)

        assert list(reasons) == ["retrying"]
        assert "The last one: SMTPError: no" in reasons["retrying"]

    def test_it_is_never_due(self, due, make_worker):
        make_worker(**FREE)
        job = due()
        Job.objects.filter(pk=job.pk).update(run_after=RawSQL("'infinity'::timestamptz", ()))

        assert list(told(job.pk)) == ["never-due"]

    def test_its_queue_is_paused(self, due, make_worker):
        make_worker(**FREE)
        job = due(queue_name="mail")
        Queue.objects.create(
            name="mail", paused_at=timezone.now(), paused_by="ada", pause_reason="SMTP is down"
        )

        reasons = told(job.pk)

        assert list(reasons) == ["paused"]
        assert "by ada: SMTP is down Resume the queue." in reasons["paused"]

    def test_no_worker_lives(self, due, make_worker):
        make_worker(**FREE, silent=600)
        make_worker(**FREE, state="STOPPED")

        assert "manage.py runjobs" in told(due().pk)["no-worker"]

    @pytest.mark.parametrize(
        "worker", [{"queues": ["web"]}, {"excluded_queues": ["mail"]}, {"state": "STOPPING"}]
    )
    def test_no_live_worker_serves_its_queue(self, due, make_worker, worker):
        made = make_worker(**FREE | worker)

        reasons = told(due(queue_name="mail").pk)

        assert list(reasons) == ["unserved"]
        assert f"there are w #{made.pk}." in reasons["unserved"]
        assert "manage.py runjobs --queue=mail" in reasons["unserved"]

    def test_no_worker_of_its_queue_knows_its_task(self, due, make_worker):
        make_worker(**FREE | {"queues": ["other"]})
        make_worker(tasks=["shop.other"])

        reasons = told(due().pk)

        assert list(reasons) == ["unknown-task"]
        assert f"knows the task {KNOWN}" in reasons["unknown-task"]
        assert "due for 1 h 0 min" in reasons["unknown-task"]

    def test_all_slots_are_busy(self, due, make_job, make_worker):
        worker = make_worker(**FREE | {"threads": 2})
        for _ in range(2):
            make_job("RUNNING", worker=worker.pk, task_path=jobs.give.module_path)

        reasons = told(due().pk)

        assert list(reasons) == ["busy"]
        assert f"2 × {jobs.give.module_path}" in reasons["busy"]

    def test_the_limit_of_its_queue_is_reached(self, due, make_job, make_worker):
        worker = make_worker(**FREE | {"name": "w", "limits": {"mail": 2}})
        for _ in range(2):
            make_job("RUNNING", worker=worker.pk, queue_name="mail")

        reasons = told(due(queue_name="mail").pk)

        assert reasons == {
            "limit": f"The limit of the queue “mail” is reached: w #{worker.pk} may run 2 of its jobs at "
            "once. Wait, or start workers with a higher limit, as in: manage.py runjobs --queue=mail:3"
        }

    def test_a_limit_is_no_cause_while_another_worker_has_room(self, due, make_job, make_worker):
        limited = make_worker(**FREE | {"limits": {"mail": 1}})
        make_worker(**FREE | {"limits": {"mail": 2}})
        make_job("RUNNING", worker=limited.pk, queue_name="mail")
        make_job("RUNNING", worker=limited.pk, queue_name="other")

        assert list(told(due(queue_name="mail").pk)) == ["any-moment"]

    def test_some_workers_may_be_full_and_others_at_their_limit(self, due, make_job, make_worker):
        limited = make_worker(**FREE | {"name": "limited", "limits": {"mail": 1}})
        full = make_worker(**FREE | {"name": "full", "threads": 1, "limits": {"mail": 1}})
        for worker in (limited, full):
            make_job("RUNNING", worker=worker.pk, queue_name="mail", task_path=jobs.give.module_path)

        reasons = told(due(queue_name="mail").pk)

        assert list(reasons) == ["busy", "limit"]
        assert f"full #{full.pk}" in reasons["busy"]
        assert f"limited #{limited.pk}" in reasons["limit"]

    def test_threads_and_places_for_coroutines_are_told_apart(self, due, make_job, make_worker):
        worker = make_worker(**FREE | {"threads": 1})
        make_job("RUNNING", worker=worker.pk, task_path=jobs.give.module_path)

        assert list(told(due(task_path=KNOWN).pk)) == ["busy"]
        assert "busy" not in told(due(task_path=jobs.agive.module_path).pk)

    def test_others_come_before_it(self, due, make_worker):
        make_worker(**FREE)
        long_ago = timezone.now() - timedelta(hours=1)
        due(priority=9)
        due(run_after=long_ago)
        due(priority=-9, run_after=long_ago)
        due(priority=9, run_after=timezone.now() + timedelta(hours=1))
        due(queue_name="other", run_after=long_ago)

        reasons = told(due().pk)

        assert list(reasons) == ["behind"]
        assert reasons["behind"].startswith("2 due jobs of its queue come before it")

    def test_counting_those_stops_at_its_limit(self, due, make_worker, monkeypatch):
        monkeypatch.setattr(explaining, "COUNTED", 3)
        monkeypatch.setattr("django_jobs.dashboard.shown.COUNTED", 3)
        make_worker(**FREE)
        for _ in range(6):
            due()

        assert told(due().pk)["behind"].startswith("3+ due jobs")

    def test_several_causes_are_all_told(self, make_job):
        job = make_job("SCHEDULED", queue_name="mail")
        Queue.objects.create(name="mail", paused_at=timezone.now())

        assert list(told(job.pk)) == ["not-due", "paused", "no-worker"]


@pytest.mark.django_db(transaction=True)
class TestOpenTransactions:
    @pytest.fixture
    def other(self):
        """A second connection, in a transaction."""
        found = connection.copy()
        found.ensure_connection()
        found.set_autocommit(False)
        yield found
        found.rollback()
        found.close()

    def test_one_has_the_row(self, due, make_worker, other):
        make_worker(**FREE)
        job = due()
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid() FROM django_jobs_job WHERE id = %s FOR UPDATE", [job.pk])
            pid = cursor.fetchone()[0]

        reasons = told(job.pk)
        other.rollback()

        assert f"session {pid}" in reasons["locked"]
        assert f"SELECT pg_terminate_backend({pid})" in reasons["locked"]
        assert list(told(job.pk)) == ["any-moment"]

    def test_one_enqueued_it_and_is_not_committed(self, due, other):
        row = due()
        with other.cursor() as cursor:
            cursor.execute(
                "INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt,"
                " uncounted, meta) VALUES ('q', 't', '[]', '{}', 0, 'READY', 0, 0, '{}')"
                " RETURNING id, pg_backend_pid()"
            )
            job_id, pid = cursor.fetchone()

        found = explain("default", job_id)

        assert job_id > row.pk
        assert not found.exists
        [reason] = found.reasons
        assert reason.key == "uncommitted"
        assert f"session {pid}" in reason.remedy

    def test_a_job_that_is_gone_is_gone(self, due):
        job = due()
        Job.objects.all().delete()

        assert list(told(job.pk)) == ["absent"]
        assert list(told(job.pk + 1_000_000)) == ["unheard-of"]

    def test_a_number_above_all_numbers_is_no_job(self):
        assert list(told(2**63 - 1)) == ["unheard-of"]


class TestOthers:
    def test_a_job_that_runs_tells_where(self, make_job, make_worker):
        worker = make_worker(**FREE)

        reasons = told(make_job("RUNNING", worker=worker.pk).pk)

        assert reasons["running"].startswith(f"It is running on worker w #{worker.pk}, for ")

    def test_one_that_was_asked_to_stop_says_so(self, make_job, make_worker):
        worker = make_worker(**FREE)
        job = make_job("RUNNING", worker=worker.pk, cancel_requested_at=timezone.now())

        assert "It was asked to stop." in told(job.pk)["stopping"]

    @pytest.mark.parametrize("columns", [{"state": "LOST"}, {"silent": 600}])
    def test_its_worker_is_dead_and_it_is_not_rescued_yet(self, make_job, make_worker, columns):
        job = make_job("RUNNING", worker=make_worker(**columns).pk)

        assert "No other worker lives that could take it over" in told(job.pk)["worker-dead"]
        make_worker(**FREE)
        assert "A live worker takes it over within seconds." in told(job.pk)["worker-dead"]

    def test_a_worker_without_a_row_is_dead(self, make_job):
        assert "Its worker #77 is dead" in told(make_job("RUNNING", worker=77).pk)["worker-dead"]

    def test_one_that_waits_for_other_work_says_so(self, make_job):
        assert list(told(make_job("BLOCKED").pk)) == ["blocked"]

    @pytest.mark.parametrize(
        ("state", "remedy"), [("FAILED", True), ("CANCELLED", True), ("SUCCESSFUL", False)]
    )
    def test_one_that_has_ended_says_how(self, make_job, state, remedy):
        reasons = told(make_job(state, reason="No more").pk)

        assert f"It has ended: {state.lower()}. No more" in reasons["ended"]
        assert ("Retry it." in reasons["ended"]) is remedy

    def test_a_database_that_is_busy_is_an_answer(self, due, monkeypatch):
        monkeypatch.setattr("django_jobs.dashboard.explaining.hurried", lambda alias, read: None)

        assert list(told(due().pk)) == ["busy"]


class TestPage:
    def test_a_waiting_job_says_why(self, viewer, due):
        page = viewer.get(detail(due())).content.decode()

        assert "Why isn’t it running?" in page
        assert "No worker lives." in page

    @pytest.mark.parametrize("state", ["RUNNING", "FAILED", "SUCCESSFUL", "CANCELLED"])
    def test_one_that_runs_or_has_ended_does_not(self, viewer, make_job, make_worker, state):
        job = make_job(state)
        make_worker(id=1, **FREE)

        assert "Why isn’t it running?" not in viewer.get(detail(job)).content.decode()

    def test_one_whose_worker_died_does(self, viewer, make_job):
        assert "isn’t rescued yet" in viewer.get(detail(make_job("RUNNING"))).content.decode()


class TestCost:
    def test_it_takes_few_statements_however_much_waits(self, due, make_worker, django_assert_num_queries):
        make_worker(**FREE)
        job = due()
        for _ in range(20):
            due(priority=3)

        with (
            transaction.atomic(),
            django_assert_num_queries(8),
        ):  # 4, a savepoint and a limit, both taken back
            explain("default", job.pk)

    def test_no_statement_scans_the_table(self, due):
        with connection.cursor() as cursor:  # with a new file, which no dead rows of other tests are in
            cursor.execute("TRUNCATE django_jobs_job, django_jobs_attempt")
        job = due()
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt,"
                " uncounted, meta, run_after) SELECT 'default', 't', '[]', '{}', 0, 'READY', 0, 0, '{}',"
                " now() + n * interval '1 second' FROM generate_series(1, 20000) AS n"
            )
            cursor.execute("ANALYZE django_jobs_job")
            order = {"id": job.pk, "queue": "default", "priority": 0, "counted": 10_000}
            for text, parameters in ((explaining.JOB, {"id": job.pk}), (explaining.AHEAD, order)):
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {text}", parameters)
                plan = "\n".join(line for (line,) in cursor.fetchall())
                assert "Seq Scan on django_jobs_job" not in plan
                assert [n for n in re.findall(r"Rows Removed by Filter: (\d+)", plan) if int(n) > 100] == []
