"""Which pages there are. Called by `admin.py` for the default site, and by projects with one of their own."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.db.models import Model

from django_jobs.dashboard.base import ReadOnlyPages
from django_jobs.dashboard.bulk_actions import BulkActionAdmin
from django_jobs.dashboard.jobs import JobAdmin
from django_jobs.dashboard.overview import OverviewAdmin
from django_jobs.dashboard.queues import QueueAdmin
from django_jobs.dashboard.tasks import TaskAdmin
from django_jobs.dashboard.workers import WorkerAdmin
from django_jobs.models import BulkAction, Job, KnownTask, Overview, Queue, Worker

PAGES: dict[type[Model], type[ReadOnlyPages]] = {
    Overview: OverviewAdmin,
    Job: JobAdmin,
    Queue: QueueAdmin,
    KnownTask: TaskAdmin,
    Worker: WorkerAdmin,
    BulkAction: BulkActionAdmin,
}


def register(site: AdminSite) -> None:
    """Put the pages on `site`; what is registered there already stays."""
    for model, page in PAGES.items():
        if not site.is_registered(model):
            site.register(model, page)
