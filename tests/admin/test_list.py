"""The list of jobs."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_jobs.dashboard import lists
from django_jobs.dashboard.jobs import JobAdmin
from django_jobs.store import counting
from tests.admin.conftest import JOBS, listed
from tests.jobs import give
from tests.store.test_backlogs import fill
from tests.store.test_plans import nodes

pytestmark = pytest.mark.django_db


def names_proposed(page) -> dict[str, list[str]]:
    """Return what the fields for names propose."""
    lists = re.findall(r'<datalist id="dj-names-(\w+)">(.*?)</datalist>', page.content.decode())
    return {
        name: [unescape(value) for value in re.findall(r'value="([^"]*)"', options)]
        for name, options in lists
    }


class TestColumns:
    def test_a_row_tells_state_queue_task_attempts_age_duration_and_reason(self, admin_client, make_job):
        make_job(
            "FAILED",
            queue_name="mail",
            attempt=3,
            uncounted=1,
            reason="SMTPError: no",
            enqueued_at=timezone.now() - timedelta(minutes=65),
        )

        page = admin_client.get(JOBS).content.decode()

        for shown in (
            "failed",
            "mail",
            "shop.tasks.send_receipt",
            "2/5",
            "1 h 5 min",
            "2.0 s",
            "SMTPError: no",
        ):
            assert shown in page.replace("<wbr>", "")

    def test_the_name_of_a_task_breaks_between_its_words(self, admin_client, make_job):
        make_job(task_path="shop.hooks.__post_webhook")

        page = admin_client.get(JOBS).content.decode()

        assert "shop.<wbr>hooks.__<wbr>post_<wbr>webhook<wbr></span>" in page

    @pytest.mark.parametrize(
        ("state", "label"),
        [
            ("READY", "ready"),
            ("SCHEDULED", "scheduled"),
            ("RETRYING", "retrying"),
            ("RUNNING", "running"),
            ("SUCCESSFUL", "successful"),
            ("FAILED", "failed"),
            ("CANCELLED", "cancelled"),
        ],
    )
    def test_each_state_has_a_word_and_a_mark_of_its_own(self, admin_client, make_job, state, label):
        make_job(state)

        assert f'<span class="dj-badge dj-{label}">{label}</span>' in admin_client.get(JOBS).content.decode()

    def test_newest_jobs_come_first_whatever_order_the_address_asks_for(self, admin_client, make_job):
        jobs = [make_job(queue_name=name).pk for name in ("b", "a", "c")]

        assert listed(admin_client.get(JOBS)) == jobs[::-1]
        assert listed(admin_client.get(f"{JOBS}?o=4")) == jobs[::-1]

    def test_a_long_reason_is_cut(self, admin_client, make_job):
        make_job("FAILED", reason="x" * 5000)

        assert "x" * 200 not in admin_client.get(JOBS).content.decode()


class TestFilters:
    @pytest.mark.parametrize(
        ("choice", "states"),
        [
            ("waiting", {"READY", "SCHEDULED", "RETRYING"}),
            ("ready", {"READY"}),
            ("scheduled", {"SCHEDULED"}),
            ("retrying", {"RETRYING"}),
            ("running", {"RUNNING"}),
            ("successful", {"SUCCESSFUL"}),
            ("failed", {"FAILED"}),
            ("cancelled", {"CANCELLED"}),
            ("blocked", {"BLOCKED"}),
            ("nonsense", set()),
        ],
    )
    def test_a_state_shows_its_jobs_and_no_others(self, admin_client, make_job, choice, states):
        names = ("READY", "SCHEDULED", "RETRYING", "RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED", "BLOCKED")
        jobs = {name: make_job(name).pk for name in names}

        assert set(listed(admin_client.get(f"{JOBS}?state={choice}"))) == {jobs[state] for state in states}

    def test_states_tell_how_many_there_are(self, admin_client, make_job):
        for state in ("READY", "SCHEDULED", "RETRYING", "RUNNING", "SUCCESSFUL", "FAILED", "FAILED"):
            make_job(state)

        page = admin_client.get(JOBS).content.decode()

        counts = ("waiting (all below) · 3", "ready (due) · 1", "running · 1", "successful · 1", "failed · 2")
        for words in (*counts, "cancelled · 0"):
            assert words in page

    def test_more_than_is_counted_is_shown_as_an_estimate(self, admin_client, make_job, monkeypatch):
        monkeypatch.setattr(counting, "COUNTED", 2)
        monkeypatch.setattr(counting, "SAMPLED", 10**9)
        for state in ("READY", "SUCCESSFUL", "FAILED", "CANCELLED"):
            for _ in range(4):
                make_job(state)

        page = admin_client.get(JOBS).content.decode()

        for words in ("ready (due) · ≈\xa04", "failed · ≈\xa04", "cancelled · ≈\xa04", "successful · ≈\xa04"):
            assert words in page

    def test_a_job_that_was_only_snoozed_is_scheduled_not_retrying(self, admin_client, make_job):
        job = make_job("RETRYING", attempt=3, uncounted=3)

        assert listed(admin_client.get(f"{JOBS}?state=scheduled")) == [job.pk]
        assert listed(admin_client.get(f"{JOBS}?state=retrying")) == []

    def test_queue_task_and_times_can_be_combined(self, admin_client, make_job):
        long_ago = timezone.now() - timedelta(days=3)
        wanted = make_job("FAILED", queue_name="mail", task_path="a.b")
        make_job("FAILED", queue_name="mail", task_path="a.c")
        make_job("FAILED", queue_name="web", task_path="a.b")
        make_job("FAILED", queue_name="mail", task_path="a.b", enqueued_at=long_ago)
        make_job("FAILED", queue_name="mail", task_path="a.b", finished_at=long_ago)

        page = admin_client.get(f"{JOBS}?state=failed&queue=mail&task=a.b&enqueued=1h&finished=24h")

        assert listed(page) == [wanted.pk]

    def test_waiting_jobs_of_one_queue_are_found(self, admin_client, make_job):
        wanted = [make_job(queue_name="mail", priority=priority).pk for priority in (5, 0, -5)]
        make_job(queue_name="web")

        assert listed(admin_client.get(f"{JOBS}?state=waiting&queue=mail")) == wanted[::-1]

    @pytest.mark.parametrize("state", ["waiting", "ready", "scheduled"])
    def test_jobs_that_wait_are_looked_up_by_id_where_the_planner_believes_that_few_do(
        self, admin_client, state
    ):
        """As after a burst, until the statistics are renewed: each was looked for among all of them."""
        plans: list[dict[str, Any]] = []

        def explaining(execute, sql, params, many, context):
            if "ARRAY" in sql:
                execute(f"EXPLAIN (FORMAT JSON) {sql}", params, many, context)
                [[[found]]] = context["cursor"].fetchall()
                plans.extend(nodes(found["Plan"]))
            return execute(sql, params, many, context)

        with connection.cursor() as cursor:
            fill(cursor, finished=True)
            cursor.execute("ANALYZE django_jobs_job")
            fill(cursor, ahead=24 if state == "scheduled" else 0)

        with connection.execute_wrapper(explaining):
            page = admin_client.get(f"{JOBS}?state={state}")

        assert len(listed(page)) == JobAdmin.list_per_page
        assert "django_jobs_job_pkey" in {plan.get("Index Name") for plan in plans}
        assert not [plan for plan in plans if " = ANY" in plan.get("Filter", "")]

    def test_choices_come_from_jobs_workers_figures_and_known_tasks(
        self, admin_client, make_job, make_worker, put
    ):
        make_job(queue_name="with-a-job", task_path="of.a.job")
        make_job("FAILED", queue_name="with-a-failed-job", task_path="of.a.failed.job")
        make_worker(queues=["served"], tasks=["known.to.a.worker"])

        put(queue="with-figures", task="with.figures", completed=1)

        names = names_proposed(admin_client.get(JOBS))

        assert {"with-a-job", "with-a-failed-job", "served", "with-figures"} <= set(names["queue"])
        assert {"of.a.job", "of.a.failed.job", "known.to.a.worker", "with.figures"} <= set(names["task"])
        assert give.module_path in names["task"]

    def test_some_names_are_links_and_all_are_proposed_by_a_field_that_works_without_script(
        self, admin_client, make_job
    ):
        for number in range(40):
            make_job(queue_name=f"q{number:02}")

        page = admin_client.get(f"{JOBS}?task=shop.tasks.send_receipt")

        content = page.content.decode()
        assert len(re.findall(r'href="\?[^"]*queue=q\d', content)) < 40
        assert {f"q{number:02}" for number in range(40)} <= set(names_proposed(page)["queue"])
        forms = re.findall(r'<form method="get" class="dj-written">.*?</form>', content, re.DOTALL)
        [form] = [form for form in forms if '<input type="search" name="queue"' in form]
        assert 'list="dj-names-queue"' in form
        assert 'aria-label="queue"' in form
        assert '<input type="hidden" name="task" value="shop.tasks.send_receipt">' in form
        assert len(listed(admin_client.get(JOBS, {"task": "shop.tasks.send_receipt", "queue": "q39"}))) == 1
        assert len(listed(admin_client.get(JOBS, {"queue": "", "task": ""}))) == 40  # left empty

    def test_a_name_in_the_address_that_nobody_knows_is_still_a_filter(self, admin_client, make_job):
        make_job()

        page = admin_client.get(f"{JOBS}?queue=unheard-of")

        assert listed(page) == []
        assert "unheard-of" in page.content.decode()

    @pytest.mark.parametrize(
        "lookup",
        ["kwargs__contains=x", "args__startswith=x", "meta__a=1", "return_value=1", "reason__contains=x"],
    )
    def test_nobody_can_guess_arguments_by_filtering(self, admin_client, make_job, lookup):
        make_job()

        assert admin_client.get(f"{JOBS}?{lookup}").status_code == 400

    def test_text_with_a_nul_finds_nothing(self, admin_client, make_job):
        make_job()

        assert listed(admin_client.get(f"{JOBS}?task=a%00b&queue=%00")) == []


class TestSearch:
    def test_an_id_finds_its_job(self, admin_client, make_job):
        jobs = [make_job().pk for _ in range(3)]

        assert listed(admin_client.get(f"{JOBS}?q={jobs[1]}")) == [jobs[1]]

    def test_an_id_that_no_database_could_hold_finds_nothing(self, admin_client, make_job):
        make_job()

        assert listed(admin_client.get(f"{JOBS}?q={10**30}")) == []

    def test_a_task_is_found_whole_and_by_its_beginning(self, admin_client, make_job):
        job = make_job(task_path="shop.tasks.send")
        make_job(task_path="other.tasks.send")

        assert listed(admin_client.get(f"{JOBS}?q=shop.tasks.send")) == [job.pk]
        assert listed(admin_client.get(f"{JOBS}?q=shop.")) == [job.pk]
        assert listed(admin_client.get(f"{JOBS}?q=tasks.send")) == []

    def test_a_queue_is_found_by_its_whole_name(self, admin_client, make_job):
        job = make_job(queue_name="mail")
        make_job(queue_name="mailing")

        assert listed(admin_client.get(f"{JOBS}?q=mail")) == [job.pk]

    def test_its_box_proposes_the_names_that_the_filters_do(self, admin_client, make_job):
        make_job(queue_name="mail", task_path="of.a.job")

        names = names_proposed(admin_client.get(JOBS))

        assert {"mail", "of.a.job"} <= set(names["q"])
        assert set(names["q"]) == {*names["queue"], *names["task"]}

    def test_its_box_keeps_the_other_filters(self, admin_client, make_job):
        wanted = make_job("FAILED", queue_name="mail")
        make_job(queue_name="mail")

        page = admin_client.get(f"{JOBS}?state=failed&q=mail")

        assert listed(page) == [wanted.pk]
        [form] = re.findall(r'<form id="changelist-search".*?</form>', page.content.decode(), re.DOTALL)
        assert 'name="q" value="mail"' in form
        assert '<input type="hidden" name="state" value="failed">' in form
        assert 'name="q" value="mail"' not in form.partition("hidden")[2]


class TestReach:
    """What keeps the list fast, with limits small enough to be met by a few rows."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(lists, "REACH", 5)
        monkeypatch.setattr(lists, "COUNTED", 8)

    def test_counting_stops_at_its_limit_and_says_so(self, admin_client, make_job):
        jobs = [make_job().pk for _ in range(10)]

        page = admin_client.get(JOBS)

        assert page.context["cl"].result_count == 8
        assert "There are more: the list ends after 8." in page.content.decode()
        assert "8+ results" in page.content.decode()
        assert listed(page)[0] == jobs[-1]

    def test_a_filter_without_an_index_looks_at_the_newest_jobs_and_says_so(self, admin_client, make_job):
        old = make_job(task_path="rare")
        for _ in range(5):
            make_job()

        page = admin_client.get(f"{JOBS}?task=rare")

        assert listed(page) == []
        assert "Only the newest 5 jobs were looked through." in page.content.decode()
        assert listed(admin_client.get(f"{JOBS}?q={old.pk}&task=rare")) == [old.pk]

    def test_failed_jobs_are_looked_through_among_themselves(self, admin_client, make_job):
        failed = make_job("FAILED", task_path="rare")
        for _ in range(9):
            make_job()

        page = admin_client.get(f"{JOBS}?state=failed&task=rare")

        assert listed(page) == [failed.pk]
        assert "looked through" not in page.content.decode()

    def test_every_failed_job_is_on_the_list_without_further_filters(self, admin_client, make_job):
        failed = make_job("FAILED")
        for _ in range(9):
            make_job("SUCCESSFUL")

        assert listed(admin_client.get(f"{JOBS}?state=failed")) == [failed.pk]

    @pytest.mark.parametrize(
        "filters", ["", "?task=x", "?state=failed", "?state=failed&task=x", "?q=shop", "?enqueued=1h"]
    )
    def test_every_statement_on_jobs_has_a_limit_or_a_lowest_id(
        self, admin_client, make_job, filters, monkeypatch
    ):
        monkeypatch.setattr(JobAdmin, "list_per_page", 3)
        for _ in range(10):
            make_job("FAILED", task_path="shop.x")

        with CaptureQueriesContext(connection) as captured:
            admin_client.get(f"{JOBS}{filters}")

        on_jobs = [query["sql"] for query in captured.captured_queries if "django_jobs_job" in query["sql"]]
        assert len(on_jobs) >= 3
        for sql in on_jobs:
            assert "LIMIT" in sql or '"django_jobs_job"."id" >' in sql, sql
            assert "DISTINCT" not in sql


def test_a_page_beyond_the_end_leads_back_to_the_list(admin_client, make_job):
    make_job()

    assert admin_client.get(f"{JOBS}?p=99&all=x").status_code in (200, 302)
