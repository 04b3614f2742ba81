"""The pages about bulk actions: what was asked for, how far it is, and how to stop it or have it go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import ShowFacets
from django.contrib.admin.models import CHANGE
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs import conf, working_off
from django_jobs.core.states import FINAL, State
from django_jobs.dashboard import shown
from django_jobs.dashboard.actions import ACTIONS, NoChoice
from django_jobs.dashboard.base import ReadOnlyPages, button
from django_jobs.dashboard.confirming import Crumb, Question, ask
from django_jobs.dashboard.explaining import explain
from django_jobs.models import BulkAction, Job

TITLES = {action.name: action.title for action in ACTIONS}


def may_change(page: BulkActionAdmin, request: HttpRequest, bulk: BulkAction) -> bool:
    """Whether the user may do what the bulk action does."""
    return bulk.action in TITLES and page.may(request, f"{bulk.action}_job")


def stop_offered(page: BulkActionAdmin, request: HttpRequest, bulk: BulkAction) -> bool:
    return bulk.finished_at is None and may_change(page, request, bulk)


def go_on_offered(page: BulkActionAdmin, request: HttpRequest, bulk: BulkAction) -> bool:
    return stop_offered(page, request, bulk) and has_no_job(job_of(bulk))


class BulkActionAdmin(ReadOnlyPages):
    """Bulk actions. Who may see jobs may see them."""

    list_display = (
        "__str__",
        "shown_action",
        "matching",
        "shown_state",
        "shown_done",
        "asked_by",
        "shown_asked",
    )
    list_per_page = 50
    show_facets = ShowFacets.NEVER
    show_full_result_count = False
    actions = None
    ordering = ("-id",)
    actions_detail = ("django_jobs_bulkaction_stop", "django_jobs_bulkaction_go_on")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("django_jobs.view_job"))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[tuple[Any, dict[str, Any]]]:
        fields = [
            ("shown_action", "shown_state", "shown_job"),
            ("shown_done", "shown_skipped", "shown_total", "per_second"),
            "matching",
            ("shown_asked", "asked_by"),
            ("shown_finished", "stopped_by"),
        ]
        return [(None, {"fields": fields})]

    def detail_context(self, request: HttpRequest, instance: BulkAction) -> dict[str, Any]:
        """Add how far it is, and why it isn't getting any further."""
        job = job_of(instance)
        share = share_of(instance)
        return {
            "changes_by_itself": instance.finished_at is None,
            "share": share,
            "progress": progress(instance),
            "reasons": [] if instance.finished_at is not None else self.reasons(job),
        }

    def reasons(self, job: Job | None) -> list[Any]:
        """Return why nothing happens, if so."""
        if has_no_job(job):
            said = gettext("Its job has ended before its time.") if job is None else (
                gettext("Its job has ended before its time: %(state)s. %(reason)s")
                % {"state": job.label, "reason": shown.cut(job.reason)}
            )  # fmt: skip
            return [{"says": said, "remedy": gettext("“Go on” enqueues another, which goes on from there.")}]
        assert job is not None
        if job.state == State.RUNNING:
            return []
        return list(explain(conf.database(), job.pk).reasons)

    # Stop and go on.

    @button(title=_("Stop"), url_path="stop", shown=stop_offered, dangerous=True)
    def django_jobs_bulkaction_stop(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask whether a bulk action shall end here."""

        def act(bulk: BulkAction) -> tuple[bool, str]:
            by = request.user.get_username()
            stopped = working_off.stop(bulk, by=by, user_key=str(request.user.pk))
            return stopped, gettext("Stopped it.") if stopped else gettext("Skipped: it was finished.")

        says = gettext("It ends before its next batch. What is done stays done. It can’t be resumed.")
        return self.confirm(request, pk, gettext("Stop"), says, act, dangerous=True)

    @button(title=_("Go on"), url_path="go-on", shown=go_on_offered)
    def django_jobs_bulkaction_go_on(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask whether another job shall be enqueued for it."""

        def act(bulk: BulkAction) -> tuple[bool, str]:
            words = gettext("A job was enqueued that goes on with it.")
            went_on = working_off.go_on(bulk)
            if went_on:
                self.record(request, [bulk], CHANGE, words)
            return went_on, words if went_on else gettext("Skipped: it is finished, or has a job.")

        says = gettext("Another job goes on with it, from where the last one was.")
        return self.confirm(request, pk, gettext("Go on"), says, act)

    def confirm(
        self,
        request: HttpRequest,
        pk: int,
        title: str,
        says: str,
        act: Callable[[BulkAction], tuple[bool, str]],
        *,
        dangerous: bool = False,
    ) -> HttpResponse:
        """Ask, or do it when the request is the answer. Raises PermissionDenied."""
        self.require(request, "view_job")
        bulk = self.get_object(request, str(pk))
        if bulk is None:
            return self.missing(request, str(pk))
        self.require(request, f"{bulk.action}_job")
        back = self.address_of(bulk)
        if request.method == "POST":
            done, words = act(bulk)
            self.tell(request, words, messages.SUCCESS if done else messages.WARNING)
            return HttpResponseRedirect(back)
        possible = bulk.finished_at is None
        question = Question(
            title=title,
            says=[says if possible else gettext("It is finished."), progress(bulk)],
            button=title,
            form=NoChoice(),
            possible=possible,
            dangerous=dangerous,
            back=back,
            trail=[*self.trail(request), Crumb(str(bulk), back)],
        )
        return ask(self, request, question)

    @admin.display(description=_("action"))
    def shown_action(self, bulk: BulkAction) -> str:
        return str(TITLES.get(bulk.action, bulk.action))

    @admin.display(description=_("state"))
    def shown_state(self, bulk: BulkAction) -> SafeString:
        if bulk.finished_at is None:
            return shown.badge(gettext("under way"), "running")
        if bulk.stopped_by:
            return shown.badge(gettext("stopped"), "cancelled")
        return shown.badge(gettext("done"), "successful")

    @admin.display(description=_("job"))
    def shown_job(self, bulk: BulkAction) -> SafeString | str:
        if bulk.job is None:
            return shown.NOTHING
        return shown.link(self.address("django_jobs_job_change", bulk.job), f"#{bulk.job}")

    @admin.display(description=_("done"))
    def shown_done(self, bulk: BulkAction) -> str:
        return shown.grouped(bulk.done)

    @admin.display(description=_("skipped"))
    def shown_skipped(self, bulk: BulkAction) -> str:
        return shown.grouped(bulk.skipped)

    @admin.display(description=_("expected"))
    def shown_total(self, bulk: BulkAction) -> str:
        number = shown.grouped(bulk.total)
        return gettext("about %(number)s (estimated)") % {"number": number} if bulk.is_estimate else number

    @admin.display(description=_("asked"))
    def shown_asked(self, bulk: BulkAction) -> str:
        return shown.age(bulk.asked_at)

    @admin.display(description=_("finished"))
    def shown_finished(self, bulk: BulkAction) -> str:
        return shown.age(bulk.finished_at)


def job_of(bulk: BulkAction) -> Job | None:
    """Return the job that works a bulk action off, looked up once for each object."""
    known = vars(bulk)
    if "found_job" not in known:
        jobs = Job.objects.using(bulk._state.db).defer("args", "kwargs", "return_value", "meta")
        known["found_job"] = None if bulk.job is None else jobs.filter(pk=bulk.job).first()
    found: Job | None = known["found_job"]
    return found


def has_no_job(job: Job | None) -> bool:
    """Whether nobody works it off any more."""
    return job is None or job.state in FINAL


def share_of(bulk: BulkAction) -> int:
    """Return how much of the expected jobs were dealt with, in per cent; less than all until the end."""
    if bulk.finished_at is not None and not bulk.stopped_by:
        return 100
    return min(99, 100 * (bulk.done + bulk.skipped) // max(1, bulk.total))


def progress(bulk: BulkAction) -> str:
    """Return how far it is in words."""
    words = gettext("%(done)s done, %(skipped)s skipped, %(total)s expected.") % {
        "done": shown.grouped(bulk.done),
        "skipped": shown.grouped(bulk.skipped),
        "total": shown.grouped(bulk.total),
    }
    if bulk.finished_at is not None:
        return words
    left = max(0, bulk.total - bulk.done - bulk.skipped) / max(1, bulk.per_second)
    at_best = gettext("At its pace it takes another %(span)s at the least.")
    return f"{words} {at_best % {'span': shown.span(timedelta(seconds=left))}}"
