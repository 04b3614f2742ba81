"""The pages in a project: its admin sites, its other apps, its other pages."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.utils import quote
from django.contrib.staticfiles import finders
from django.template.loader import get_template
from django.test import override_settings
from django.urls import reverse

import django_jobs
from django_jobs.admin import register
from django_jobs.models import Job
from tests import jobs
from tests.admin.conftest import ACTIONS, JOBS, OVERVIEW, QUEUES, TASKS, WORKERS, detail, one
from tests.contract.processes import run_python

pytestmark = pytest.mark.django_db

PACKAGE = Path(django_jobs.__file__).parent


def pages_of(job, worker):
    return [
        OVERVIEW, TASKS, f"{TASKS}run/{quote(jobs.give.module_path)}/",
        JOBS, f"{JOBS}?state=failed&queue=x", f"{JOBS}retry-failed/", detail(job),
        QUEUES, f"{QUEUES}default/change/", f"{QUEUES}pause/{quote('default')}/",
        WORKERS, f"{WORKERS}{worker.pk}/change/", *(one(job, action) for action in ACTIONS),
    ]  # fmt: skip


class TestSites:
    @pytest.mark.parametrize("urls", ["tests.admin.urls", "tests.admin.urls_alone"])
    def test_every_page_works_on_a_site_of_the_projects_own_and_links_to_it_only(
        self, admin_client, make_job, make_worker, urls
    ):
        job, worker = make_job("FAILED", worker=1), make_worker()
        with override_settings(ROOT_URLCONF=urls):
            for page in pages_of(job, worker):
                response = admin_client.get(page.replace("/admin/", "/ops/"))
                assert response.status_code == 200, page
                links = re.findall(r'(?:href|action)="([^"]+)"', response.content.decode())
                assert any("/ops/django_jobs/" in link for link in links), page
                assert not [link for link in links if link.startswith("/admin/")], page

    @pytest.mark.parametrize("urls", ["tests.admin.urls", "tests.admin.urls_alone"])
    def test_actions_work_there_and_lead_back_there(self, admin_client, make_job, urls):
        job = make_job("FAILED")
        with override_settings(ROOT_URLCONF=urls):
            done = admin_client.post(one(job, "retry").replace("/admin/", "/ops/"))
            assert done.url == f"/ops/django_jobs/job/{job.pk}/change/"
            done = admin_client.post("/ops/django_jobs/queue/pause/default/")
            assert done.url == "/ops/django_jobs/queue/"

        assert Job.objects.get().state == "READY"

    def test_the_names_of_our_addresses_start_with_the_apps(self):
        for name in ("job_retry", "job_run", "job_cancel", "job_discard"):
            assert reverse(f"admin:django_jobs_{name}", args=[1])
        assert reverse("admin:django_jobs_job_retry_failed")
        assert reverse("admin:django_jobs_queue_pause", args=["x"])

    def test_registering_twice_leaves_what_is_there(self):
        site = AdminSite(name="twice")

        register(site)
        register(site)

        assert {model.__name__ for model in site._registry} == {
            "BulkAction",
            "Job",
            "KnownTask",
            "Overview",
            "Queue",
            "Worker",
        }

    @pytest.mark.parametrize("site", ["Asking", "Deriving", "Choosing"])
    def test_a_site_that_registers_in_a_manner_of_its_own_gets_classes(self, site):
        class Asking(AdminSite):
            def register(self, model_or_iterable, admin_class=None, **options):
                assert issubclass(admin_class, ModelAdmin)
                super().register(model_or_iterable, admin_class, **options)

        class Deriving(AdminSite):
            def register(self, model_or_iterable, admin_class=None, **options):
                super().register(model_or_iterable, type("Derived", (admin_class,), {}), **options)

        class Choosing(AdminSite):
            def register(self, model_or_iterable, admin_class=None, **options):
                super().register(model_or_iterable, admin_class, list_per_page=5, **options)

        own = {"Asking": Asking, "Deriving": Deriving, "Choosing": Choosing}[site](name="own")
        register(own)

        assert all(isinstance(page, ModelAdmin) for page in own._registry.values())
        assert own._registry[Job].get_urls()

    def test_a_page_is_imported_when_it_is_needed_so_that_workers_are_spared_it(self):
        """Every process of a project loads what it has in the admin, and a worker shows no page."""
        code = """
            import sys
            import django
            django.setup()
            from django.contrib import admin
            from django_jobs.models import Job

            site, page = admin.site._registry, "django_jobs.dashboard.jobs"
            print(Job in site, page in sys.modules, "admin_actions" in sys.modules)
            print(site[Job].list_per_page > 0, page in sys.modules)
        """

        printed = run_python(code, DJANGO_SETTINGS_MODULE="tests.settings")

        assert printed.splitlines() == ["True False False", "True True"]


def with_apps(*order):
    """Return INSTALLED_APPS with these in this order, and the project's others after them."""
    ours = {"django_jobs", "django.contrib.admin", "admin_actions"}
    return [*order, *(app for app in settings.INSTALLED_APPS if app not in ours)]


