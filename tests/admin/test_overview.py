"""The overview: what goes on, how fast, what failed, and what someone should look at."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from django_jobs.dashboard import hurried
from django_jobs.dashboard.surveying import survey
from django_jobs.dashboard.warnings import warnings
from django_jobs.models import Attempt, Queue
from django_jobs.store import health
from django_jobs.store.health import Condition, Holder, Table
from tests.admin.conftest import EVIL, JOBS, OVERVIEW, QUEUES, WORKERS, detail

pytestmark = pytest.mark.django_db

LIVE = {"X-Django-Jobs-Part": "live"}


def shown(client, **query):
    return client.get(OVERVIEW, query).context


class TestStates:
    def test_jobs_are_counted_by_state_and_lead_to_their_lists(self, admin_client, make_job):
        for state in ("READY", "SCHEDULED", "RUNNING", "FAILED", "FAILED", "CANCELLED", "SUCCESSFUL"):
            make_job(state)

        page = admin_client.get(OVERVIEW)

        counts = {part["title"]: part["count"] for part in page.context["states"]}
        assert list(counts.values()) == ["1", "1", "1", "2", "1", "1"]
        for state in ("ready", "waiting", "running", "failed", "cancelled", "successful"):
            assert f"{JOBS}?state={state}" in page.content.decode()

    def test_with_nothing_in_the_tables_every_part_says_so(self, admin_client):
        page = admin_client.get(OVERVIEW).content.decode()

        for words in (
            "No live worker: nothing is run.",
            "manage.py runjobs",
            "Nothing ended in this time.",
            "No queue has a job.",
            "Nothing is due.",
            "No worker lives.",
            "No run has failed lately.",
        ):
            assert words in page


class TestThroughput:
    def test_it_is_told_of_the_last_hour_day_and_week(self, admin_client, put):
        put(completed=54, failed=6)
        put(timedelta(hours=5), (3600,), completed=1380)
        put(timedelta(days=3), (3600,), completed=8640, retried=1)

        hour, day, week = shown(admin_client)["periods"]

        assert (hour["rate"], hour["completed"], hour["failed"]) == ("1.0", "54", "6")
        assert hour["share"] == "10.0 %"
        assert (day["rate"], day["completed"], day["failed"]) == ("1.0", "1,434", "6")
        assert (week["completed"], week["retried"], week["share"]) == ("10,074", "1", "< 0.1 %")

    @pytest.mark.parametrize(
        ("period", "bars", "words"),
        [("hour", 1, "last hour"), ("day", 2, "last 24 hours"), ("week", 3, "last 7")],
    )
    def test_the_chart_is_of_the_period_that_is_chosen(self, admin_client, put, period, bars, words):
        now = timezone.now()
        into_the_hour = timedelta(minutes=now.minute)
        put(seconds=(60,), completed=3, failed=1)
        for ago in (timedelta(0), timedelta(hours=5), timedelta(days=3)):
            put(ago + into_the_hour, (3600,), completed=3, failed=1)

        page = admin_client.get(OVERVIEW, {"period": period})

        chart = page.context["chart"]
        assert len(chart.bars) == bars
        assert [part.key for part in chart.bars[0].parts] == ["completed", "failed"]
        assert [float(part.height) for part in chart.bars[0].parts] == [90.0, 30.0]
        assert chart.says == f"{3 * bars} completed, 0 to be retried, {bars} failed, 0 enqueued"
        assert f"Tasks, {words}" in page.content.decode()

    def test_a_period_that_there_is_not_is_the_last_hour(self, admin_client):
        assert shown(admin_client, period="<b>")["period_words"] == "last hour"

    def test_what_was_enqueued_is_told_and_drawn_as_a_line(self, admin_client, put):
        put(timedelta(minutes=30), enqueued=120, completed=60)

        page = admin_client.get(OVERVIEW)

        hour = page.context["periods"][0]
        assert (hour["enqueued"], hour["rate_in"], hour["rate"]) == ("120", "2.0", "1.0")
        chart = page.context["chart"]
        points = [point.split(",") for point in chart.line.split()]
        assert len(points) == 58  # the latest two minutes aren't counted yet
        assert [y for _x, y in points if y != "120.00"] == ["0.00"]
        assert chart.most == "120"
        assert [part.height for part in chart.bars[0].parts] == ["60.00"]
        assert chart.says.endswith("120 enqueued")
        content = page.content.decode()
        assert '<polyline class="dj-line-enqueued"' in content
        assert "120 enqueued (2.0 a minute)" in content

    def test_where_nothing_was_enqueued_there_is_no_line(self, admin_client, put):
        put(completed=1)

        assert "<polyline" not in admin_client.get(OVERVIEW).content.decode()

    def test_coordinates_are_for_svg_in_every_language(self, admin_client, put):
        put(completed=1)

        page = admin_client.get(OVERVIEW, headers={"accept-language": "de"}).content.decode()

        assert '<rect class="dj-bar-completed" x="945.60" y="0.00" width="12.80" height="120.00"/>' in page


class TestTables:
    def test_a_queue_tells_what_waits_and_how_long_jobs_waited_and_ran(self, admin_client, make_job, put):
        make_job(queue_name="mail", run_after=timezone.now() - timedelta(minutes=5))
        put(completed=4, lengths=[(0.01, 1.0), (0.01, 1.0), (0.01, 1.0), (60.0, 100.0)])

        [row] = shown(admin_client)["queues"]

        assert (row["name"], row["due"], row["ended"], row["failed"]) == ("mail", "1", "4", "0")
        assert row["oldest"].startswith("5 min")
        assert row["wait50"] == "10 ms"
        assert row["wait95"].startswith("1 min")
        assert row["run50"] == "924 ms"
        assert row["run95"] == "2 min 3 s"  # by its class: between 1 min 33 s and 2 min 11 s

    def test_queues_without_jobs_are_left_out_and_paused_ones_are_not(self, admin_client):
        Queue.objects.create(name="quiet")
        Queue.objects.create(name="paused", paused_at=timezone.now())

        assert [row["name"] for row in shown(admin_client)["queues"]] == ["paused"]

    def test_tasks_that_failed_most_come_first(self, admin_client, put):
        put(task="a", completed=100)
        put(task="b", completed=5, failed=2)
        put(task="c", completed=300)
        put(task="", queue="", completed=7)

        rows = shown(admin_client)["tasks"]

        assert [row["ended"] for row in rows] == ["7", "300", "100", "7"]
        assert "b" in rows[0]["name"]
        assert rows[3]["name"] == "others"
        assert (rows[0]["share"], rows[1]["share"]) == ("28.6 %", "0.0 %")

    def test_workers_tell_their_load(self, admin_client, make_worker, make_job):
        worker = make_worker(async_slots=4)
        make_worker(state="STOPPED")
        make_job("RUNNING", worker=worker.pk)

        [row] = shown(admin_client)["workers"]

        assert (row["running"], row["slots"]) == (1, 12)
        assert row["url"] == f"{WORKERS}{worker.pk}/change/"

    def test_a_worker_that_was_asked_to_end_is_marked(self, admin_client, make_worker):
        make_worker(asked_to="DRAIN")
        make_worker(asked_to="STOP", state="STOPPING")

        page = admin_client.get(OVERVIEW).content.decode()

        assert "asked to drain" in page
        assert "asked to stop" in page

    def test_the_longest_due_jobs_are_named(self, admin_client, make_job):
        job = make_job(run_after=timezone.now() - timedelta(hours=2))
        make_job("SCHEDULED")

        [row] = shown(admin_client)["oldest"]

        assert row["url"] == detail(job)
        assert row["waits"].startswith("2 h")

    def test_failures_are_counted_by_exception(self, admin_client, make_job):
        job = make_job("FAILED")
        for number in (1, 2):
            Attempt.objects.create(
                job=job, number=number, exception_class="shop.Down", message="no\nanswer", ended_at=Now()
            )

        page = admin_client.get(OVERVIEW)

        [row] = page.context["failures"]
        assert (row["name"], row["number"], row["message"]) == ("shop.Down", "2", "no")
        assert row["url"] == detail(job)
        assert "Among the newest 1,000 runs" in page.content.decode()


class TestWarnings:
    def told(self, client):
        return {warning.key: f"{warning.says} {warning.remedy}" for warning in shown(client)["warnings"]}

    def test_there_is_none_while_all_is_well(self, admin_client, make_worker, make_job):
        with connection.cursor() as cursor:  # what other tests left behind and took back
            cursor.execute("SELECT pg_stat_reset_single_table_counters('django_jobs_job'::regclass)")
        make_worker(holds_lock=True, tasks=["shop.tasks.send_receipt"])
        make_job()

        assert self.told(admin_client) == {}

    def test_of_a_silent_worker(self, admin_client, make_worker):
        make_worker(silent=95)

        told = self.told(admin_client)

        assert "Nothing has been heard of worker w #" in told["stale"]
        assert "on host for 1 min 35 s" in told["stale"]
        assert "whether process 7 hangs" in told["stale"]
        assert "no-worker" in told

    def test_of_a_queue_that_nobody_serves(self, admin_client, make_worker, make_job):
        make_worker(queues=["mail"])
        make_job(queue_name="reports")

        told = self.told(admin_client)["unserved"]

        assert "Nobody serves the queue “reports”: 1 due" in told
        assert "Start a worker for it with: manage.py runjobs --queue=reports" in told

    def test_of_a_task_that_no_worker_knows(self, admin_client, make_worker, make_job):
        make_worker(tasks=["shop.tasks.other"])
        job = make_job()

        told = self.told(admin_client)["unknown-task"]

        assert f"knows the task shop.tasks.send_receipt: job #{job.pk}" in told
        assert "due for 1 h 0 min" in told

    def test_of_such_a_task_however_many_jobs_have_waited_for_longer(
        self, admin_client, make_worker, make_job
    ):
        make_worker(tasks=["shop.tasks.send_receipt"])
        for priority in range(12):
            make_job(priority=priority, run_after=timezone.now() - timedelta(hours=1))
        make_job(task_path="gone.task", queue_name="other")

        assert "knows the task gone.task" in self.told(admin_client)["unknown-task"]

    def test_of_versions_that_differ(self, admin_client, make_worker):
        make_worker(versions={"django_jobs": "1.0", "python": "3.13"})
        make_worker(versions={"django_jobs": "1.1", "python": "3.13"})

        assert "different versions of django_jobs: 1.0, 1.1." in self.told(admin_client)["versions"]

    def test_of_workers_that_are_not_told_of_jobs(self, admin_client, make_worker):
        make_worker(name="deaf", started_at=timezone.now() - timedelta(minutes=5))
        make_worker(name="young")

        told = self.told(admin_client)["polling"]

        assert "deaf #" in told
        assert "young" not in told
        assert "listen_database" in told

    def test_of_pruning_that_is_behind(self, admin_client, make_job):
        make_job("SUCCESSFUL", expires_at=timezone.now() - timedelta(hours=3))

        assert "a job that expired 3 h 0 min ago is still there" in self.told(admin_client)["pruning"]

    def test_of_dead_rows_and_of_the_transaction_that_keeps_them(self):
        found = survey("default", None, timedelta.max)
        condition = Condition(
            Table(live=1000, dead=300_000, size_bytes=3 * 1024**3),
            expired_seconds=0.0,
            holders=[Holder(4242, "pg_dump", "active", 900.0)],
        )

        told = {warning.key: f"{warning.says} {warning.remedy}" for warning in warnings(found, condition)}

        assert "300,000 dead rows beside 1,000 live ones, and takes 3.0\xa0GB" in told["bloat"]
        assert "4242 (pg_dump, active) has had a transaction open for 15 min 0 s" in told["transaction"]
        assert "SELECT pg_terminate_backend(4242)" in told["transaction"]


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_stays_open_is_found():
    other = connection.copy()
    try:
        with transaction.atomic():
            pass
        other.ensure_connection()
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT txid_current()")
        with connection.cursor() as cursor:
            short = health.condition(cursor, open_for_seconds=3600.0)
            found = health.condition(cursor, open_for_seconds=0.0)
    finally:
        other.rollback()
        other.close()

    assert [holder.state for holder in found.holders] == ["idle in transaction"]
    assert short.holders == []


class TestPart:
    def test_the_live_part_is_served_alone(self, admin_client, make_job):
        make_job("FAILED")

        part = admin_client.get(OVERVIEW, headers=LIVE).content.decode()

        assert "<html" not in part
        assert 'class="dj-summary"' in part
        whole = admin_client.get(OVERVIEW).content.decode()
        assert 'id="dj-live"' in whole
        assert "django_jobs/live.js" in whole

    def test_the_switch_is_hidden_from_browsers_without_script(self, admin_client):
        page = admin_client.get(OVERVIEW).content.decode()

        assert '<form class="dj-live" data-dj-live="dj-live" hidden>' in page

    def test_it_needs_the_permission_too(self, client_of):
        assert client_of("view_job").get(OVERVIEW, headers=LIVE).status_code == 403

    def test_it_answers_nothing_but_get(self, admin_client):
        assert admin_client.post(OVERVIEW).status_code == 405


class TestPermissions:
    def test_it_has_one_of_its_own(self, client_of, make_job, make_worker):
        job = make_job("FAILED", queue_name="mail")
        worker = make_worker()
        Attempt.objects.create(job=job, number=1, exception_class="shop.Down", message="secret words")

        page = client_of("view_overview").get(OVERVIEW).content.decode()

        for address in (JOBS, QUEUES, detail(job), f"{WORKERS}{worker.pk}/"):
            assert address not in page
        assert "shop.Down" in page
        assert "secret words" not in page

    def test_it_stands_on_the_start_page_of_who_has_it(self, client_of):
        assert OVERVIEW in client_of("view_overview").get("/admin/").content.decode()
        assert OVERVIEW not in client_of("view_job").get("/admin/").content.decode()


class TestHurry:
    def slow(self, cursor):
        cursor.execute("SELECT pg_sleep(5)")
        return cursor.fetchall()

    @pytest.mark.django_db(transaction=True)
    def test_a_statement_that_takes_too_long_is_given_up(self, monkeypatch):
        monkeypatch.setattr(hurried, "SECONDS", 0.05)

        assert hurried.hurried("default", self.slow) is None

        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() == ("0",)

    def test_the_request_s_own_transaction_has_its_limit_back(self, monkeypatch):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = '77s'")
            assert hurried.hurried("default", lambda found: 7) == 7
            monkeypatch.setattr(hurried, "SECONDS", 0.05)
            assert hurried.hurried("default", self.slow) is None
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() == ("77s",)

    def test_no_plan_is_compiled_and_later_ones_may_be(self):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL jit = on")
            with hurried.limited("default"):
                cursor.execute("SHOW jit")
                assert cursor.fetchone() == ("off",)
            cursor.execute("SHOW jit")
            assert cursor.fetchone() == ("on",)

    def test_other_errors_are_errors(self):
        with pytest.raises(ZeroDivisionError):
            hurried.hurried("default", lambda cursor: 1 / 0)

    def test_the_page_says_what_is_left_out(self, admin_client, monkeypatch):
        slow = "SELECT 1.0::float8 FROM pg_sleep(5), (SELECT %(beginning)s) AS given"
        monkeypatch.setattr(health, "EXPIRED", slow)
        monkeypatch.setattr(hurried, "SECONDS", 0.5)

        page = admin_client.get(OVERVIEW)

        assert page.status_code == 200
        assert "a part of this page took too long" in page.content.decode()
        assert page.context["states"]


def test_markup_in_figures_is_escaped(admin_client, put):
    put(queue=EVIL, task=EVIL, failed=1)

    page = admin_client.get(OVERVIEW).content.decode()

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
