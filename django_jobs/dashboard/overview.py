"""
The overview: what goes on, how fast, what failed lately, and what someone should look at.

Each part is read under a time limit of its own (`hurried`), in a fixed number of statements that look at
indexes, at what workers wrote down (`store.statistics`), and at the newest failures; so it costs the same
with five jobs and with five million. Its live part is also served alone, for the script that renews it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.dashboard import shown
from django_jobs.dashboard.base import ReadOnlyPages
from django_jobs.dashboard.hurried import hurried
from django_jobs.dashboard.pace import lengths, pace, period_of, seconds
from django_jobs.dashboard.surveying import MOST_SHOWN, Survey, survey
from django_jobs.dashboard.warnings import OPEN_FOR_SECONDS, warnings
from django_jobs.models import Queue, Worker
from django_jobs.store import health, statistics
from django_jobs.store.overview import LiveWorker
from django_jobs.store.statistics import Figures, Period, Tally

STATES = {
    # of the survey: its words, and the filter of the list of jobs
    "due": (_("due"), "ready"),
    "later": (_("for later"), "waiting"),
    "running": (_("running"), "running"),
    "failed": (_("failed"), "failed"),
    "cancelled": (_("cancelled"), "cancelled"),
    "successful": (_("successful"), "successful"),
}

MOST_ROWS = 50
"""Queues, tasks and workers that are listed."""

LONG_RUN = timedelta(days=365)


class OverviewAdmin(ReadOnlyPages):
    """The overview. It has no list and no objects, just its one page."""

    list_display = ("__str__",)
    actions = None

    def get_urls(self) -> list[Any]:
        page = self.admin_site.admin_view(self.changelist_view)
        return [path("", page, name="django_jobs_overview_changelist")]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the page, or just its live part."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        period = period_of(request)
        request.current_app = self.admin_site.name
        live = {**self.live_context(request, period), "opts": self.opts}
        if request.headers.get("X-Django-Jobs-Part") == "live":
            return TemplateResponse(request, "admin/django_jobs/overview/live.html", live)
        context = {
            **live,
            **(extra_context or {}),
        }
        return self.in_place_of_the_list(
            request, "admin/django_jobs/overview/change_list.html", gettext("Overview"), context
        )

    def live_context(self, request: HttpRequest, period: Period) -> dict[str, Any]:
        """Read everything that changes."""
        alias = conf.database()
        found = hurried(alias, lambda cursor: survey(alias, None, LONG_RUN))
        figures = hurried(alias, lambda cursor: statistics.figures(cursor, period))
        failures = hurried(alias, statistics.failures)
        condition = hurried(alias, lambda cursor: health.condition(cursor, open_for_seconds=OPEN_FOR_SECONDS))
        return {
            "as_of": shown.stamp(timezone.now()),
            "may_see_jobs": request.user.has_perm("django_jobs.view_job"),
            "took_too_long": None in (found, figures, failures, condition),
            "warnings": [] if found is None else warnings(found, condition),
            "states": [] if found is None else self.states(found),
            "workers": [] if found is None else self.workers(request, found),
            "oldest": [] if found is None else self.oldest(found),
            **pace(figures, period, self.jobs_url),
            "queues": self.queues(request, found, figures),
            "failures": [self.failure(failure) for failure in failures or ()],
            "among": shown.grouped(statistics.NEWEST_ATTEMPTS),
        }

    def jobs_url(self, **filters: str) -> str:
        """Return the address of a list of jobs."""
        return f"{self.address('django_jobs_job_changelist')}?{urlencode(filters)}"

    def states(self, found: Survey) -> list[dict[str, Any]]:
        """Return how many jobs there are in each state."""
        return [
            {
                "title": words,
                "count": shown.count(found.states[name]),
                "key": {"due": "ready", "later": "scheduled"}.get(name, name),
                "url": self.jobs_url(state=state),
            }
            for name, (words, state) in STATES.items()
        ]

    def queues(
        self, request: HttpRequest, found: Survey | None, figures: Figures | None
    ) -> list[dict[str, Any]]:
        """Return one row for each queue: what waits and runs, and what ended in the period."""
        ended = statistics.together(
            (queue, tally) for (queue, _task), tally in (figures.kinds if figures else {}).items()
        )
        links = request.user.has_perm("django_jobs.view_queue")
        rows = []
        for queue in found.queues if found else ():
            tally = ended.get(queue.name, Tally())
            waits = queue.due.count or queue.later.count
            if not (waits or queue.running or queue.failed.count or queue.paused or tally.ended):
                continue
            state = ("paused", gettext("paused")) if queue.paused else ("", "")
            if queue.is_unserved:
                state = ("lost", gettext("nobody serves it"))
            rows.append(
                {
                    "name": queue.name,
                    "url": self.address_of(Queue(name=queue.name)) if links else "",
                    "badge": shown.badge(state[1], state[0]) if state[0] else "",
                    "due": shown.count(queue.due),
                    "oldest": shown.span(seconds(queue.oldest_due_seconds)),
                    "running": shown.grouped(queue.running),
                    "workers": shown.grouped(queue.workers),
                    **lengths(tally),
                }
            )
        return rows[:MOST_ROWS]

    def workers(self, request: HttpRequest, found: Survey) -> list[dict[str, Any]]:
        """Return one row for each live worker, with its load."""
        links = request.user.has_perm("django_jobs.view_worker")
        return [
            {
                "name": f"{worker.name} #{worker.id}",
                "url": self.address_of(Worker(pk=worker.id)) if links else "",
                "badge": worker_badge(worker, is_stale=worker in found.stale),
                "process": f"{worker.host}:{worker.pid}",
                "running": sum(1 for job in found.running if job.worker == worker.id),
                "slots": worker.slots,
                "up": shown.span(seconds(worker.up_seconds)),
                "heartbeat": gettext("%(span)s ago") % {"span": shown.span(seconds(worker.silent_seconds))},
            }
            for worker in found.workers[:MOST_ROWS]
        ]

    def oldest(self, found: Survey) -> list[dict[str, Any]]:
        """Return the jobs that have been due for longest, one of each queue and priority."""
        return [
            {
                "title": f"{job.task_path} #{job.id}",
                "url": self.address("django_jobs_job_change", job.id),
                "queue": job.queue_name,
                "priority": job.priority,
                "waits": shown.span(seconds(job.due_seconds)),
            }
            for job in found.oldest[:MOST_SHOWN]
        ]

    def failure(self, failure: statistics.Failure) -> dict[str, Any]:
        """Return one class of exceptions."""
        return {
            "name": failure.exception_class,
            "number": shown.grouped(failure.number),
            "last": shown.age(failure.last_at),
            "message": shown.cut(failure.message),
            "url": self.address("django_jobs_job_change", failure.job),
            "list_url": self.jobs_url(exception=failure.exception_class),
            "job": f"#{failure.job}",
        }


def worker_badge(worker: LiveWorker, *, is_stale: bool) -> str:
    """Return what is known of a worker as a label."""
    if is_stale:
        return shown.badge(gettext("silent: probably dead"), "lost")
    if worker.asked_to:
        return shown.asked_badge(worker.asked_to)
    words = gettext("stopping") if worker.state == "STOPPING" else gettext("running")
    return shown.badge(words, f"worker-{worker.state.lower()}")
