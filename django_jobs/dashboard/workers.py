"""The pages about workers: who lives, since when nothing was heard of them, what they run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin import ShowFacets
from django.db.models import (
    Case,
    Count,
    DurationField,
    ExpressionWrapper,
    IntegerField,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.states import State
from django_jobs.dashboard import shown
from django_jobs.dashboard.base import ReadOnlyPages
from django_jobs.fields import within_calendar
from django_jobs.models import LIVE, Job, Worker

MOST_JOBS = 100
"""Running jobs that the page about a worker lists."""


def with_signs_of_life(workers: QuerySet[Worker]) -> QuerySet[Worker]:
    """Add `silence` (since the last heartbeat, by the database's clock) and how many jobs are `running`."""
    jobs = Job.objects.filter(worker=OuterRef("pk"), state=State.RUNNING.value).order_by()
    running = jobs.values("worker").annotate(number=Count("pk")).values("number")
    return workers.annotate(
        silence=ExpressionWrapper(Now() - within_calendar("heartbeat_at"), output_field=DurationField()),
        running=Coalesce(Subquery(running, output_field=IntegerField()), 0),
    )


def is_stale(worker: Any) -> bool:
    """Whether a worker that says it lives hasn't been heard of for too long."""
    return bool(worker.is_live and worker.silence > timedelta(seconds=conf.current().dead_after_seconds))


class WorkerAdmin(ReadOnlyPages):
    """Workers."""

    list_display = (
        "__str__",
        "shown_state",
        "shown_heartbeat",
        "shown_running",
        "shown_queues",
        "shown_process",
        "shown_started",
        "shown_ending",
    )
    list_filter = ("state",)
    list_per_page = 100
    show_facets = ShowFacets.NEVER
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_signs_of_life(super().get_queryset(request))

    def get_ordering(self, request: HttpRequest) -> tuple[Any, ...]:
        """Live ones first."""
        lives = Case(When(state__in=LIVE, then=Value(1)), default=Value(0), output_field=IntegerField())
        return (lives.desc(), "-heartbeat_at", "-id")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[tuple[Any, dict[str, Any]]]:
        about = [
            ("shown_state", "shown_heartbeat", "shown_running", "holds_lock"),
            ("shown_process", "shown_started", "stopped_at", "shown_ending"),
            ("shown_queues", "shown_excluded"),
            "shown_versions",
            "shown_tasks",
        ]
        return [(None, {"fields": about})]

    def detail_context(self, request: HttpRequest, instance: Any) -> dict[str, Any]:
        """Add the jobs that the worker runs, for who may see jobs."""
        if not request.user.has_perm("django_jobs.view_job"):
            return {}
        jobs = Job.objects.using(conf.database()).filter(worker=instance.pk, state=State.RUNNING.value)
        found = jobs.order_by("last_attempted_at").only(
            "id",
            "task_path",
            "queue_name",
            "state",
            "attempt",
            "uncounted",
            "max_attempts",
            "last_attempted_at",
        )
        return {
            "running_jobs": [
                {
                    "title": str(job),
                    "url": self.address("django_jobs_job_change", job.pk),
                    "queue": job.queue_name,
                    "attempts": shown.attempts(job),
                    "elapsed": shown.span(job.duration),
                }
                for job in found[:MOST_JOBS]
            ],
            "shows_running_jobs": True,
        }

    @admin.display(description=_("state"))
    def shown_state(self, worker: Any) -> SafeString:
        if is_stale(worker):
            return shown.badge(gettext("silent: probably dead"), "lost")
        return shown.badge(worker.get_state_display(), f"worker-{worker.state.lower()}")

    @admin.display(description=_("last heartbeat"))
    def shown_heartbeat(self, worker: Any) -> str:
        return gettext("%(span)s ago") % {"span": shown.span(worker.silence)}

    @admin.display(description=_("running jobs"))
    def shown_running(self, worker: Any) -> str:
        return f"{worker.running}/{worker.threads + worker.async_slots}"

    @admin.display(description=_("queues"))
    def shown_queues(self, worker: Worker) -> str:
        named = gettext("all") if worker.queues is None else ", ".join(map(str, worker.queues))
        if not worker.excluded_queues:
            return named
        but = {"named": named, "excluded": ", ".join(map(str, worker.excluded_queues))}
        return gettext("%(named)s but %(excluded)s") % but

    @admin.display(description=_("process"))
    def shown_process(self, worker: Worker) -> str:
        return f"{worker.host}:{worker.pid}"

    @admin.display(description=_("started"))
    def shown_started(self, worker: Worker) -> str:
        return shown.age(worker.started_at)

    @admin.display(description=_("how it ended"))
    def shown_ending(self, worker: Worker) -> str:
        return shown.cut(worker.ending) or shown.NOTHING

    @admin.display(description=_("excluded queues"))
    def shown_excluded(self, worker: Worker) -> str:
        return ", ".join(map(str, worker.excluded_queues)) or shown.NOTHING

    @admin.display(description=_("versions"))
    def shown_versions(self, worker: Worker) -> str:
        return ", ".join(f"{name} {version}" for name, version in worker.versions.items()) or shown.NOTHING

    @admin.display(description=_("tasks it knows"))
    def shown_tasks(self, worker: Worker) -> str:
        return "\n".join(map(str, worker.tasks)) or shown.NOTHING
