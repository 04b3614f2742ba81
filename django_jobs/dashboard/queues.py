"""
The pages about queues: how much waits and for how long, who serves them, what is paused.

A queue is a name: most have no row. Those that are shown come from waiting, running and failed jobs, from
live workers, from the tasks that this process knows, and from what was set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.names import takes
from django_jobs.dashboard import shown
from django_jobs.dashboard.actions import NoChoice, ReasonChoice
from django_jobs.dashboard.base import ReadOnlyPages, button
from django_jobs.dashboard.charts import Spark, spark
from django_jobs.dashboard.confirming import Crumb, Question, ask
from django_jobs.dashboard.hurried import hurried
from django_jobs.dashboard.pace import pace, period_of
from django_jobs.dashboard.workers import is_stale, with_silence
from django_jobs.models import Queue, Worker, WorkerState
from django_jobs.operations import Operations
from django_jobs.store import statistics, stats
from django_jobs.store.counting import Census, Depth, census
from django_jobs.store.statistics import Moment
from django_jobs.tasks import registry


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One queue as it is shown."""

    queue: Queue
    depth: Depth | None
    """`None` where it took too long to count."""
    workers: int
    """Live workers that serve it."""
    slots: int
    """How many of its jobs they can run at once, by their slots and limits."""
    busy: int
    """How many they do run."""
    limited: int
    """How many of them run as many as their limit for this queue allows."""
    url: str
    jobs_url: str
    buttons: Sequence[dict[str, Any]] = ()
    course: Sequence[Moment] = ()
    """What workers wrote down in the last hour, where that is shown."""

    @property
    def spark(self) -> Spark:
        """The last hour as a small chart."""
        says = gettext("Last hour: %(enqueued)s enqueued, %(ended)s ended, %(failed)s failed") % {
            "enqueued": shown.grouped(sum(moment.enqueued for moment in self.course)),
            "ended": shown.grouped(sum(moment.ended for moment in self.course)),
            "failed": shown.grouped(sum(moment.failed for moment in self.course)),
        }
        return spark(self.course, says=says, with_line=True)

    @property
    def command(self) -> str:
        """What starts a worker for it."""
        return shown.runjobs_for(self.name)

    @property
    def rate_in(self) -> str:
        """Jobs enqueued in a minute, in the mean of the last hour."""
        return shown.figure(sum(moment.enqueued for moment in self.course) / 60)

    @property
    def rate_out(self) -> str:
        """Runs ended in a minute, in the mean of the last hour."""
        return shown.figure(sum(moment.ended for moment in self.course) / 60)

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def state(self) -> SafeString:
        if self.queue.is_paused:
            return shown.badge(gettext("paused"), "paused")
        if self.is_stuck:
            return shown.badge(gettext("nobody serves it"), "lost")
        return shown.badge(gettext("open"), "successful")

    @property
    def is_stuck(self) -> bool:
        """Whether jobs are due that no live worker would take."""
        is_due = self.depth is not None and self.depth.due.count > 0
        return is_due and self.workers == 0 and not self.queue.is_paused

    @property
    def due(self) -> str:
        return shown.count(None if self.depth is None else self.depth.due)

    @property
    def later(self) -> str:
        return shown.count(None if self.depth is None else self.depth.later)

    @property
    def running(self) -> str:
        return shown.NOTHING if self.depth is None else shown.grouped(self.depth.running)

    @property
    def used(self) -> str:
        """How many of the slots that it can have are taken by its jobs."""
        return f"{shown.grouped(self.busy)}/{shown.grouped(self.slots)}"

    @property
    def limit_reached(self) -> str:
        """How many workers can't take another job of it, in words; nothing when all can."""
        if not self.limited:
            return ""
        words = {"count": self.limited, "all": self.workers}
        return gettext("limit reached on %(count)s of %(all)s workers") % words

    @property
    def used_in_words(self) -> str:
        return f"{self.used} ({self.limit_reached})" if self.limited else self.used

    @property
    def failed(self) -> str:
        return shown.count(None if self.depth is None else self.depth.failed)

    @property
    def oldest(self) -> str:
        seconds = None if self.depth is None else self.depth.oldest_due_seconds
        return shown.NOTHING if seconds is None else shown.span(timedelta(seconds=seconds))

    @property
    def paused_since(self) -> str:
        return shown.age(self.queue.paused_at)


def names_of_tasks() -> set[str]:
    return {task.queue_name for task in registry.values()}


def depths_of(counted: Census | None, names: Collection[str]) -> dict[str, Depth | None]:
    """Return queues by name; also those whose jobs took too long to count, since they can still be paused."""
    if counted is not None:
        return {depth.queue_name: depth for depth in counted.depths}
    known = Queue.objects.using(conf.database()).values_list("name", flat=True)
    return dict.fromkeys(sorted({*names, *known}))


