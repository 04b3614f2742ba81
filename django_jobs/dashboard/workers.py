"""The pages about workers: who lives, since when nothing was heard of them, what they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any

from django.contrib import admin
from django.contrib.admin import ShowFacets
from django.contrib.admin.templatetags.admin_list import result_headers
from django.db.models import (
    Case,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.states import State
from django_jobs.dashboard import shown
from django_jobs.dashboard.asking import AskingPages
from django_jobs.fields import within_calendar
from django_jobs.models import LIVE, Job, Worker
from django_jobs.tasks import registry
from django_jobs.timeouts import timeout_of


def shown_limit(job: Job) -> str:
    """Return how long the run of a job may take, by the settings of the site, and how much of it is left."""
    task = registry.get(job.task_path)
    if task is None:
        return gettext("unknown: this process doesn’t know the task")
    limit = timeout_of(conf.current(), task, job.queue_name)
    if limit is None:
        return gettext("none")
    left = limit - (job.duration or timedelta(0))
    words = {"limit": shown.span(limit), "left": shown.span(abs(left))}
    if left < timedelta(0):
        return gettext("%(limit)s, over for %(left)s") % words
    return gettext("%(limit)s, %(left)s left") % words


MOST_JOBS = 100
"""Running jobs that the page about a worker lists."""


def with_silence(workers: QuerySet[Worker]) -> QuerySet[Worker]:
    """Add `silence`: since the last heartbeat, by the database's clock."""
    silence = ExpressionWrapper(Now() - within_calendar("heartbeat_at"), output_field=DurationField())
    return workers.annotate(silence=silence)


def with_signs_of_life(workers: QuerySet[Worker]) -> QuerySet[Worker]:
    """Add `silence`, and how many jobs are `running`."""
    jobs = Job.objects.filter(worker=OuterRef("pk"), state=State.RUNNING.value).order_by()
    running = jobs.values("worker").annotate(number=Count("pk")).values("number")
    return with_silence(workers).annotate(running=Coalesce(Subquery(running, output_field=IntegerField()), 0))


def is_stale(worker: Any) -> bool:
    """Whether a worker that says it lives hasn't been heard of for too long."""
    return bool(worker.is_live and worker.silence > timedelta(seconds=conf.current().dead_after_seconds))


@dataclass(frozen=True, slots=True)
class Tree:
    """Workers that stand together on the page: the live processes of one `runjobs`, or others."""

    supervisor: str
    """Where the process that started them runs; empty for those that stand alone, and for ended ones."""
    rows: Sequence[Sequence[Any]]
    """What is shown of each, by column."""
    busy: str
    memory: str
    buttons: Sequence[dict[str, Any]] = ()


