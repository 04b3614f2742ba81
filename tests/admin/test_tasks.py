"""The page of tasks, and the form that runs one by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Literal

import pytest
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.admin.utils import quote
from django.test import override_settings

from django_jobs import task
from django_jobs.models import Job
from tests.admin.conftest import EVIL, JOBS, TASKS, detail, texts
from tests.jobs import give

pytestmark = pytest.mark.django_db


@task(queue_name="mail", priority=7, max_attempts=3, timeout=timedelta(minutes=2))
def typed(number: int, text: str, share: float, flag: bool, size: Literal["s", "m"], note: str | None):
    """
    Take one of each.

    And more words.
    """


@task(takes_context=True)
def defaults(context: Any, number: int = 7, text: str = "usual", flag: bool = True, size: int | None = None):
    """Take nothing that must be given."""


@task
def loose(first, *rest, option: dict[str, Any], **more: Any):
    """Have few annotations."""


@task
def placed(a: int = 1, b: int = 2, /, c: int = 3, *rest: int):
    """Have arguments by their place."""


@task(encoding="rich")
def rich(day: date, price: Decimal):
    """Take more than JSON has."""


@task
def sign_in(user: str, password: str = "hunter2"):
    """Have a secret."""


@task
def odd(value: Sequence["NoSuchType"]):  # type: ignore[name-defined]  # noqa: F821, UP037
    """Have an annotation that can't be found."""


def run(of):
    return f"{TASKS}run/{quote(of.module_path)}/"


def given(**arguments):
    return {f"argument-{name}": value for name, value in arguments.items()}


def enqueued(client, of, **arguments):
    """Return the one job that was made."""
    done = client.post(run(of), given(**arguments))
    assert done.status_code == 302, done.context["question"].form.errors
    return Job.objects.get()


TYPED = {"number": "7", "text": " a ", "share": "0.5", "flag": "on", "size": "m", "note": ""}


class TestList:
    def test_it_tells_the_options_of_each_task_and_what_became_of_it(self, admin_client, put):
        put(task=typed.module_path, queue="mail", completed=3, failed=1, lengths=[(1.0, 1.0)])

        page = admin_client.get(TASKS)

        [row] = [row for row in page.context["tasks"] if row["plain_name"] == typed.module_path]
        assert (row["queue"], row["priority"], row["attempts"], row["timeout"]) == ("mail", 7, 3, "2 min 0 s")
        assert (row["ended"], row["failed"], row["share"]) == ("4", "1", "25.0 %")
        assert row["signature"] == (
            "(number: int, text: str, share: float, flag: bool, size: Literal['s', 'm'], note: str | None)"
        )
        content = page.content.decode()
        assert f"{JOBS}?task={typed.module_path}" in content
        assert run(typed) in content

    def test_what_a_task_leaves_to_the_settings_is_theirs(self, admin_client):
        with override_settings(DJANGO_JOBS={"max_attempts": None, "timeout": timedelta(seconds=9)}):
            rows = admin_client.get(TASKS).context["tasks"]

        [row] = [row for row in rows if row["plain_name"] == loose.module_path]
        assert (row["attempts"], row["timeout"]) == ("∞", "9.0 s")

    def test_it_tells_of_the_last_hour_by_a_small_chart(self, admin_client, put):
        put(task=give.module_path, seconds=(60,), completed=9, failed=1, enqueued=50)

        page = admin_client.get(TASKS)

        [row] = [row for row in page.context["tasks"] if row["plain_name"] == give.module_path]
        assert row["spark"].says == "Last hour: 10 ended, 1 failed (10.0 %)"
        assert len(row["spark"].bars) == 1
        assert not row["spark"].line
        assert 'aria-label="Last hour: 10 ended, 1 failed (10.0 %)"' in page.content.decode()

    def test_it_renews_itself(self, admin_client):
        page = admin_client.get(TASKS).content.decode()

        assert 'data-dj-live="dj-live"' in page
        assert page.count('id="dj-live"') == 1

    def test_it_answers_nothing_but_get(self, admin_client):
        assert admin_client.post(TASKS).status_code == 405


