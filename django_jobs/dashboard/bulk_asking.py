"""
Asking for an action on more jobs than a request should do: how many there may be, at what pace, where.

`confirming` shows what comes out of here on its page, and hands over the answer. `working_off` does it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import ADDITION
from django.db import connections, transaction
from django.db.models import Max, Min, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs.core.ids import id_of
from django_jobs.dashboard.acting import LOGGED, MOST
from django_jobs.dashboard.actions import Action, counted
from django_jobs.dashboard.filters import NAMES, PLAIN, SPANS
from django_jobs.dashboard.hurried import limited
from django_jobs.dashboard.lists import WAITING
from django_jobs.dashboard.shown import grouped
from django_jobs.models import Job, clock
from django_jobs.store.stats import COUNTED, waiting_ends
from django_jobs.working_off import LABELS, MOST_PER_SECOND, ask_for, chosen_queue

if TYPE_CHECKING:
    from django_jobs.dashboard.base import ReadOnlyPages
    from django_jobs.dashboard.lists import JobChangeList

PER_SECOND = 500
"""The pace that is proposed."""

STATES = {"waiting": ("ready", "scheduled", "retrying")}
"""States to choose from that are several in `store.matching.LABELS`."""

LEVELS = {"high": (1, None), "usual": (0, 0), "low": (None, -1)}

MEAN_NOTHING = frozenset({"queue", "task", "tag", "about", "value", "q"})
"""Filters that mean any job when they are empty; others mean none then."""

NOT_IN_STATISTICS = frozenset({"value", "about"})
"""Filters of which the planner of the database knows too little to tell how many jobs they leave."""

Filters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bulk:
    """What a job of its own would need to know of a list."""

    jobs: QuerySet[Job]
    """All that match, as far as the table goes."""
    filters: Filters
    """The same for `store.matching`."""
    is_beyond_reach: bool
    """Whether the list may not hold all of them."""
    is_waiting: bool
    """Whether the list is one of waiting jobs, which ends at `COUNTED` of each queue and priority."""
    beyond: int
    """The newest id that the list didn't look at; 0 where it looked at all, or has an index."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether a job may do it, or must."""

    total: int
    is_estimate: bool
    goes_by_newest: bool
    """Whether it was estimated by how many of the newest match."""
    is_only_way: bool
    queue_name: str
    is_served: bool

    def fit(self, form: forms.Form) -> None:
        """Take from the form what there is no choice about."""
        if self.is_only_way:
            form.fields.pop("how", None)

    def says(self, action: Action) -> list[str]:
        """Return what will happen in words."""
        says = []
        if self.is_only_way:
            says.append(counted(action.consequence, self.total))
        if self.is_estimate:
            words = (
                gettext("All in all about %(count)s jobs match, if older ones do as often as the newest.")
                if self.goes_by_newest
                else gettext("All in all about %(count)s jobs match, by the database’s estimate.")
            )
            says.append(words % {"count": grouped(self.total)})
        if self.is_only_way and self.total <= MOST:
            says.append(
                gettext(
                    "Not all jobs can be looked through at once: a job of its own does it, for all that "
                    "there are now, a batch at a time. You can watch it, and stop it."
                )
            )
        elif self.is_only_way:
            words = gettext(
                "That is more than the %(most)s that are done at once: a job of its own does it, for all "
                "that there are now, a batch at a time. You can watch it, and stop it."
            )
            says.append(words % {"most": grouped(MOST)})
        if not self.is_served:
            says.append(
                gettext("No live worker would take such a job now: it will wait in the queue “%(name)s”.")
                % {"name": self.queue_name}
            )
        return says


class BulkChoice(forms.Form):
    """How to do it to many."""

    how = forms.ChoiceField(
        label=_("How"),
        choices=[
            ("now", _("At once: the page answers when it is done")),
            ("job", _("By a job of its own, for all that there are now; it can be watched, and stopped")),
        ],
        initial="now",
        required=False,
        widget=forms.RadioSelect,
    )
    per_second = forms.IntegerField(
        label=_("Jobs per second, at most"),
        min_value=1,
        max_value=MOST_PER_SECOND,
        initial=PER_SECOND,
        required=False,
        help_text=_("For a job of its own: the pace at which it goes through the others."),
    )


def bulk_form(action: Action) -> type[forms.Form]:
    """Return the form of an action with the choices about a job of its own."""
    found: type[forms.Form] = type("BulkForm", (BulkChoice, action.form), {})
    return found


def bulk_of(request: HttpRequest, listed: JobChangeList) -> Bulk | None:
    """Return what a job of its own would need, or `None` where it can't look for what is asked."""
    assert listed.everything is not None
    alias = str(listed.everything.db)
    may_see_values = request.user.has_perm("django_jobs.view_arguments")
    filters = filters_of(request.GET, alias, may_see_values=may_see_values)
    if filters is None:
        return None
    is_waiting = request.GET.get("state") in WAITING and "about" not in filters
    is_beyond_reach = bool(listed.reach_note) or (is_waiting and ends(alias))
    return Bulk(listed.everything, filters, is_beyond_reach, is_waiting, listed.beyond)


