"""Jobs about an object: on the job's page, in the list, and on the page of the object itself."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import path

from django_jobs.admin import JobsAboutMixin, register
from django_jobs.dashboard import lists
from django_jobs.models import Job
from example_project.shop.models import Order
from tests.admin.conftest import EVIL, JOBS, detail, listed

pytestmark = pytest.mark.django_db

ops, alone, own = (admin.AdminSite(name=name) for name in ("ops", "alone", "own"))


class OrderAdmin(JobsAboutMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    jobs_about_limit = 3


class OwnTemplate(OrderAdmin):
    change_form_template = "own_order.html"


register(ops)
ops.register(Order, OrderAdmin)
alone.register(Order, OrderAdmin)
own.register(Order, OwnTemplate)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("ops/", ops.urls),
    path("alone/", alone.urls),
    path("own/", own.urls),
]

here = override_settings(ROOT_URLCONF=__name__)


@pytest.fixture
def order():
    return Order.objects.create(name="Ada", email="ada@example.com", price_cents=290)


@pytest.fixture
def about(order):
    return {"about": f"shop.order/{order.pk}"}


def page(order, site="admin"):
    return f"/{site}/shop/order/{order.pk}/change/"


def shop_viewer(*codenames: str) -> Client:
    """Sign in someone who may view orders, and has these permissions of ours."""
    user = User.objects.create_user("keeper", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=["view_order", *codenames]).exclude(
            content_type__app_label="shop", codename__in=codenames
        )
    )
    client = Client()
    client.force_login(user)
    return client


class TestOnTheJobsPage:
    def test_the_object_is_linked(self, admin_client, make_job, order, about):
        text = admin_client.get(detail(make_job(meta=about))).content.decode()

        assert f'<a href="/admin/shop/order/{order.pk}/change/">order {order.pk}</a>' in text
        assert f"{JOBS}?about=shop.order%2F{order.pk}" in text

    def test_its_words_are_for_who_may_view_it(self, client_of, make_job, order, about):
        client = client_of("view_job")
        with CaptureQueriesContext(connection) as captured:
            text = client.get(detail(make_job(meta=about))).content.decode()

        assert about["about"] in text
        assert f">order {order.pk}<" not in text
        assert not [query for query in captured.captured_queries if "shop_order" in query["sql"]]

    @pytest.mark.parametrize("key", ["shop.order/0", "shop.order/x", "shop.gone/1", "shop", EVIL])
    def test_one_that_is_not_there_is_named(self, admin_client, make_job, key):
        response = admin_client.get(detail(make_job(meta={"about": key})))

        assert response.status_code == 200
        assert response.context["subject"].key == key
        assert response.context["subject"].url == ""
        assert EVIL not in response.content.decode()

    def test_nothing_is_said_where_there_is_none(self, admin_client, make_job):
        assert admin_client.get(detail(make_job(meta={"about": 7}))).context["subject"] is None

    @here
    def test_links_stay_on_the_site(self, admin_client, make_job, order, about):
        text = admin_client.get(detail(make_job(meta=about)).replace("/admin/", "/ops/")).content.decode()

        assert f"/ops/shop/order/{order.pk}/change/" in text
        assert 'href="/admin/' not in text


class TestInTheList:
    def test_jobs_are_found_by_it(self, admin_client, make_job, about):
        wanted = [make_job(state, meta=about).pk for state in ("READY", "SCHEDULED", "FAILED", "SUCCESSFUL")]
        make_job(meta={"about": "shop.order/0"})

        assert listed(admin_client.get(JOBS, about)) == wanted[::-1]
        assert listed(admin_client.get(JOBS, about | {"state": "failed"})) == [wanted[2]]
        assert listed(admin_client.get(JOBS, about | {"state": "waiting"})) == wanted[1::-1]
        assert listed(admin_client.get(JOBS, {"about": "a\0b"})) == []

    def test_also_those_beyond_the_reach_of_other_filters(self, admin_client, make_job, about, monkeypatch):
        monkeypatch.setattr(lists, "REACH", 2)
        wanted = make_job(meta=about, queue_name="mail")
        for _ in range(4):
            make_job(queue_name="mail")

        assert listed(admin_client.get(JOBS, {"queue": "mail", "tag": "x"} | about)) == []
        assert listed(admin_client.get(JOBS, {"queue": "mail"} | about)) == [wanted.pk]


class TestOnTheObjectsPage:
    def test_the_latest_are_listed_with_a_link_to_all(self, admin_client, make_job, order, about):
        jobs = [make_job("FAILED", meta=about, reason=f"because {number}") for number in range(12)]
        make_job(reason="elsewhere")

        text = admin_client.get(page(order)).content.decode()

        assert [job.pk for job in jobs if f'href="{detail(job)}"' in text] == [job.pk for job in jobs[2:]]
        assert "because 11" in text
        assert "because 1<" not in text
        assert "elsewhere" not in text
        assert f'href="{JOBS}?about={quote(about["about"], safe="")}"' in text

    def test_it_says_so_where_there_is_none(self, admin_client, order):
        assert "There is no job about it." in admin_client.get(page(order)).content.decode()

    def test_the_page_for_a_new_object_has_no_such_part(self, admin_client):
        assert "dj-jobs-about" not in admin_client.get("/admin/shop/order/add/").content.decode()

    def test_neither_has_a_popup(self, admin_client, order):
        assert "dj-jobs-about" not in admin_client.get(f"{page(order)}?_popup=1").content.decode()

    def test_jobs_are_for_who_may_view_them_and_cost_others_nothing(self, make_job, order, about):
        make_job("FAILED", meta=about, reason="because")
        client = shop_viewer()
        with CaptureQueriesContext(connection) as captured:
            text = client.get(page(order)).content.decode()

        assert "dj-jobs-about" not in text
        assert "because" not in text
        assert not [query for query in captured.captured_queries if "django_jobs_job" in query["sql"]]

    def test_arguments_are_shown_to_nobody(self, admin_client, make_job, order, about):
        make_job(
            meta=about | {"by": "nobody"}, args=["hidden"], kwargs={"a": "hidden"}, return_value="hidden"
        )

        for client in (admin_client, shop_viewer("view_job")):
            text = client.get(page(order)).content.decode()
            assert "dj-jobs-about" in text
            assert "hidden</" not in text
            assert "&quot;hidden" not in text

    def test_it_takes_one_statement_more_however_many_there_are(self, admin_client, make_job, order, about):
        counts = []
        for count in (0, 1, 15):
            for _ in range(count):
                make_job(meta=about)
            admin_client.get(page(order))
            with CaptureQueriesContext(connection) as captured:
                admin_client.get(page(order))
            asked = [query["sql"] for query in captured.captured_queries if "django_jobs_job" in query["sql"]]
            counts.append(len(asked))
            assert not [sql for sql in asked if '"kwargs"' in sql or '"return_value"' in sql]

        assert counts == [1, 1, 1]

    def test_what_comes_from_outside_is_escaped(self, admin_client, make_job, order, about):
        make_job("FAILED", meta=about, task_path=EVIL, reason=EVIL)

        assert EVIL not in admin_client.get(page(order)).content.decode()

    @here
    def test_links_stay_on_the_site_and_the_limit_is_the_pages_own(
        self, admin_client, make_job, order, about
    ):
        jobs = [make_job(meta=about) for _ in range(4)]

        text = admin_client.get(page(order, "ops")).content.decode()

        assert [f"/ops/django_jobs/job/{job.pk}/change/" in text for job in jobs] == [False, True, True, True]
        assert 'href="/admin/' not in text

    @here
    def test_on_a_site_without_our_pages_there_are_no_links(self, admin_client, make_job, order, about):
        jobs = [make_job(meta=about) for _ in range(4)]

        text = admin_client.get(page(order, "alone")).content.decode()

        assert f"#{jobs[-1].pk}" in text
        assert "There are more." in text
        assert "/django_jobs/job/" not in text

    def test_a_template_of_the_projects_own_stays(
        self, admin_client, make_job, order, about, settings, tmp_path
    ):
        make_job(meta=about)
        (tmp_path / "own_order.html").write_text(
            '{% extends "admin/change_form.html" %}{% block after_related_objects %}own part{% endblock %}'
        )
        settings.TEMPLATES = [settings.TEMPLATES[0] | {"DIRS": [tmp_path]}]

        with here:
            text = admin_client.get(page(order, "own")).content.decode()

        assert text.index("own part") < text.index("dj-jobs-about")

    def test_a_form_with_an_error_shows_them_too(self, admin_client, make_job, order, about):
        job = make_job(meta=about)

        text = admin_client.post(page(order), {"name": ""}).content.decode()

        assert f'href="{detail(job)}"' in text

    def test_the_style_is_there(self, order):
        media = str(admin.site._registry[Order].media)

        assert "django_jobs/admin.css" in media
        assert RequestFactory().get(page(order)).path == page(order)


def test_deleting_an_order_in_the_admin_cancels_its_waiting_jobs(admin_client, make_job, order, about):
    waiting, done = make_job(meta=about), make_job("SUCCESSFUL", meta=about)

    admin_client.post(
        "/admin/shop/order/", {"action": "delete_selected", "_selected_action": order.pk, "post": "yes"}
    )

    assert not Order.objects.exists()
    assert Job.objects.get(pk=waiting.pk).state == "CANCELLED"
    assert Job.objects.get(pk=done.pk).state == "SUCCESSFUL"
