"""
Which pages there are. Called by `admin.py` for the default site, and by projects with one of their own.

Every process of a project loads its `admin` modules, workers too, which need no pages. So a page is imported
when it is first asked for anything: by the site's addresses, or by Django's checks. A worker is 2 MB smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django.db.models import Model
from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import import_string

from django_jobs.models import BulkAction, Job, KnownTask, Overview, Queue, Worker

PAGES: dict[type[Model], str] = {
    Overview: "django_jobs.dashboard.overview.OverviewAdmin",
    Job: "django_jobs.dashboard.jobs.JobAdmin",
    Queue: "django_jobs.dashboard.queues.QueueAdmin",
    KnownTask: "django_jobs.dashboard.tasks.TaskAdmin",
    Worker: "django_jobs.dashboard.workers.WorkerAdmin",
    BulkAction: "django_jobs.dashboard.bulk_actions.BulkActionAdmin",
}
"""The `ModelAdmin` of each model."""


def register(site: AdminSite) -> None:
    """Put the pages on `site`; what is registered there already stays."""
    # A site's own `register` may do more with a class than call it. `type()` of the default site is no site.
    make: Callable[[str], Any] = later if site.__class__.register is AdminSite.register else import_string
    for model, page in PAGES.items():
        if not site.is_registered(model):
            site.register(model, make(page))


def later(page: str) -> Callable[[type[Model], AdminSite], Any]:
    """Return what makes a `ModelAdmin` that is imported when it is first used."""
    return lambda model, site: SimpleLazyObject(lambda: import_string(page)(model, site))