def pause_offered(page: QueueAdmin, request: HttpRequest, queue: Queue) -> bool:
    return not queue.is_paused and page.may(request, "pause_queue")


def resume_offered(page: QueueAdmin, request: HttpRequest, queue: Queue) -> bool:
    return queue.is_paused and page.may(request, "pause_queue")


def of_view(name: str, title: Any) -> Any:
    """Return a field of a queue's page that shows what its view calls `name`."""

    def shown_field(page: QueueAdmin, queue: Any) -> str:
        return str(getattr(queue.view, name))

    return admin.display(description=title)(shown_field)


class QueueAdmin(ReadOnlyPages):
    """Queues."""

    actions_row = ("django_jobs_queue_pause", "django_jobs_queue_resume")
    actions_detail = actions_row
    actions = None
    list_display = ("name",)

    def get_urls(self) -> list[Any]:
        """The library's addresses have numbers, ours have names."""
        pages = []
        for name in self.actions_row:
            page = getattr(self, name)
            pages.append(path(f"{page.url_path}/<path:pk>/", self.admin_site.admin_view(page), name=name))
        return [*pages, *self.plain_urls()]

    def button_argument(self, instance: Any) -> Any:
        return quote(instance.pk)

    def views(self, request: HttpRequest, depths: Mapping[str, Depth | None]) -> list[QueueView]:
        """Return all queues."""
        alias = conf.database()
        with connections[alias].cursor() as cursor:
            running = stats.running(cursor)
        settings = {queue.name: queue for queue in Queue.objects.using(alias)}
        workers = [
            worker
            for worker in with_silence(Worker.objects.using(alias)).filter(state=WorkerState.RUNNING)
            if not is_stale(worker)
        ]
        found = []
        for name, depth in depths.items():
            queue = settings.get(name) or Queue(name=name)
            serving = [w for w in workers if takes(w.queues, w.excluded_queues, name)]
            busy = [running.get((name, worker.pk), 0) for worker in serving]
            pairs = zip(serving, busy, strict=True)
            found.append(
                QueueView(
                    queue=queue,
                    depth=depth,
                    workers=len(serving),
                    slots=sum(worker.room(name) for worker in serving),
                    busy=sum(busy),
                    limited=sum(name in (w.limits or {}) and number >= w.room(name) for w, number in pairs),
                    url=self.address_of(queue),
                    jobs_url=f"{self.address('django_jobs_job_changelist')}?{urlencode({'queue': name})}",
                    buttons=self.buttons(request, self.actions_row, queue),
                )
            )
        return found

    def view_of(self, request: HttpRequest, name: str) -> QueueView | None:
        """Return one queue, or `None` when nothing is known of such a name."""
        views = self.views(request, depths_of(self.counted(), {name}))
        return next((view for view in views if view.name == name), None)

    def counted(self) -> Census | None:
        """Return how many jobs there are, also in queues that only tasks name; `None` if it takes long."""
        return hurried(conf.database(), lambda cursor: census(cursor, sorted(names_of_tasks())))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show all queues on one page: there are as many as someone gave names to."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        alias = conf.database()
        found = hurried(alias, lambda cursor: statistics.recent(cursor, by_task=False))
        counted = self.counted()
        views = [
            replace(view, course=(found or {}).get(view.name, ()))
            for view in self.views(request, depths_of(counted, names_of_tasks()))
        ]
        context = {
            "views": views,
            "took_too_long": None in (found, counted),
            "stuck": [view for view in views if view.is_stuck],
            "summary": self.summary(counted) if counted else [],
            "may_see_jobs": request.user.has_perm("django_jobs.view_job"),
            **(extra_context or {}),
        }
        return self.in_place_of_the_list(
            request, "admin/django_jobs/queue/change_list.html", gettext("Queues"), context
        )

    def summary(self, counted: Census) -> list[dict[str, Any]]:
        """Return how many jobs there are by state, with the lists that hold them."""
        jobs = self.address("django_jobs_job_changelist")
        return [
            {
                "title": words,
                "count": shown.count(found),
                "key": key,
                "url": f"{jobs}?{urlencode({'state': state})}",
            }
            for words, found, key, state in (
                (gettext("due"), counted.due, "ready", "ready"),
                (gettext("for later"), counted.later, "scheduled", "waiting"),
                (gettext("running"), counted.running, "running", "running"),
                (gettext("failed"), counted.failed, "failed", "failed"),
                (gettext("cancelled"), counted.cancelled, "cancelled", "cancelled"),
                (gettext("successful"), counted.successful, "successful", "successful"),
            )
        ]

    # One queue.

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Queue | None:
        """Return a queue also when nothing was ever set for it."""
        view = self.view_of(request, object_id)
        if view is None:
            return None
        view.queue.view = view  # type: ignore[attr-defined]  # for the columns of its row
        return view.queue

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[tuple[Any, dict[str, Any]]]:
        fields: list[Any] = [("state", "workers", "slots"), ("due", "oldest", "later", "running", "failed")]
        if obj is not None and obj.is_paused:
            fields += [("shown_paused", "paused_by"), "pause_reason"]
        return [(None, {"fields": fields})]

    def detail_context(self, request: HttpRequest, instance: Any) -> dict[str, Any]:
        """Add what the warning, the link and the figures need."""
        period, name = period_of(request), instance.name
        found = hurried(conf.database(), lambda cursor: statistics.figures(cursor, period, name))
        return {
            "view": instance.view,
            "may_see_jobs": request.user.has_perm("django_jobs.view_job"),
            "took_too_long": found is None,
            **pace(found, period, lambda **filters: f"{instance.view.jobs_url}&{urlencode(filters)}"),
        }

    state = of_view("state", _("state"))
    due = of_view("due", _("due"))
    later = of_view("later", _("for later"))
    oldest = of_view("oldest", _("oldest due job waits"))
    running = of_view("running", _("running"))
    failed = of_view("failed", _("failed"))
    workers = of_view("workers", _("live workers"))
    slots = of_view("used_in_words", _("slots busy with it"))

    @admin.display(description=_("paused"))
    def shown_paused(self, queue: Queue) -> str:
        return shown.age(queue.paused_at)

    # Pause and resume.

    @button(title=_("Pause"), url_path="pause", shown=pause_offered)
    def django_jobs_queue_pause(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Ask whether no more jobs of a queue shall be started."""
        says = gettext(
            "No worker will start a job of the queue “%(name)s” until it is resumed, also after restarts. "
            "Due: %(waiting)s, which will wait. Running: %(running)s, which go on."
        )
        return self.confirm(request, pk, ReasonChoice, pausing=True, says=says)

    @button(title=_("Resume"), url_path="resume", shown=resume_offered)
    def django_jobs_queue_resume(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Ask whether jobs of a queue shall be started again."""
        says = gettext(
            "Workers will start jobs of the queue “%(name)s” again, at once. "
            "Due: %(waiting)s. Running: %(running)s."
        )
        return self.confirm(request, pk, NoChoice, pausing=False, says=says)

    def confirm(
        self, request: HttpRequest, pk: str, form_class: type[forms.Form], *, pausing: bool, says: str
    ) -> HttpResponse:
        """Ask, or do it when the request is the answer. Raises PermissionDenied."""
        self.require(request, "pause_queue")
        view = self.view_of(request, unquote(pk))
        if view is None:
            return self.missing(request, pk)
        answered = request.method == "POST"
        form = form_class(request.POST if answered else None)
        back = self.list_address(request)
        if answered and form.is_valid():
            self.change(request, view.name, form.cleaned_data.get("reason", ""), pausing=pausing)
            return HttpResponseRedirect(back)
        possible = view.queue.is_paused is not pausing
        already = gettext("It is paused already.") if pausing else gettext("It isn’t paused.")
        words = {"name": view.name, "waiting": view.due, "running": view.running}
        title = gettext("Pause the queue %(name)s") if pausing else gettext("Resume the queue %(name)s")
        question = Question(
            title=title % words,
            says=[says % words if possible else already],
            button=gettext("Pause") if pausing else gettext("Resume"),
            form=form,
            possible=possible,
            back=back,
            trail=[*self.trail(request), Crumb(view.name, view.url)],
        )
        return ask(self, request, question)

    def change(self, request: HttpRequest, name: str, reason: str, *, pausing: bool) -> None:
        """Pause or resume a queue, record it, and tell the user."""
        operations = Operations(conf.database())
        by = request.user.get_username()
        with transaction.atomic(using=operations.alias):
            if pausing:
                changed = operations.pause(name, by=by[:PAUSED_BY_LENGTH], reason=reason)
                log = gettext("Paused: %(reason)s") % {"reason": reason} if reason else gettext("Paused.")
            else:
                changed = operations.resume(name)
                log = gettext("Resumed.")
            if changed:
                self.record(request, [Queue(name=name)], CHANGE, log)
        words = {
            (True, True): gettext("Paused the queue “%(name)s”."),
            (True, False): gettext("Skipped: the queue “%(name)s” was paused already."),
            (False, True): gettext("Resumed the queue “%(name)s”."),
            (False, False): gettext("Skipped: the queue “%(name)s” wasn’t paused."),
        }
        level = messages.SUCCESS if changed else messages.WARNING
        self.tell(request, words[pausing, changed] % {"name": name}, level)


PAUSED_BY_LENGTH = Queue._meta.get_field("paused_by").max_length