class TestForm:
    def test_each_annotation_has_its_field(self, admin_client):
        page = admin_client.get(run(typed))

        fields = page.context["question"].form.fields
        assert {name: type(field).__name__ for name, field in fields.items()} == {
            "number": "IntegerField",
            "text": "CharField",
            "share": "FloatField",
            "flag": "BooleanField",
            "size": "TypedChoiceField",
            "note": "CharField",
        }
        assert "Take one of each." in page.content.decode()
        assert "And more words." not in page.content.decode()

    def test_what_is_written_is_enqueued_and_who_did_is_kept(self, admin_client, admin_user):
        job = enqueued(admin_client, typed, **TYPED)

        assert job.kwargs == {
            "number": 7,
            "text": " a ",
            "share": 0.5,
            "flag": True,
            "size": "m",
            "note": None,
        }
        assert (job.queue_name, job.priority, job.max_attempts) == ("mail", 7, 3)
        assert job.meta == {"enqueued_by": admin_user.get_username()}
        entry = LogEntry.objects.get()
        assert (entry.user, entry.object_id, entry.action_flag) == (admin_user, str(job.pk), ADDITION)

    def test_it_leads_to_the_job(self, admin_client):
        done = admin_client.post(run(typed), given(**TYPED), follow=True)

        job = Job.objects.get()
        assert done.redirect_chain == [(detail(job), 302)]
        assert texts(done) == [f"Enqueued {job}."]

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"number": "x"}, "number"),
            ({"number": ""}, "number"),
            ({"share": "-"}, "share"),
            ({"size": "l"}, "size"),
        ],
    )
    def test_what_does_not_fit_is_told_and_not_enqueued(self, admin_client, wrong, field):
        page = admin_client.post(run(typed), given(**TYPED | wrong))

        assert list(page.context["question"].form.errors) == [field]
        assert 'class="errorlist"' in page.content.decode()
        assert not Job.objects.exists()

    def test_what_is_left_empty_is_left_to_the_task(self, admin_client):
        job = enqueued(admin_client, defaults, flag="on")

        assert (job.args, job.kwargs) == ([], {"flag": True})
        page = admin_client.get(run(defaults)).content.decode()
        assert "Left empty: 7" in page
        assert "Left empty: &#x27;usual&#x27;" in page
        assert "context" not in page.partition('id="content-main"')[2].partition("<form")[2]

    def test_a_box_that_is_not_ticked_says_no(self, admin_client):
        assert enqueued(admin_client, defaults, number="8").kwargs == {"number": 8, "flag": False}

    def test_everything_else_is_json(self, admin_client):
        job = enqueued(
            admin_client, loose, first="[1, null]", rest='["a", 2]', option='{"x": 1.5}', more='{"y": true}'
        )

        assert job.args == [[1, None], "a", 2]
        assert job.kwargs == {"option": {"x": 1.5}, "y": True}

    def test_no_field_says_null_before_someone_does(self, admin_client):
        assert ">\nnull" not in admin_client.get(run(loose)).content.decode()
        job = enqueued(admin_client, loose, first="null", option="[]", rest="", more="")
        assert (job.args, job.kwargs) == ([], {"first": None, "option": []})

    @pytest.mark.parametrize("wrong", [{"rest": "{}"}, {"more": "[]"}, {"option": "{x"}, {"first": ""}])
    def test_json_that_does_not_fit_is_told(self, admin_client, wrong):
        arguments = {"first": "1", "rest": "", "option": "{}", "more": ""} | wrong

        page = admin_client.post(run(loose), given(**arguments))

        assert list(page.context["question"].form.errors) == list(wrong)
        assert not Job.objects.exists()

    def test_what_is_given_by_its_place_keeps_it(self, admin_client):
        assert enqueued(admin_client, placed, b="5").args == [1, 5]
        Job.objects.all().delete()
        assert enqueued(admin_client, placed, rest="[9]").args == [1, 2, 3, 9]
        Job.objects.all().delete()
        assert enqueued(admin_client, placed, c="4").kwargs == {"c": 4}

    def test_a_task_that_takes_more_than_json_is_given_it(self, admin_client):
        job = enqueued(admin_client, rich, day="2026-05-01", price="9.90")

        assert job.kwargs == {
            "day": {"$type": "date", "value": "2026-05-01"},
            "price": {"$type": "decimal", "value": "9.90"},
        }

    def test_a_secret_is_neither_shown_nor_echoed(self, admin_client):
        page = admin_client.get(run(sign_in)).content.decode()

        assert "hunter2" not in page + admin_client.get(TASKS).content.decode()
        assert 'type="password"' in page

    def test_an_annotation_that_can_not_be_found_is_json(self, admin_client):
        assert enqueued(admin_client, odd, value="[1]").kwargs == {"value": [1]}

    def test_what_the_task_can_not_be_given_is_told(self, admin_client):
        huge = "x" * 200
        with override_settings(DJANGO_JOBS={"max_argument_bytes": 100}):
            page = admin_client.post(run(typed), given(**TYPED | {"text": huge}))

        assert "errorlist" in page.content.decode()
        assert not Job.objects.exists()
        assert not LogEntry.objects.exists()

    def test_what_was_written_is_escaped(self, admin_client):
        page = admin_client.post(run(typed), given(**TYPED | {"text": EVIL, "number": "x"})).content.decode()

        assert "<script>alert" not in page

    @pytest.mark.parametrize("name", ["no.such.task", EVIL, "os.system"])
    def test_nothing_but_a_known_task_can_be_run(self, admin_client, name):
        assert admin_client.post(f"{TASKS}run/{quote(name)}/").status_code == 404


class TestPermissions:
    def test_seeing_and_running_have_each_their_own(self, client_of):
        viewer, other = client_of("view_knowntask"), client_of("view_job", "add_job", "run_job", "run_task")

        page = viewer.get(TASKS)
        assert page.status_code == 200
        for address in (run(typed), JOBS):
            assert address not in page.content.decode()
        for client in (viewer, other):
            assert client.get(run(typed)).status_code == 403
            assert client.post(run(typed), given(**TYPED)).status_code == 403
        assert other.get(TASKS).status_code == 403
        assert not Job.objects.exists()

    def test_with_both_it_runs_and_leads_back_to_the_tasks(self, client_of):
        done = client_of("view_knowntask", "run_task").post(run(typed), given(**TYPED))

        assert done.url == TASKS
        assert Job.objects.count() == 1

    def test_no_get_enqueues_anything(self, admin_client):
        admin_client.get(run(typed), given(**TYPED))

        assert not Job.objects.exists()
