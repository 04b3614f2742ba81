"""
The page of the tasks that this process knows: their options, what became of them, and a form to run one.

What is enqueued by hand is checked as any call is, and its meta says by whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import ADDITION
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path
from django.utils.http import urlencode
from django.utils.translation import gettext

from django_jobs import conf
from django_jobs.dashboard import shown
from django_jobs.dashboard.base import ReadOnlyPages
from django_jobs.dashboard.calling import CallForm, shown_signature
from django_jobs.dashboard.charts import Spark, spark
from django_jobs.dashboard.confirming import Question, ask
from django_jobs.dashboard.hurried import hurried
from django_jobs.dashboard.pace import lengths
from django_jobs.models import Job
from django_jobs.store.statistics import PERIODS, Moment, Tally, kinds, recent, together
from django_jobs.tasks import UNSET, JobTask, is_jobs_backend, registry
from django_jobs.working_off import OwnTask


class TaskAdmin(ReadOnlyPages):
    """Tasks. They are code, so there are no rows: one list, and one form for each."""

    list_display = ("__str__",)
    actions = None

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="django_jobs_knowntask_changelist"),
            path("run/<path:name>/", view(self.run_view), name="django_jobs_knowntask_run"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show all tasks whose jobs are kept here."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        day = PERIODS[1]
        found = hurried(conf.database(), lambda cursor: (kinds(cursor, day), recent(cursor, by_task=True)))
        figures, courses = found or ({}, {})
        ended = together((task, tally) for (_queue, task), tally in figures.items())
        context = {
            "took_too_long": found is None,
            "may_see_jobs": request.user.has_perm("django_jobs.view_job"),
            "may_run": self.may(request, "run_task"),
            "tasks": [
                self.row(task, ended.get(name, Tally()), courses.get(name, ()))
                for name, task in sorted(ours().items())
            ],
            **(extra_context or {}),
        }
        return self.in_place_of_the_list(
            request, "admin/django_jobs/knowntask/change_list.html", gettext("Tasks"), context
        )

    def row(self, task: JobTask, tally: Tally, course: Sequence[Moment]) -> dict[str, Any]:
        """Return one task for the list."""
        settings = conf.current()
        attempts = task.max_attempts if not unset(task.max_attempts) else settings.max_attempts
        timeout = task.timeout if not unset(task.timeout) else settings.timeout
        name = task.module_path
        jobs = self.address("django_jobs_job_changelist")
        return {
            "name": shown.path(name),
            "plain_name": name,
            "signature": shown_signature(task),
            "url": f"{jobs}?{urlencode({'task': name})}",
            "run_url": self.address("django_jobs_knowntask_run", quote(name)),
            "queue": task.queue_name,
            "priority": task.priority,
            "attempts": "∞" if attempts is None else attempts,
            "timeout": shown.span(timeout if isinstance(timeout, timedelta) else None),
            "spark": spark_of(course),
            **lengths(tally),
        }

    def run_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Ask for the arguments of a task, or enqueue it when the request has them."""
        self.require(request, "run_task")
        task = ours().get(unquote(name))
        if task is None:
            raise Http404
        back = self.list_address(request)
        answered = request.method == "POST"
        form = CallForm(task, request.POST if answered else None)
        if answered and form.is_valid() and (job := self.enqueue(request, task, form)) is not None:
            self.tell(request, gettext("Enqueued %(job)s.") % {"job": job}, messages.SUCCESS)
            return HttpResponseRedirect(self.address_of(job) if self.may_see(request) else back)
        says = [
            gettext("A job will be enqueued in the queue “%(queue)s”, due at once.")
            % {"queue": task.queue_name}
        ]
        if doc := (task.func.__doc__ or "").strip():
            says.append(doc.partition("\n\n")[0])
        question = Question(
            title=gettext("Run %(task)s") % {"task": task.module_path},
            says=says,
            button=gettext("Enqueue"),
            form=form,
            back=back,
            trail=self.trail(request),
        )
        return ask(self, request, question)

    def may_see(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("django_jobs.view_job"))

    def enqueue(self, request: HttpRequest, task: JobTask, form: CallForm) -> Job | None:
        """Enqueue a call, and write down who did; `None` where it can't be, which the form then tells."""
        call = form.call()
        try:
            with transaction.atomic(using=conf.database()):
                named = task.using(meta={"enqueued_by": request.user.get_username()})
                result = named.enqueue(*call.args, **call.kwargs)
                job = Job(pk=int(result.id), task_path=task.module_path)
                self.record(request, [job], ADDITION, gettext("Enqueued by hand."))
        except (TypeError, ValueError) as error:
            form.add_error(None, str(error))
            return None
        return job


def spark_of(course: Sequence[Moment]) -> Spark:
    """Return the last hour of a task as a small chart: what ended, and what of it failed."""
    ended, failed = (sum(getattr(moment, name) for moment in course) for name in ("ended", "failed"))
    says = gettext("Last hour: %(ended)s ended, %(failed)s failed (%(share)s)") % {
        "ended": shown.grouped(ended),
        "failed": shown.grouped(failed),
        "share": shown.share(failed, ended),
    }
    return spark(course, says=says, with_line=False)


def ours() -> dict[str, JobTask]:
    """Return the known tasks of the project's whose jobs are kept in these tables."""
    return {
        name: task
        for name, task in registry.items()
        if is_jobs_backend(task.get_backend()) and not isinstance(task, OwnTask)
    }


def unset(value: Any) -> bool:
    """Whether an option was left to the settings."""
    return value is UNSET
