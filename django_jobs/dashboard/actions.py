"""
What the admin may do to jobs: four actions, each with its permission, the jobs it applies to and its words.

`acting` carries them out; `confirming` asks before. What changes is decided in `store/control.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib.admin.models import CHANGE, DELETION
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from django_jobs.core.states import RETRYABLE, State
from django_jobs.dashboard.shown import grouped
from django_jobs.working_off import ACTS, Act

WAITING = (State.READY.value, State.BLOCKED.value)


class NoChoice(forms.Form):
    """Nothing to choose."""


class RetryChoice(forms.Form):
    """How many attempts a retried job gets."""

    attempts = forms.ChoiceField(
        label=_("Attempts"),
        choices=[
            ("all", _("All attempts anew: the count starts from zero")),
            ("one", _("Just one more: if it fails, the job has failed for good")),
        ],
        initial="all",
        required=False,  # left out, it is the first
        widget=forms.RadioSelect,
    )


class ReasonChoice(forms.Form):
    """Why."""

    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=500,
        help_text=_("Others will read it on these pages. May stay empty."),
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that can be done to jobs."""

    name: str
    states: Collection[str]
    """The states of jobs that it changes."""
    only: Q = field(default_factory=Q)
    """Which of those it changes; the others it leaves."""
    form: type[forms.Form] = NoChoice
    title: Any
    button: Any = ""
    """Where the title could be misunderstood on a button."""
    selected: Any
    """Its name in the list's menu."""
    consequence: Any
    """What the page that asks says will happen."""
    done: Any
    """The message, by number."""
    log: Callable[[Mapping[str, Any]], str]
    flag: int = CHANGE
    dangerous: bool = False

    @property
    def permission(self) -> str:
        """The codename of the permission that it takes."""
        return f"{self.name}_job"

    @property
    def act(self) -> Act:
        """What does it, batch by batch."""
        return ACTS[self.name]

    @property
    def applies(self) -> Q:
        """The jobs that it changes; it is asked again when the change is made."""
        return Q(state__in=self.states) & self.only


def cancel_log(choice: Mapping[str, Any]) -> str:
    reason = choice.get("reason", "")
    return gettext("Cancelled: %(reason)s") % {"reason": reason} if reason else gettext("Cancelled.")


RETRY = Action(
    name="retry",
    states={state.value for state in RETRYABLE},
    form=RetryChoice,
    title=_("Retry"),
    selected=_("Retry selected jobs"),
    consequence=ngettext_lazy(
        "%(count)s failed or cancelled job will wait in its queue again, due at once.",
        "%(count)s failed or cancelled jobs will wait in their queues again, due at once.",
        "number",
    ),
    done=ngettext_lazy("Retried %(count)s job.", "Retried %(count)s jobs.", "number"),
    log=lambda choice: (
        gettext("Retried with one more attempt.")
        if choice.get("attempts") == "one"
        else gettext("Retried with all attempts anew.")
    ),
)
CANCEL = Action(
    name="cancel",
    states={*WAITING, State.RUNNING.value},
    form=ReasonChoice,
    title=_("Cancel"),
    button=_("Cancel job"),
    selected=_("Cancel selected jobs"),
    consequence=ngettext_lazy(
        "%(count)s job will be cancelled. If it runs, it is asked to stop; in any case it isn’t retried.",
        "%(count)s jobs will be cancelled. Running ones are asked to stop; in any case they aren’t retried.",
        "number",
    ),
    done=ngettext_lazy("Cancelled %(count)s job.", "Cancelled %(count)s jobs.", "number"),
    log=cancel_log,
    dangerous=True,
)
RUN = Action(
    name="run",
    states={State.READY.value},
    only=Q(run_after__gt=Now()),
    title=_("Run now"),
    selected=_("Run selected jobs now"),
    consequence=ngettext_lazy(
        "%(count)s job that waits for a later time will be due at once.",
        "%(count)s jobs that wait for a later time will be due at once.",
        "number",
    ),
    done=ngettext_lazy("%(count)s job is due now.", "%(count)s jobs are due now.", "number"),
    log=lambda choice: gettext("Made due at once."),
)
DELETE = Action(
    name="delete",
    states={state.value for state in State} - {State.RUNNING.value},
    title=_("Delete"),
    selected=_("Delete selected jobs"),
    consequence=ngettext_lazy(
        "%(count)s job will be deleted for good, with its attempts. If it is waiting, it will never run.",
        "%(count)s jobs will be deleted for good, with their attempts. Waiting ones will never run.",
        "number",
    ),
    done=ngettext_lazy("Deleted %(count)s job.", "Deleted %(count)s jobs.", "number"),
    log=lambda choice: gettext("Deleted."),
    flag=DELETION,
    dangerous=True,
)
ACTIONS = (RETRY, RUN, CANCEL, DELETE)


def counted(words: Any, number: int) -> str:
    """Return a text of `ngettext_lazy` with its number in the user's way of writing numbers."""
    return str(words % {"number": number, "count": grouped(number)})
