"""
The list of jobs, fast whatever the table holds.

Nothing is counted beyond `COUNTED`. The order is that of the ids, newest first, which the primary key gives;
failed and cancelled jobs have an index in that order too. Everything else is looked for within a reach:

- filters and searches without an index of their own, in the newest `REACH` jobs (or failed or cancelled
  jobs, when one of these states is chosen);
- waiting jobs, in the next `COUNTED` of each queue and priority that are due, and that aren't yet;
- running jobs are as few as there are slots, so all of them are seen;
- all jobs about an object are seen: they have an index of their own, in the order of their ids.

So the worst page reads some 100,000 index entries, and says so when it didn't see everything.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from django.utils.translation import gettext

from django_jobs.core.ids import id_of
from django_jobs.core.states import State
from django_jobs.dashboard.filters import NAMES, NameFilter
from django_jobs.dashboard.shown import grouped
from django_jobs.models import Job
from django_jobs.store.stats import COUNTED, INDEXED, IS_WAITING, REACH, waiting_params

WAITING = {
    "waiting": (True, True),
    "ready": (True, False),
    "scheduled": (False, True),
    "retrying": (False, True),
}
"""For each choice of waiting jobs: whether it holds due ones, and such that aren't due yet."""

HEAVY = ("args", "kwargs", "return_value", "meta")
"""Columns that may hold megabytes and that no list shows."""


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # generic in the stubs only
    """Pages of a list that is counted up to `COUNTED` and ends there."""

    @cached_property
    def found(self) -> int:
        listed: Any = self.object_list
        return int(listed[: COUNTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self.found, COUNTED)

    @property
    def has_more(self) -> bool:
        """Whether the list goes on beyond its last page."""
        return self.found > COUNTED


class JobChangeList(ChangeList):
    """Django's list, within reach."""

    reach_note: str = ""
    """What wasn't looked through, in words."""
    beyond: int = 0
    """The newest id that wasn't looked at."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """No other order has an index, so none can be asked for."""
        return ["-pk"]

    everything: QuerySet[Any] | None = None
    """What the filters leave, also beyond reach: nothing to be looked through in a moment."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        self.everything = found = super().get_queryset(request, exclude_parameters)
        return self.within_reach(found).defer(*HEAVY)

    def within_reach(self, found: QuerySet[Any]) -> QuerySet[Any]:
        """Narrow the list to what can be looked through in a moment."""
        state = self.params.get("state")
        if self.params.get("about"):  # an index finds them, in this order
            return found
        if state in WAITING:
            due, later = WAITING[state]
            params = waiting_params(due=due, later=later, queue_name=self.params.get("queue"))
            is_waiting = RawSQL(IS_WAITING, params, output_field=BooleanField())  # noqa: S611  (a constant)
            return found.filter(is_waiting)
        if state == "running" or self.looks_for_an_id:
            return found
        indexed = state is not None and state.upper() in INDEXED
        if state in (None, "failed", "cancelled") and not self.looks_for_more:
            return found
        base = Job.objects.using(found.db).order_by("-pk")
        if indexed:
            base = base.filter(state=State(str(state).upper()).value)
        beyond = list(base.values_list("pk", flat=True)[REACH : REACH + 1])
        if not beyond:
            return found
        self.reach_note = self.note(str(state) if indexed else "")
        self.beyond = beyond[0]
        return found.filter(pk__gt=self.beyond)

    @property
    def looks_for_an_id(self) -> bool:
        """Whether one job is asked for, which the primary key finds."""
        return any(name.startswith("id") for name in self.params) or id_of(self.query) is not None

    @property
    def looks_for_more(self) -> bool:
        """Whether anything but the state narrows the list."""
        narrowing = set(self.params) & NAMES - {"state"}
        return bool(self.query or narrowing or set(self.params) - NAMES - {"o", "all", "q"})

    @property
    def names(self) -> list[str]:
        """What the search box proposes: the names that the filters do."""
        fields = [spec for spec in self.filter_specs if isinstance(spec, NameFilter)]
        return sorted({name for field in fields for name in field.names})

    @staticmethod
    def note(state: str) -> str:
        words = {
            "": gettext("Only the newest %(reach)s jobs were looked through."),
            "failed": gettext("Only the newest %(reach)s failed jobs were looked through."),
            "cancelled": gettext("Only the newest %(reach)s cancelled jobs were looked through."),
        }
        return words[state] % {"reach": grouped(REACH)}

    @property
    def shown_count(self) -> str:
        """How many jobs the list holds, with a mark where there are more."""
        return f"{grouped(self.result_count)}{'+' if getattr(self.paginator, 'has_more', False) else ''}"

    @property
    def ends_note(self) -> str:
        """What the list doesn't show, in words."""
        if not getattr(self.paginator, "has_more", False):
            return ""
        return gettext("There are more: the list ends after %(counted)s. Narrow it with a filter.") % {
            "counted": grouped(COUNTED)
        }


def search(jobs: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Return the job with the id `term`, or those in the queue `term`, or whose task starts with it."""
    term = term.strip()
    if not term:
        return jobs
    if "\0" in term:
        return jobs.none()
    number = id_of(term)
    if number is not None:
        return jobs.filter(pk=number)
    return jobs.filter(Q(task_path__startswith=term) | Q(queue_name=term))
