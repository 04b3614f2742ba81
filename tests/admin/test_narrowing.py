"""Filters by worker, priority, exception, tag, and by a value in arguments or meta."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import override_settings

from django_jobs import task
from django_jobs.dashboard import confirming, hurried, in_time
from django_jobs.models import Attempt, Job
from django_jobs.store import counting, values
from tests.admin.conftest import EVIL, JOBS, listed

pytestmark = pytest.mark.django_db


@task
def ship(order_id, parcel=None):
    """A task without a sensitive parameter."""


@task
def sign_in(user, password):
    """A task with one."""


SHIP, SIGN_IN = ship.module_path, sign_in.module_path


def found(client, **query):
    return listed(client.get(f"{JOBS}?{urlencode(query)}"))


class TestFilters:
    def test_by_worker(self, admin_client, make_job, make_worker):
        mine, other = make_worker(name="mine"), make_worker()
        wanted = [make_job(state, worker=mine.pk).pk for state in ("RUNNING", "SUCCESSFUL", "FAILED")]
        make_job("RUNNING", worker=other.pk)

        page = admin_client.get(f"{JOBS}?worker={mine.pk}")

        assert listed(page) == wanted[::-1]
        assert f"mine #{mine.pk}" in page.content.decode()

    def test_names_of_workers_are_for_who_may_see_them(self, client_of, make_worker):
        make_worker(name="secret-name")

        assert "secret-name" not in client_of("view_job").get(JOBS).content.decode()

    def test_by_priority(self, admin_client, make_job):
        low, usual, high = (make_job(priority=priority).pk for priority in (-1, 0, 1))

        assert found(admin_client, level="high") == [high]
        assert found(admin_client, level="usual") == [usual]
        assert found(admin_client, level="low") == [low]
        assert found(admin_client, level="x") == []

    def test_by_the_exception_of_any_run(self, admin_client, make_job):
        wanted, other, _fine = make_job("FAILED"), make_job("FAILED"), make_job("SUCCESSFUL")
        for job, name in ((wanted, "shop.Down"), (wanted, "shop.Late"), (other, "shop.Late")):
            number = job.attempts.count() + 1
            Attempt.objects.create(job=job, number=number, exception_class=name)

        page = admin_client.get(f"{JOBS}?exception=shop.Down")

        assert listed(page) == [wanted.pk]
        assert "shop.Late" in page.content.decode()  # to choose from
        assert found(admin_client, exception="shop.Late") == [other.pk, wanted.pk]
        assert found(admin_client, exception="shop.Late", state="successful") == []

    def test_by_tag(self, admin_client, make_job):
        wanted = make_job(meta={"tags": ["vip", "eu"]})
        make_job(meta={"tags": ["vipp"]})
        make_job(meta={"tags": "vip in a text"})
        make_job(meta={"tag": "vip"})

        assert found(admin_client, tag="vip") == [wanted.pk]

    @pytest.mark.parametrize("name", ["worker", "level", "exception", "tag", "value"])
    @pytest.mark.parametrize("value", ["\0", EVIL, "9" * 40, "a=\0", "=", "%s", "\\"])
    def test_nothing_that_is_given_breaks_the_page(self, admin_client, make_job, name, value):
        make_job(args=[1], kwargs={"a": 1})

        page = admin_client.get(f"{JOBS}?{urlencode({name: value})}")

        assert page.status_code == 200
        assert listed(page) == []
        assert "<script>alert" not in page.content.decode()


class TestValues:
    def test_a_keyword_argument_is_found_by_its_name(self, admin_client, make_job):
        wanted = make_job(kwargs={"order": 7})
        make_job(kwargs={"order": 77})
        make_job(kwargs={"other": 7})
        make_job(kwargs={"nested": {"order": 7}})

        assert found(admin_client, value="order=7") == [wanted.pk]
        assert found(admin_client, value=" order = 7 ") == [wanted.pk]

    def test_a_positional_one_is_found_by_the_name_that_its_task_gives_it(self, admin_client, make_job):
        wanted = make_job(task_path=SHIP, args=[7, 8])
        make_job(task_path=SHIP, args=[8, 7])
        make_job(task_path="unknown.task", args=[7])

        assert found(admin_client, value="order_id=7") == [wanted.pk]

    def test_meta_is_found_by_its_name(self, admin_client, make_job):
        wanted = make_job(meta={"customer": "ada"})
        make_job(meta={"other": "ada"})

        assert found(admin_client, value="customer=ada") == [wanted.pk]

    def test_a_value_alone_is_found_wherever_it_stands(self, admin_client, make_job):
        wanted = [
            make_job(kwargs={"x": "ada"}).pk,
            make_job(meta={"y": "ada"}).pk,
            make_job(task_path=SHIP, args=["z", "ada"]).pk,
        ]
        make_job(kwargs={"ada": "x"})
        make_job(kwargs={"x": "ada lovelace"})

        assert found(admin_client, value="ada") == wanted[::-1]

    @pytest.mark.parametrize(
        "value", ['say "no"', "a\\b", "two\nlines", "ünï ☃ 😀", "50 %", "true", "2.5", "'"]
    )
    def test_any_value_is_found_as_it_was_given(self, admin_client, make_job, value):
        given = {"true": True, "2.5": 2.5}.get(value, value)
        wanted = [make_job(kwargs={"x": given}).pk, make_job(meta={"y": given}).pk]

        assert found(admin_client, value=value) == wanted[::-1]
        assert found(admin_client, value=f"x={value}") == wanted[:1]

    def test_what_is_masked_can_not_be_guessed(self, admin_client, make_job):
        make_job(kwargs={"api-key": "k-1", "PASSWORD": "k-1"}, meta={"my_token": "k-1"})
        make_job(task_path=SIGN_IN, args=["ada", "k-1"])
        make_job(task_path="unknown.task", args=["k-1"])

        for value in ("k-1", "api-key=k-1", "PASSWORD=k-1", "my_token=k-1", "password=k-1"):
            assert found(admin_client, value=value) == [], value
        with override_settings(DJANGO_JOBS={"sensitive_names": []}):
            assert len(found(admin_client, value="k-1")) == 2
            assert len(found(admin_client, value="password=k-1")) == 1

    def test_values_that_postgresql_can_not_decode_break_nothing(self, admin_client, make_job):
        wanted = make_job(kwargs={"x": "7"})
        odd = make_job()
        for text in (r'{"x": "a\u0000b"}', r'{"x": "\ud800"}', "[7]", "7"):
            with_text(odd, text)
            assert found(admin_client, value="7") == [wanted.pk]
            assert found(admin_client, value="x=7") == [wanted.pk]

    def test_only_who_may_see_arguments_may_look_for_them(self, client_of, make_job):
        job = make_job(kwargs={"order": 7})
        viewer = client_of("view_job")

        assert found(viewer, value="order=7") == []
        assert 'name="value"' not in viewer.get(JOBS).content.decode()
        assert found(client_of("view_job", "view_arguments"), value="order=7") == [job.pk]

    def test_an_action_on_all_that_match_means_those(self, admin_client, make_job):
        wanted = make_job("FAILED", kwargs={"order": 7})
        make_job("FAILED", kwargs={"order": 8})
        data = {"action": "retry_jobs", "select_across": "1", "_selected_action": "0", "confirmed": "yes"}

        admin_client.post(f"{JOBS}?value=order%3D7", data)

        assert list(Job.objects.filter(state="READY")) == [wanted]

    def test_an_action_of_someone_who_may_not_look_for_values_means_none(self, client_of, make_job):
        make_job("FAILED", kwargs={"order": 7})
        data = {"action": "retry_jobs", "select_across": "1", "_selected_action": "0", "confirmed": "yes"}

        client_of("view_job", "retry_job").post(f"{JOBS}?value=order%3D7", data)

        assert not Job.objects.filter(state="READY").exists()


def with_text(job, text):
    """Write arguments that this package doesn't."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_jobs_job SET kwargs = %s::json WHERE id = %s", [text, job.pk])


