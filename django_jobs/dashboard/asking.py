"""
Asking workers to drain or to stop: the buttons of their pages.

What is asked, and of whom, is decided in `store/steering.py`; `answering` says what became of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.states import Wish
from django_jobs.dashboard.actions import NoChoice
from django_jobs.dashboard.answering import doubt, told
from django_jobs.dashboard.base import ReadOnlyPages, button
from django_jobs.dashboard.confirming import Crumb, Question, ask
from django_jobs.models import Worker, WorkerState
from django_jobs.operations import Operations
from django_jobs.store.steering import Answer, Verdict

MOST_TOLD = 10
"""Workers that weren't asked of which the message tells one by one."""


def can_be_asked(worker: Any, wish: Wish) -> bool:
    """Whether a request would change anything, as the row stands; when it is made that is looked at again."""
    if not (worker.is_live and worker.takes_requests):
        return False
    if worker.supervisor and not worker.asked_all:
        return True
    return worker.asked_to < wish and (worker.state == WorkerState.RUNNING or bool(worker.asked_to))


def drain_offered(page: AskingPages, request: HttpRequest, worker: Any) -> bool:
    return page.may(request, "stop_worker") and can_be_asked(worker, Wish.DRAIN)


def stop_offered(page: AskingPages, request: HttpRequest, worker: Any) -> bool:
    return page.may(request, "stop_worker") and can_be_asked(worker, Wish.STOP)


class ScopeChoice(forms.Form):
    """Whether one process is meant or all that its supervisor started."""

    scope = forms.ChoiceField(
        label=_("Which processes"),
        choices=[
            ("one", _("This one only. Its supervisor starts another in its place at once.")),
            ("all", _("All that its supervisor started, which then ends too.")),
        ],
        widget=forms.RadioSelect,
    )


class AskingPages(ReadOnlyPages):
    """Pages about workers, with the buttons that ask one to end."""

    @button(title=_("Drain"), url_path="drain", shown=drain_offered)
    def django_jobs_worker_drain(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask whether a worker shall end once all that it runs has."""
        does = gettext(
            "It claims nothing more, runs to its end what it runs, however long that takes, and ends."
        )
        title = gettext("Drain the worker %(name)s")
        return self.confirm(request, pk, Wish.DRAIN, title=title, answer=gettext("Drain"), does=does)

    @button(title=_("Stop"), url_path="stop", shown=stop_offered, dangerous=True)
    def django_jobs_worker_stop(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask whether a worker shall end in its time of grace."""
        does = gettext(
            "It claims nothing more. What it runs may go on for the time of grace that it was started with; "
            "what hasn’t ended then is handed back, and starts anew elsewhere."
        )
        title = gettext("Stop the worker %(name)s")
        return self.confirm(request, pk, Wish.STOP, title=title, answer=gettext("Stop"), does=does)

    def confirm(
        self, request: HttpRequest, pk: int, wish: Wish, *, title: str, answer: str, does: str
    ) -> HttpResponse:
        """Ask, or do it when the request is the answer. Raises PermissionDenied."""
        self.require(request, "stop_worker")
        worker = self.get_queryset(request).filter(pk=pk).first()
        if worker is None:
            return self.missing(request, str(pk))
        back = self.list_address(request)
        answered = request.method == "POST"
        chosen = {"scope": "all" if request.GET.get("all") else "one"}
        form: forms.Form = NoChoice(request.POST if answered else None)
        if worker.supervisor:
            form = ScopeChoice(request.POST if answered else None, initial=chosen)
        if answered and form.is_valid():
            all_processes = form.cleaned_data.get("scope") == "all"
            self.carry_out(request, worker, wish, all_processes=all_processes)
            return HttpResponseRedirect(back)
        possible = can_be_asked(worker, wish)
        words = {"name": str(worker)}
        question = Question(
            title=title % words,
            says=[does, *self.follows(worker)] if possible else [self.why_not(worker)],
            button=answer,
            form=form,
            possible=possible,
            dangerous=wish == Wish.STOP,
            back=back,
            trail=[*self.trail(request), Crumb(str(worker), self.address_of(worker))],
        )
        return ask(self, request, question)

    def follows(self, worker: Any) -> list[str]:
        """Return what else is to be known before a worker is asked."""
        says = [
            ngettext("It runs %(count)s job now.", "It runs %(count)s jobs now.", worker.running)
            % {"count": worker.running}
        ]
        if not worker.supervisor:
            says.append(
                gettext(
                    "It has no supervisor: it starts again only where something else, such as systemd or the "
                    "platform of its container, sees to that."
                )
            )
        says.append(
            gettext("It hears of this within a second, or with its next heartbeat. It can’t be taken back.")
        )
        if worker.silence > timedelta(seconds=conf.current().dead_after_seconds):
            says.append(doubt(worker.silence.total_seconds()))
        return says

    def why_not(self, worker: Any) -> str:
        """Return why a worker can't be asked, or not for more than it was."""
        if not worker.is_live:
            return gettext("It has ended.")
        if not worker.takes_requests:
            return gettext(
                "It runs a version of django_jobs that can’t be asked. Send SIGTERM to process %(pid)s on "
                "%(host)s."
            ) % {"pid": worker.pid, "host": worker.host}
        if worker.asked_to:
            return gettext("%(by)s has asked it already.") % {"by": worker.asked_by or gettext("Somebody")}
        return gettext("It ends already.")

    def carry_out(self, request: HttpRequest, worker: Any, wish: Wish, *, all_processes: bool) -> None:
        """Ask workers, record it, and tell the user what became of it."""
        operations = Operations(conf.database())
        with transaction.atomic(using=operations.alias):
            by = request.user.get_username()
            answers = operations.ask(worker.pk, wish, by=by, all_processes=all_processes)
            asked = [one for one in answers if one.verdict == Verdict.ASKED]
            log = gettext("Asked to stop.") if wish == Wish.STOP else gettext("Asked to drain.")
            rows = [Worker(pk=one.worker, name=one.name) for one in asked]
            if rows:
                self.record(request, rows, CHANGE, log)
        if len(asked) > 1:
            self.tell(request, told_of_all(asked, wish))
        left = [one for one in answers if one.verdict != Verdict.ASKED][:MOST_TOLD]
        for one in left if len(asked) > 1 else [*asked, *left]:
            level = messages.SUCCESS if one.verdict == Verdict.ASKED else messages.WARNING
            self.tell(request, told(one, wish), level)


def told_of_all(asked: Sequence[Answer], wish: Wish) -> str:
    """Return that all processes of a supervisor were asked."""
    number = len(asked)
    says = (
        ngettext("Asked %(count)s process to stop.", "Asked %(count)s processes to stop.", number)
        if wish == Wish.STOP
        else ngettext("Asked %(count)s process to drain.", "Asked %(count)s processes to drain.", number)
    )
    return says % {"count": number}