def ends(alias: str) -> bool:
    """Whether lists of waiting jobs end before all are listed."""
    with connections[alias].cursor() as cursor:
        return waiting_ends(cursor)


def filters_of(chosen: Mapping[str, str], alias: str, *, may_see_values: bool = False) -> Filters | None:
    """
    Return the filters of a list's address as `working_off` takes them.

    Spans of time are reckoned from now. `None` where one has no like there: single ids are as few as were
    written, and a value in arguments isn't looked for without the permission to see those.
    """
    found: Filters = {}
    names = {name: value for name, value in chosen.items() if name in NAMES | PLAIN | {"q"}}
    names = {name: value for name, value in names.items() if value or name not in MEAN_NOTHING}
    for name, value in names.items():
        match name:
            case "state":
                found["labels"] = list(STATES.get(value, (value,)))
            case "queue":
                found["queues"] = [value]
            case "task" if not value.endswith("*"):
                found["tasks"] = [value]
            case "enqueued" | "finished" if value in SPANS:
                key = "enqueued_since" if name == "enqueued" else "since"
                found[key] = (clock(alias) - SPANS[value][1]).isoformat()
            case "worker" | "worker__exact" if (number := id_of(value)) is not None and "worker" not in found:
                found["worker"] = number
            case "level" if value in LEVELS:
                found["least_priority"], found["most_priority"] = LEVELS[value]
            case "exception" | "tag" if value:
                found[name] = value
            case "about" if value.strip():
                found["about"] = value.strip()
            case "value" if value and may_see_values:
                found["value"] = value
            case "q" if id_of(value.strip()) is None:
                found["term"] = value.strip()
            case _:
                return None
    return None if any("\0" in value for value in names.values()) else found


def offered(action: Action, bulk: Bulk, listed: int, will: int, lowest: int) -> Offer | None:
    """
    Return what to say about a job of its own; `None` where there are so few that none is needed.

    `listed` jobs were looked at, down to the id `lowest`, and the action applies to `will` of them.
    """
    is_only_way = listed > MOST or (
        bulk.is_beyond_reach and (not will or (bulk.is_waiting and listed >= COUNTED))
    )
    if not (is_only_way or bulk.is_beyond_reach or listed > LOGGED):
        return None
    if not LABELS[action.name] & set(bulk.filters.get("labels", LABELS[action.name])):
        return None
    total, is_estimate = will, False
    goes_by_newest = bool(NOT_IN_STATISTICS & set(bulk.filters))
    if is_only_way or bulk.is_beyond_reach:
        by_newest = lowest if listed > MOST else bulk.beyond
        found = (
            extrapolated(bulk.jobs.db, will, by_newest)
            if goes_by_newest
            else estimated(bulk.jobs.filter(action.applies))
        )
        total, is_estimate = max(will, found), True
    queue = chosen_queue(bulk.jobs.db)
    return Offer(total, is_estimate, goes_by_newest, is_only_way, queue.queue_name, queue.is_served)


def extrapolated(alias: str, number: int, above: int) -> int:
    """Return how many jobs there are if all ids hold as many as the `number` of those from `above` on."""
    ids = Job.objects.using(alias).aggregate(first=Min("pk"), last=Max("pk"))  # two look-ups
    first, last = ids["first"] or 0, ids["last"] or 0
    return round(number * (last - first + 1) / max(1, last - above + 1))


def estimated(jobs: QuerySet[Job]) -> int:
    """Return how many jobs the planner of the database expects."""
    with limited(jobs.db):
        told = jobs.order_by().values("pk").explain(format="json")
    return int(json.loads(told)[0]["Plan"]["Plan Rows"])


def ask_for_bulk(
    page: ReadOnlyPages,
    request: HttpRequest,
    action: Action,
    bulk: Bulk,
    offer: Offer,
    data: Mapping[str, Any],
    matching: str,
) -> HttpResponse:
    """Have a job do it, write down who asked for how many, and lead to the page that tells how far it is."""
    alias = str(bulk.jobs.db)
    choice = {name: value for name, value in data.items() if name in action.form.base_fields}
    with transaction.atomic(using=alias):
        made = ask_for(
            action.name,
            choice,
            bulk.filters,
            alias=alias,
            matching=matching,
            per_second=data.get("per_second") or PER_SECOND,
            total=offer.total,
            is_estimate=offer.is_estimate,
            user=request.user,
        )
        words = (
            gettext("%(what)s Asked for about %(count)s jobs, by an estimate. Matching: %(matching)s.")
            if offer.is_estimate
            else gettext("%(what)s Asked for %(count)s jobs. Matching: %(matching)s.")
        ) % {"what": action.log(choice), "count": grouped(offer.total), "matching": matching}
        page.record(request, [made], ADDITION, words)
    page.tell(request, gettext("A job was enqueued that does it: here is how far it is."), messages.SUCCESS)
    return HttpResponseRedirect(page.address_of(made))