class WorkerAdmin(AskingPages):
    """Workers."""

    actions_row = ("django_jobs_worker_drain", "django_jobs_worker_stop")
    actions_detail = actions_row

    list_display = (
        "__str__",
        "shown_state",
        "shown_heartbeat",
        "shown_running",
        "shown_memory",
        "shown_queues",
        "shown_started",
    )
    list_filter = ("state",)
    list_per_page = 100
    show_facets = ShowFacets.NEVER
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_signs_of_life(super().get_queryset(request))

    def get_ordering(self, request: HttpRequest) -> tuple[Any, ...]:
        """Live ones first, those of one supervisor together; then what ended, the latest first."""
        lives = Case(When(state__in=LIVE, then=Value(1)), default=Value(0), output_field=IntegerField())
        heard = Case(When(state__in=LIVE, then=None), default=F("heartbeat_at"))
        host, supervisor = (Case(When(state__in=LIVE, then=F(name))) for name in ("host", "supervisor"))
        return (lives.desc(), host, supervisor, heard.desc(), "-id")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show live processes under their supervisors."""
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None)
        if context is not None and "cl" in context:
            changes = context["cl"]
            context["trees"] = self.trees(request, changes.result_list)
            context["headers"] = [header["text"] for header in result_headers(changes)]
        return response

    def trees(self, request: HttpRequest, workers: Iterable[Any]) -> list[Tree]:
        """Return the workers of the page, those of one supervisor together."""
        found = []
        for supervisor, group in groupby(workers, key=lambda w: w.supervisor if w.is_live else ""):
            members = list(group)
            first = members[0]
            rows = [self.cells(request, worker) for worker in members]
            if not supervisor:
                found.append(Tree("", rows, "", ""))
                continue
            known = [worker.memory_bytes for worker in members if worker.memory_bytes is not None]
            busy = f"{sum(w.running for w in members)}/{sum(w.slots for w in members)}"
            buttons = [
                {**one, "path": f"{one['path']}{'&' if '?' in one['path'] else '?'}all=1"}
                for one in self.buttons(request, self.actions_row, first)
            ]
            memory = filesizeformat(sum(known)) if len(known) == len(members) else gettext("unknown")
            found.append(Tree(f"{first.host}:{first.supervisor_pid}", rows, busy, memory, buttons))
        return found

    def cells(self, request: HttpRequest, worker: Any) -> list[Any]:
        """Return what the list shows of a worker, by column."""
        with_small = '{}<div class="dj-small">{}</div>'
        link = shown.link(self.address_of(worker), str(worker))
        state, *others = (getattr(self, name)(worker) for name in self.list_display[1:])
        if worker.ending:
            state = format_html(with_small, state, self.shown_ending(worker))
        first = format_html(with_small, link, self.shown_process(worker))
        return [first, state, *others, self.row_buttons(request, worker)]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[tuple[Any, dict[str, Any]]]:
        about = [
            ("shown_state", "shown_heartbeat", "shown_running", "holds_lock"),
            ("shown_process", "shown_supervisor", "shown_memory"),
            ("shown_started", "stopped_at", "shown_ending"),
            ("shown_queues", "shown_excluded", "shown_limits"),
            "shown_versions",
            "shown_tasks",
        ]
        if obj is not None and obj.asked_to:
            about.insert(1, "shown_asked")
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
                    "limit": shown_limit(job),
                }
                for job in found[:MOST_JOBS]
            ],
            "shows_running_jobs": True,
        }

    @admin.display(description=_("state"))
    def shown_state(self, worker: Any) -> SafeString:
        if is_stale(worker):
            state = shown.badge(gettext("silent: probably dead"), "lost")
        else:
            state = shown.badge(worker.get_state_display(), f"worker-{worker.state.lower()}")
        if not (worker.is_live and worker.asked_to):
            return state
        return format_html("{} {}", state, shown.asked_badge(worker.asked_to))

    @admin.display(description=_("last heartbeat"))
    def shown_heartbeat(self, worker: Any) -> str:
        return gettext("%(span)s ago") % {"span": shown.span(worker.silence)}

    @admin.display(description=_("slots busy"))
    def shown_running(self, worker: Any) -> str:
        return f"{worker.running}/{worker.slots}"

    @admin.display(description=_("memory"))
    def shown_memory(self, worker: Worker) -> str:
        if worker.memory_bytes is None:
            return gettext("unknown") if worker.is_live else shown.NOTHING
        return filesizeformat(worker.memory_bytes)

    @admin.display(description=_("supervisor"))
    def shown_supervisor(self, worker: Worker) -> str:
        return f"{worker.host}:{worker.supervisor_pid}" if worker.supervisor else shown.NOTHING

    @admin.display(description=_("limits"))
    def shown_limits(self, worker: Worker) -> str:
        if worker.limits is None:
            return gettext("unknown")
        return ", ".join(f"{name}: {limit}" for name, limit in worker.limits.items()) or shown.NOTHING

    @admin.display(description=_("asked"))
    def shown_asked(self, worker: Worker) -> str:
        words = {
            "wish": worker.get_asked_to_display(),
            "by": worker.asked_by or gettext("somebody"),
            "when": shown.moment(worker.asked_at),
        }
        if worker.asked_all:
            return gettext("to %(wish)s, with all processes of its runjobs, by %(by)s, %(when)s") % words
        return gettext("to %(wish)s, by %(by)s, %(when)s") % words

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
