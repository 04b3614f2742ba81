"""
Jobs about an object: the link from a job's page to it, and what other models' pages show of their jobs.

`JobsAboutMixin` is for the `ModelAdmin` of any model; it is public as `django_jobs.admin.JobsAboutMixin`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.options import IS_POPUP_VAR
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from django_jobs import conf
from django_jobs.about import key_of, model_of
from django_jobs.dashboard import shown
from django_jobs.models import Job

UNREAD = ("args", "kwargs", "return_value", "meta")
"""Columns that may hold megabytes and that the section doesn't show."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a job is about, as its page shows it."""

    key: str
    words: str
    url: str
    """Address of its page in the admin; "" where there is none, or none that the user may see."""
    list_url: str
    """Address of the list of all jobs about it."""


def subject_of(request: HttpRequest, site: AdminSite, job: Job) -> Subject | None:
    """Return what `job` is about; `None` for nothing."""
    key = job.about
    if key is None:
        return None
    words, url = "", ""
    page = page_of(site, model_of(key))
    if page is not None and page.has_view_permission(request):
        found = page.get_object(request, key.partition("/")[2])
        if found is not None and page.has_view_permission(request, found):
            name = f"admin:{page.opts.app_label}_{page.opts.model_name}_change"
            words, url = str(found), reverse(name, args=[quote(found.pk)], current_app=site.name)
    return Subject(key, words, url, list_address(site, key))


def page_of(site: AdminSite, model: type[Model] | None) -> ModelAdmin[Any] | None:
    """Return the pages of a model on `site`, or those of a proxy of it."""
    for registered, page in site._registry.items():
        if model is not None and registered._meta.concrete_model is model:
            return page
    return None


def list_address(site: AdminSite, key: str) -> str:
    """Return the address of the list of the jobs about an object."""
    address = reverse("admin:django_jobs_job_changelist", current_app=site.name)
    return f"{address}?{urlencode({'about': key})}"


@dataclass(frozen=True, slots=True)
class Row:
    """One job in the section."""

    job: Job
    url: str

    @property
    def state(self) -> SafeString:
        return shown.state_badge(self.job)

    @property
    def task(self) -> SafeString:
        return shown.path(self.job.task_path)

    @property
    def attempts(self) -> str:
        return shown.attempts(self.job)

    @property
    def age(self) -> SafeString | str:
        return shown.age(self.job.enqueued_at)

    @property
    def duration(self) -> str:
        return shown.span(self.job.duration)

    @property
    def reason(self) -> str:
        return shown.cut(self.job.reason)


class JobsAboutMixin(ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """
    Shows the latest jobs about an object on its page in the admin, to who may view jobs.

    Put it before the other bases of a `ModelAdmin`. Its section stands below the inlines; a
    `change_form_template` of your own stays in use.
    """

    jobs_about_limit = 10
    """Jobs shown, the newest; a link leads to all of them."""

    @property
    def media(self) -> forms.Media:
        return super().media + forms.Media(css={"all": ["django_jobs/admin.css"]})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Django's page with the section added."""
        response = super().change_view(request, object_id, form_url, extra_context)
        if isinstance(response, TemplateResponse) and not response.is_rendered:
            context = response.context_data or {}
            instance = context.get("original")
            if instance is not None and not context.get("is_popup") and IS_POPUP_VAR not in request.GET:
                self.add_jobs_about(request, response, instance)
        return response

    def add_jobs_about(self, request: HttpRequest, response: TemplateResponse, instance: Model) -> None:
        """Add the section to a page, if the user may see jobs."""
        if not self.may_view_jobs(request):
            return
        jobs = Job.objects.using(conf.database()).about(instance).order_by("-pk").defer(*UNREAD)
        found = list(jobs[: self.jobs_about_limit + 1])
        site, linked = self.admin_site, self.admin_site.is_registered(Job)
        rows = [
            Row(
                job,
                reverse("admin:django_jobs_job_change", args=[job.pk], current_app=site.name)
                if linked
                else "",
            )
            for job in found[: self.jobs_about_limit]
        ]
        assert response.context_data is not None
        response.context_data |= {
            "jobs_about_template": response.resolve_template(response.template_name),
            "jobs_about": rows,
            "jobs_about_more": len(found) > len(rows),
            "jobs_about_url": list_address(site, key_of(instance)) if linked else "",
        }
        response.template_name = "admin/django_jobs/about/change_form.html"

    def may_view_jobs(self, request: HttpRequest) -> bool:
        """Whether the user may see the page of jobs, on this site or, where it has none, at all."""
        if self.admin_site.is_registered(Job):
            return bool(self.admin_site._registry[Job].has_view_permission(request))
        return request.user.has_perm("django_jobs.view_job")
