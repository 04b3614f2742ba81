"""Which pages there are. Called by `admin.py` for the default site, and by projects with one of their own."""

from __future__ import annotations

from django.contrib.admin import AdminSite

from django_jobs.dashboard.jobs import JobAdmin
from django_jobs.dashboard.queues import QueueAdmin
from django_jobs.dashboard.workers import WorkerAdmin
from django_jobs.models import Job, Queue, Worker


def register(site: AdminSite) -> None:
    """Put jobs, queues and workers on `site`; what is registered there already stays."""
    for model, page in ((Job, JobAdmin), (Queue, QueueAdmin), (Worker, WorkerAdmin)):
        if not site.is_registered(model):
            site.register(model, page)