class TestField:
    def test_it_keeps_the_other_filters_and_can_be_emptied(self, admin_client, make_job):
        make_job(kwargs={"order": 7})

        page = admin_client.get(f"{JOBS}?state=ready&value=order%3D7").content.decode()

        assert '<input type="hidden" name="state" value="ready">' in page
        assert 'name="value" value="order=7"' in page
        assert 'href="?state=ready">All</a>' in page

    def test_filters_that_are_not_used_are_folded(self, admin_client):
        page = admin_client.get(f"{JOBS}?tag=vip").content.decode()

        assert '<details data-filter-title="tag" open>' in page
        assert '<details data-filter-title="value">' in page
        assert '<details data-filter-title="worker">' in page


@pytest.mark.django_db(transaction=True)
def test_a_list_that_takes_too_long_is_given_up_and_says_so(admin_client, monkeypatch):
    monkeypatch.setattr(values, "ANYWHERE", "pg_sleep(%s) IS NULL")
    monkeypatch.setattr(values, "anywhere_params", lambda *given: (5,))
    monkeypatch.setattr(in_time, "PAGE_SECONDS", 0.2)
    Job.objects.create(queue_name="q", task_path="t")

    page = admin_client.get(f"{JOBS}?value=7")

    assert page.status_code == 503
    assert "so it was given up" in page.content.decode()
    assert f'<a href="{JOBS}">The list without filters</a>' in page.content.decode()


def test_a_list_does_without_its_counts_where_these_take_too_long(admin_client, make_job, monkeypatch):
    slow = "SELECT 0, 0, 0, false FROM pg_sleep(5), (SELECT %(counted)s) AS given"
    monkeypatch.setattr(counting, "ENDED", slow)
    monkeypatch.setattr(hurried, "SECONDS", 0.2)
    job = make_job()

    page = admin_client.get(JOBS)

    assert page.status_code == 200
    assert [found.pk for found in page.context["cl"].result_list] == [job.pk]
    assert "scheduled" in page.content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("answered", [{}, {"confirmed": "yes"}], ids=["question", "answer"])
def test_so_is_the_look_for_all_that_an_action_would_change(admin_client, monkeypatch, answered):
    monkeypatch.setattr(values, "ANYWHERE", "pg_sleep(%s) IS NULL")
    monkeypatch.setattr(values, "anywhere_params", lambda *given: (5,))
    monkeypatch.setattr(in_time, "PAGE_SECONDS", 0.2)
    monkeypatch.setattr(confirming, "PAGE_SECONDS", 0.2)
    Job.objects.create(queue_name="q", task_path="t")
    data = {"action": "cancel_jobs", "select_across": "1", "_selected_action": "0", **answered}

    page = admin_client.post(f"{JOBS}?value=7", data)

    assert page.status_code == 503
    assert Job.objects.get().state == "READY"
