"""The pages about jobs: the list, one job with its story, and what may be done to them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_jobs.core.ids import id_of
from django_jobs.core.states import State
from django_jobs.dashboard import shown
from django_jobs.dashboard.about import subject_of
from django_jobs.dashboard.actions import ACTIONS, CANCEL, DELETE, RETRY, RUN, Action
from django_jobs.dashboard.base import ReadOnlyPages, button
from django_jobs.dashboard.bulk_asking import Bulk, bulk_of
from django_jobs.dashboard.changing import ChangingPages
from django_jobs.dashboard.confirming import Crumb, confirm
from django_jobs.dashboard.explaining import Explanation, explain
from django_jobs.dashboard.filters import JOB_FILTERS, NAMES, PLAIN, described
from django_jobs.dashboard.lists import CappedPaginator, JobChangeList, search
from django_jobs.dashboard.pictures import picture
from django_jobs.dashboard.story import Run, captures_of, runs_of, timeline
from django_jobs.models import Attempt, Capture, Job, Worker


def job_button(action: Action) -> Any:
    """Declare the page of an action on one job, with the button shown where the action applies."""

    def offered(page: JobAdmin, request: HttpRequest, job: Job) -> bool:
        if not page.may(request, action.permission) or job.state not in action.states:
            return False
        if action is RUN:
            return job.is_ahead  # due ones are as soon as can be
        return not (action is CANCEL and job.cancel_requested_at is not None)

    def ask(page: JobAdmin, request: HttpRequest, pk: int) -> HttpResponse:
        return page.confirm_one(request, pk, action)

    title = action.button or action.title
    return button(title=title, url_path=action.name, shown=offered, dangerous=action.dangerous)(ask)


def bulk(action: Action) -> Any:
    """Declare the entry of an action in the list's menu."""

    def ask(page: JobAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse:
        return page.confirm_selected(request, queryset, action)

    ask.__name__ = f"{action.name}_jobs"
    return admin.action(permissions=[f"{action.name}_jobs"], description=action.selected)(ask)


def retry_all_offered(page: JobAdmin, request: HttpRequest, instance: None) -> bool:
    return request.GET.get("state", "failed") == "failed" and page.has_retry_jobs_permission(request)


UNFINISHED = (State.READY, State.BLOCKED, State.RUNNING)


class JobAdmin(ChangingPages, ReadOnlyPages):
    """Jobs."""

    list_display = (
        "job_id",
        "shown_state",
        "shown_task",
        "queue_name",
        "shown_attempts",
        "shown_age",
        "shown_duration",
        "shown_reason",
    )
    list_display_links = ("job_id",)
    list_filter = JOB_FILTERS
    list_per_page = 50
    list_max_show_all = 200
    search_fields = ("id", "task_path")
    search_help_text = _("The id of a job, the name of its queue, or how the path of its task begins.")
    ordering = ("-id",)
    show_facets = ShowFacets.NEVER  # they would count every choice
    paginator = CappedPaginator
    actions = [bulk(action) for action in ACTIONS]
    actions_list = ("django_jobs_job_retry_failed",)
    actions_row = (
        "django_jobs_job_retry",
        "django_jobs_job_run",
        "django_jobs_job_cancel",
        "django_jobs_job_discard",
    )
    actions_detail = (*actions_row, "django_jobs_job_edit", "django_jobs_job_copy")

    django_jobs_job_retry = job_button(RETRY)
    django_jobs_job_run = job_button(RUN)
    django_jobs_job_cancel = job_button(CANCEL)
    django_jobs_job_discard = job_button(DELETE)

    @button(title=_("Retry all failed"), url_path="retry-failed/", shown=retry_all_offered)
    def django_jobs_job_retry_failed(self, request: HttpRequest) -> HttpResponse:
        """Ask about all failed jobs that the list's filters leave, also beyond its page."""
        self.require(request, RETRY.permission)
        filters = request.GET.copy()
        for name in set(filters) - NAMES - PLAIN - {"q"}:
            del filters[name]
        filters["state"] = "failed"
        request.GET = filters  # type: ignore[assignment]  # the stubs have it immutable
        back = f"{self.address('django_jobs_job_changelist')}?{filters.urlencode()}"
        listed = self.get_changelist_instance(request)
        return confirm(
            self,
            request,
            RETRY,
            listed.queryset,
            answered=request.method == "POST",
            matching=described(request),
            back=back,
            trail=[*self.trail(request)[:-1], Crumb(capfirst(self.opts.verbose_name_plural), back)],
            bulk=bulk_of(request, listed),
        )

    def confirm_one(self, request: HttpRequest, pk: int, action: Action) -> HttpResponse:
        """Ask about one job."""
        self.require(request, action.permission)
        job = self.get_object(request, str(pk))
        if job is None:
            return self.missing(request, str(pk))
        came_from_list = "_changelist_filters" in request.GET or "list" in request.GET
        leaves = action is DELETE or came_from_list
        return confirm(
            self,
            request,
            action,
            self.get_queryset(request).filter(pk=job.pk),
            answered=request.method == "POST",
            matching=str(job),
            back=self.list_address(request) if leaves else self.address_of(job),
            trail=[*self.trail(request), Crumb(str(job), self.address_of(job))],
            ids=[job.pk],
        )

    def response_action(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """As Django's, but what is no id chooses nothing; Django lets the database or Python refuse it."""
        post = request.POST.copy()
        chosen = [pk if id_of(pk) else "0" for pk in post.getlist(ACTION_CHECKBOX_NAME)]
        post.setlist(ACTION_CHECKBOX_NAME, chosen)
        request.POST = post  # type: ignore[assignment]  # a copy that may be changed
        return super().response_action(request, *args, **kwargs)

    def confirm_selected(self, request: HttpRequest, queryset: QuerySet[Job], action: Action) -> HttpResponse:
        """Ask about the jobs that were ticked in the list, or all that match its filters."""
        self.require(request, action.permission)
        hidden = [("action", f"{action.name}_jobs")]
        ids: list[int] | None = None
        bulk_wanted: Bulk | None = None
        if request.POST.get("select_across") == "1":
            matching = described(request) or gettext("all jobs")
            hidden += [("select_across", "1"), (ACTION_CHECKBOX_NAME, "0")]
            bulk_wanted = bulk_of(request, self.get_changelist_instance(request))
        else:
            # By their ids alone: one that has left the filter since is skipped with its state, not forgotten.
            chosen = map(id_of, request.POST.getlist(ACTION_CHECKBOX_NAME))
            ids = sorted({number for number in chosen if number is not None})
            queryset = self.get_queryset(request).filter(pk__in=ids).order_by("-pk")
            words = ngettext("%(count)d selected job", "%(count)d selected jobs", len(ids))
            matching = words % {"count": len(ids)}
            hidden += [(ACTION_CHECKBOX_NAME, str(pk)) for pk in ids]
        return confirm(
            self,
            request,
            action,
            queryset,
            answered="confirmed" in request.POST,
            matching=matching,
            back=request.get_full_path(),
            trail=self.trail(request),
            hidden=hidden,
            ids=ids,
            bulk=bulk_wanted,
        )

    # Permissions, by the names that Django's menu of actions asks for. `has_delete_permission` stays False:
    # Django's own deletion would take running jobs too, and tell no receiver.

    def has_retry_jobs_permission(self, request: HttpRequest) -> bool:
        return self.may(request, RETRY.permission)

    def has_cancel_jobs_permission(self, request: HttpRequest) -> bool:
        return self.may(request, CANCEL.permission)

    def has_run_jobs_permission(self, request: HttpRequest) -> bool:
        return self.may(request, RUN.permission)

    def has_delete_jobs_permission(self, request: HttpRequest) -> bool:
        return self.may(request, DELETE.permission)

    # The list.

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:
        return JobChangeList

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only what is known to be quick and to tell nothing of arguments; see `filters.PLAIN`."""
        return lookup in NAMES | PLAIN

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return search(queryset, search_term), False

    @admin.display(description=_("id"))
    def job_id(self, job: Job) -> str:
        return str(job.pk)  # not as a quantity: 12345, not 12,345

    @admin.display(description=_("state"))
    def shown_state(self, job: Job) -> SafeString:
        return shown.state_badge(job)

    @admin.display(description=_("task"))
    def shown_task(self, job: Job) -> SafeString:
        return shown.path(job.task_path)

    @admin.display(description=_("attempts"))
    def shown_attempts(self, job: Job) -> str:
        return shown.attempts(job)

    @admin.display(description=_("age"))
    def shown_age(self, job: Job) -> str:
        return shown.age(job.enqueued_at)

    @admin.display(description=_("duration"))
    def shown_duration(self, job: Job) -> SafeString:
        return format_html("<bdi>{}</bdi>", shown.span(job.duration))

    @admin.display(description=_("reason"))
    def shown_reason(self, job: Job) -> str:
        return shown.cut(job.reason)

    # One job.

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[tuple[Any, dict[str, Any]]]:
        waits = obj is not None and obj.state in (State.READY, State.BLOCKED)
        about = [
            ("shown_state", "queue_name", "priority", "shown_attempts"),
            ("shown_age", "shown_due" if waits else "shown_duration"),
            "shown_whole_reason",
        ]
        found: list[tuple[Any, dict[str, Any]]] = [(None, {"fields": about})]
        if self.may(request, "view_arguments"):
            values = {"fields": ["shown_args", "shown_kwargs", "shown_result"]}
            found.append((_("Arguments and result"), values))
        found.append((_("Meta"), {"fields": ["shown_meta"]}))
        return found

    def detail_context(self, request: HttpRequest, instance: Job) -> dict[str, Any]:
        """Add the story of the job, and say what of it this user may not see."""
        runs, earlier = runs_of(instance)
        workers: dict[int | None, Worker] = {}
        if request.user.has_perm("django_jobs.view_worker"):
            workers = Worker.objects.using(instance._state.db).in_bulk({run.worker for run in runs} - {None})
        captures = captures_of(instance, runs) if self.may(request, "view_arguments") else {}
        return {
            "runs": [self.shown_run(run, workers.get(run.worker), captures.get(run.number)) for run in runs],
            "earlier_runs": earlier,
            "timeline": timeline(instance, runs),
            "picture": picture(instance, runs),
            "explanation": self.explanation(instance),
            "subject": subject_of(request, self.admin_site, instance),
            "changes_by_itself": instance.state in UNFINISHED,
            "arguments_hidden": not self.may(request, "view_arguments"),
        }

    def explanation(self, job: Job) -> Explanation | None:
        """Return why a job that should run doesn't."""
        if job.state in UNFINISHED:
            found = explain(str(job._state.db), job.pk)
            if [reason.key for reason in found.reasons] != ["running"]:
                return found
        return None

    def shown_run(self, run: Attempt, worker: Worker | None, capture: Capture | None) -> Run:
        """Return one run for the page, with the name and page of its worker where they are to be had."""
        if worker is None:
            return Run(run, worker_name="" if run.worker is None else f"#{run.worker}", capture=capture)
        return Run(run, self.address_of(worker), str(worker), capture)

    @admin.display(description=_("due"))
    def shown_due(self, job: Job) -> str:
        return shown.age(job.run_after) if job.is_ahead else shown.moment(job.run_after)

    @admin.display(description=_("reason"))
    def shown_whole_reason(self, job: Job) -> str:
        return job.reason or shown.NOTHING

    @admin.display(description=_("positional"))
    def shown_args(self, job: Job) -> str:
        return shown.positional(job)

    @admin.display(description=_("by name"))
    def shown_kwargs(self, job: Job) -> str:
        return shown.masked_json(job.kwargs)

    @admin.display(description=_("result"))
    def shown_result(self, job: Job) -> str:
        return shown.masked_json(job.return_value)

    @admin.display(description=_("meta"))
    def shown_meta(self, job: Job) -> str:
        return shown.masked_json(job.meta)