ORDERS = [
    ("django_jobs", "django.contrib.admin"),
    ("django.contrib.admin", "django_jobs"),
    ("admin_actions", "django_jobs", "django.contrib.admin"),
    ("django_jobs", "admin_actions", "django.contrib.admin"),
    ("django_jobs", "django.contrib.admin", "admin_actions"),
    ("django.contrib.admin", "django_jobs", "admin_actions"),
]


class TestApps:
    def test_the_project_needs_no_other_app(self):
        assert "admin_actions" not in settings.INSTALLED_APPS

    @pytest.mark.parametrize("order", ORDERS, ids=" ".join)
    def test_the_pages_are_the_same_in_any_order_of_apps(self, admin_client, make_job, make_worker, order):
        job, worker = make_job("FAILED"), make_worker()
        pages = pages_of(job, worker)
        expected = [plain(admin_client.get(page)) for page in pages]

        with override_settings(INSTALLED_APPS=with_apps(*order)):
            for page, content in zip(pages, expected, strict=True):
                assert plain(admin_client.get(page)) == content, page

    @pytest.mark.parametrize("order", ORDERS, ids=" ".join)
    def test_other_admin_pages_are_as_they_are_without_us(self, admin_client, admin_user, order):
        pages = ["/admin/auth/user/", f"/admin/auth/user/{admin_user.pk}/change/", "/admin/auth/user/add/"]
        with override_settings(INSTALLED_APPS=with_apps(*order)):
            assert [name for name in SHARED if str(PACKAGE) in str(origin(name))] == []
            for page in pages:
                content = admin_client.get(page).content.decode()
                assert "django_jobs/admin.css" not in content
                assert "dj-" not in content.partition('id="content"')[2]

    def test_every_template_of_ours_is_in_a_folder_of_our_own(self):
        root = PACKAGE / "templates"

        for template in root.rglob("*.html"):
            assert template.relative_to(root).as_posix().startswith("admin/django_jobs/")
        for static in (PACKAGE / "static").rglob("*.*"):
            assert static.relative_to(PACKAGE / "static").as_posix().startswith("django_jobs/")

    def test_every_file_that_a_page_asks_for_is_there(self, admin_client, make_job, make_worker):
        job, worker = make_job("FAILED"), make_worker()

        for page in pages_of(job, worker):
            for path in re.findall(
                r'(?:href|src)="/static/([^"?]+)"', admin_client.get(page).content.decode()
            ):
                assert finders.find(path), (page, path)


def origin(name):
    """Return the file that a template is loaded from."""
    template: Any = get_template(name)
    return template.origin


SHARED = [
    "admin/base.html",
    "admin/base_site.html",
    "admin/change_list.html",
    "admin/change_form.html",
    "admin/change_list_object_tools.html",
    "admin/change_form_object_tools.html",
    "admin/delete_selected_confirmation.html",
    "admin/pagination.html",
]


def plain(response):
    """Return a page without what differs from one request to the next."""
    assert response.status_code == 200
    content = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", response.content.decode())
    content = re.sub(r"<time.*?</time>", "", content)
    content = re.sub(r"\d+ ms|\d+(\.\d+)? s\b", "", content)
    content = re.sub(r'<nav class="sticky.*?</nav>', "", content, flags=re.DOTALL)
    return re.sub(r"\s+", " ", content)


class TestStyle:
    css = "".join(
        files("django_jobs").joinpath("static/django_jobs", name).read_text()
        for name in ("admin.css", "charts.css")
    )

    def test_sides_are_logical_so_that_right_to_left_works(self):
        rules = re.sub(r"/\*.*?\*/", "", self.css, flags=re.DOTALL)

        assert not re.findall(r"\b(?:left|right)\b", rules)

    def test_text_and_grounds_take_the_admins_colours_so_that_dark_mode_works(self):
        for name, value in re.findall(r"(?<![\w-])(color|background(?:-color)?): ([^;]+);", self.css):
            assert value.startswith("var(--") or value == "CanvasText", f"{name}: {value}"

    def test_right_to_left_pages_say_so(self, admin_client, make_job):
        page = admin_client.get(
            detail(make_job("FAILED", kwargs={"a": 1})), headers={"accept-language": "ar"}
        ).content.decode()

        assert 'dir="rtl"' in page
        assert 'dir="ltr"' in page  # dotted paths and values stay as they are
