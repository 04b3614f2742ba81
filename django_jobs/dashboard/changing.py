"""
Changing one job other than by its state: another queue, priority or time while it waits, and a copy of it.

Both ask first, as all actions do, and are written to the log. What changes is decided in `store/control.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import ADDITION, CHANGE
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs.conf import QUEUE_NAME_LENGTH
from django_jobs.core.states import State
from django_jobs.dashboard import shown
from django_jobs.dashboard.actions import NoChoice
from django_jobs.dashboard.base import button
from django_jobs.dashboard.confirming import Crumb, Question, ask
from django_jobs.framework import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY
from django_jobs.models import Job
from django_jobs.operations import Operations

if TYPE_CHECKING:
    from django_jobs.dashboard.jobs import JobAdmin

WAITING = (State.READY, State.BLOCKED)

MINUTES = "%Y-%m-%dT%H:%M:%S"
"""How a browser's field for a point in time writes it."""


class EditForm(forms.Form):
    """What may be changed of a job that waits."""

    queue_name = forms.CharField(
        label=_("Queue"),
        max_length=QUEUE_NAME_LENGTH,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )
    priority = forms.IntegerField(
        label=_("Priority"),
        min_value=TASK_MIN_PRIORITY,
        max_value=TASK_MAX_PRIORITY,
        help_text=_("From −100 to 100; higher ones go first."),
    )
    run_after = forms.DateTimeField(
        label=_("Due"),
        widget=forms.DateTimeInput(format=MINUTES, attrs={"type": "datetime-local", "step": "1"}),
        help_text=_("In your time zone."),
    )

    def clean_run_after(self) -> Any:
        """Leave the exact time alone where only its fraction, which the field can't show, is gone."""
        given, before = self.cleaned_data["run_after"], self.initial.get("run_after")
        if before is not None and given == before.replace(microsecond=0):
            return before
        if given.year > 9999 - 1:
            raise ValidationError(_("That is too far ahead."))
        return given


def edit_offered(page: JobAdmin, request: HttpRequest, job: Job) -> bool:
    return job.state in WAITING and page.may(request, "change_job")


def copy_offered(page: JobAdmin, request: HttpRequest, job: Job) -> bool:
    return page.may(request, "add_job")


class ChangingPages:
    """The pages that change one job; a part of `JobAdmin`."""

    @button(title=_("Edit"), url_path="edit", shown=edit_offered)
    def django_jobs_job_edit(self: JobAdmin, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask for another queue, priority or time."""

        def change(operations: Operations, job: Job, data: Mapping[str, Any]) -> tuple[str, int]:
            changed = {name: value for name, value in data.items() if value != getattr(job, name)}
            if not changed:
                return gettext("Nothing was changed."), messages.INFO
            if not operations.edit(job.pk, **changed):
                return gettext("Skipped: it isn’t waiting any more."), messages.WARNING
            words = "; ".join(
                f"{EditForm.base_fields[name].label}: {told(getattr(job, name))} → {told(value)}"
                for name, value in changed.items()
            )
            self.record(request, [job], CHANGE, gettext("Edited: %(changes)s") % {"changes": words})
            return gettext("Changed %(job)s.") % {"job": job}, messages.SUCCESS

        return answer(
            self, request, pk, "change_job", edit_offered,
            title=gettext("Edit"), button_title=gettext("Save"),
            says=gettext("A job can be changed while it waits. Its arguments can’t."),
            form_class=EditForm, change=change,
        )  # fmt: skip

    @button(title=_("Enqueue a copy"), url_path="copy", shown=copy_offered)
    def django_jobs_job_copy(self: JobAdmin, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask whether a job like this one shall be enqueued."""

        def change(operations: Operations, job: Job, data: Mapping[str, Any]) -> tuple[str, int]:
            made = operations.copy(job.pk, by=request.user.get_username())
            if made is None:
                return gettext("Skipped: there is no such job any more."), messages.WARNING
            copy = Job(pk=made, task_path=job.task_path)
            self.record(request, [copy], ADDITION, gettext("Enqueued as a copy of #%(id)s.") % {"id": job.pk})
            return gettext("Enqueued %(job)s.") % {"job": copy}, messages.SUCCESS

        return answer(
            self, request, pk, "add_job", copy_offered, title=gettext("Enqueue a copy"),
            button_title=gettext("Enqueue"),
            says=gettext(
                "A new job with the same task, arguments, queue and priority will be due at once. This one "
                "stays as it is."
            ),
            form_class=NoChoice, change=change,
        )  # fmt: skip


def answer(
    page: JobAdmin,
    request: HttpRequest,
    pk: int,
    permission: str,
    offered: Callable[[JobAdmin, HttpRequest, Job], bool],
    *,
    title: str,
    button_title: str,
    says: str,
    form_class: type[forms.Form],
    change: Callable[[Operations, Job, Mapping[str, Any]], tuple[str, int]],
) -> HttpResponse:
    """Ask about one job, or do it when the request is the answer. Raises PermissionDenied."""
    page.require(request, permission)
    job = page.get_object(request, str(pk))
    if job is None:
        return page.missing(request, str(pk))
    answered = request.method == "POST"
    initial = {name: getattr(job, name) for name in form_class.base_fields}
    form = form_class(request.POST if answered else None, initial=initial)
    possible = offered(page, request, job)
    if answered and form.is_valid():
        operations = Operations(str(job._state.db))
        with transaction.atomic(using=operations.alias):
            text, level = change(operations, job, form.cleaned_data)
        page.tell(request, text, level)
        return HttpResponseRedirect(page.address_of(job))
    question = Question(
        title=title,
        says=[says if possible else gettext("It isn’t waiting, so it can’t be changed.")],
        button=button_title,
        form=form,
        possible=possible,
        back=page.address_of(job),
        trail=[*page.trail(request), Crumb(str(job), page.address_of(job))],
    )
    return ask(page, request, question)


def told(value: Any) -> str:
    """Return a value for the log."""
    return shown.moment(value) if hasattr(value, "year") else str(value)
