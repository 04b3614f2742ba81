"""
The filters beside the list of jobs. Their choices never come from a scan of the table (see `store/stats.py`),
and what they match is looked for within the reach that `lists` sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.db import connections
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat, Now
from django.db.models.lookups import Exact
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.states import State
from django_jobs.dashboard.hurried import hurried
from django_jobs.dashboard.narrowing import FURTHER_FILTERS
from django_jobs.dashboard.shown import count
from django_jobs.dashboard.surveying import states_of
from django_jobs.store import stats
from django_jobs.store.counting import census, together
from django_jobs.tasks import registry

# No plain `state = …`, as in store/control.py: it stands beside ids that were looked up along the index
# (`lists.within_reach`).
READY = Q(Exact(Concat(F("state"), Value("")), State.READY.value))
LATER = READY & Q(run_after__gt=Now())

STATES: dict[str, tuple[Any, Q]] = {
    "waiting": (_("waiting (all below)"), READY),
    "ready": (_("ready (due)"), READY & Q(run_after__lte=Now())),
    "scheduled": (_("scheduled"), LATER & Q(attempt__lte=F("uncounted"))),
    "retrying": (_("retrying"), LATER & Q(attempt__gt=F("uncounted"))),
    "running": (_("running"), Q(state=State.RUNNING.value)),
    "successful": (_("successful"), Q(state=State.SUCCESSFUL.value)),
    "failed": (_("failed"), Q(state=State.FAILED.value)),
    "cancelled": (_("cancelled"), Q(state=State.CANCELLED.value)),
    "blocked": (_("blocked"), Q(state=State.BLOCKED.value)),
}
"""What the list can be narrowed to, in the words that it shows."""

SPANS = {
    "15m": (_("in the last 15 minutes"), timedelta(minutes=15)),
    "1h": (_("in the last hour"), timedelta(hours=1)),
    "24h": (_("in the last 24 hours"), timedelta(days=1)),
    "7d": (_("in the last 7 days"), timedelta(days=7)),
}

MOST_LINKS = 30
"""Names that a filter lists; others are written into its field."""

MOST_NAMES = 1_000
"""Names that its field proposes."""


def choices(request: HttpRequest) -> stats.Choices:
    """Return the queues and tasks to choose from, asked for once in a request."""
    found: stats.Choices | None = getattr(request, "django_jobs_choices", None)
    if found is None:
        with connections[conf.database()].cursor() as cursor:
            queues = {task.queue_name for task in registry.values()}
            found = stats.choices(cursor, queues, registry)
        request.django_jobs_choices = found  # type: ignore[attr-defined]  # kept for one request
    return found


def counts() -> dict[str, str]:
    """Return how many jobs there are in those states that are counted in a moment; none if it takes long."""
    counted = hurried(conf.database(), census)
    if counted is None:
        return {}
    found = states_of(counted)
    due, later = found.pop("due"), found.pop("later")
    found |= {"waiting": together([due, later]), "ready": due}
    return {state: count(number) for state, number in found.items()}


class StateFilter(SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        numbers = counts()
        return [
            (key, f"{words} · {numbers[key]}" if key in numbers else words)
            for key, (words, _condition) in STATES.items()
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen is None:
            return queryset
        return queryset.filter(STATES[chosen][1]) if chosen in STATES else queryset.none()


class NameFilter(SimpleListFilter):
    """
    One of the names that are about; also one that isn't, when the address has it.

    Some are links, and all are proposed by a field while a name is written into it.
    """

    template = "admin/django_jobs/job/name_filter.html"
    column: str
    kind: str
    """Which of `stats.Choices` it takes."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        self.names = list(getattr(choices(request), self.kind))[:MOST_NAMES]
        listed = self.names[:MOST_LINKS]
        chosen = self.value()
        if chosen and chosen not in listed:
            listed.insert(0, chosen)
        return [(name, name) for name in listed]

    def choices(self, changelist: ChangeList) -> Iterator[dict[str, Any]]:  # type: ignore[override]  # as in narrowing
        """Yield the links; the first, for all, also has what the field's form needs."""
        name = str(self.parameter_name)
        others = [(other, value) for other, value in changelist.params.items() if other != name]
        field = {"name": name, "value": self.value() or "", "others": others, "names": self.names}
        for choice in super().choices(changelist):
            yield {**choice, **field}
            field = {}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        return queryset.none() if "\0" in chosen else queryset.filter(**{self.column: chosen})


class QueueFilter(NameFilter):
    title = _("queue")
    parameter_name = "queue"
    column = "queue_name"
    kind = "queues"


class TaskFilter(NameFilter):
    title = _("task")
    parameter_name = "task"
    column = "task_path"
    kind = "tasks"


class SpanFilter(SimpleListFilter):
    """A time not longer ago than this, by the database's clock."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        return [(key, words) for key, (words, _length) in SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen is None:
            return queryset
        if chosen not in SPANS:
            return queryset.none()
        return queryset.filter(**{f"{self.column}__gte": Now() - SPANS[chosen][1]})


class EnqueuedFilter(SpanFilter):
    title = _("time enqueued")
    parameter_name = "enqueued"
    column = "enqueued_at"


class FinishedFilter(SpanFilter):
    title = _("time finished")
    parameter_name = "finished"
    column = "finished_at"


JOB_FILTERS = (StateFilter, QueueFilter, TaskFilter, EnqueuedFilter, FinishedFilter, *FURTHER_FILTERS)
NAMES = frozenset(found.parameter_name for found in JOB_FILTERS if found.parameter_name)


def described(request: HttpRequest) -> str:
    """Return the filters and the search of a list in words, for the question and the log; "" for none."""
    names = sorted(name for name in request.GET if name in NAMES | PLAIN | {"q"} and request.GET[name])
    return ", ".join(f"{name}={request.GET[name]}" for name in names)


PLAIN = frozenset({"id", "id__exact", "id__in", "worker", "worker__exact", "priority", "priority__exact"})
"""
What else an address may filter by. Nothing else may: a list that answers `?kwargs__contains=…` would tell
the arguments of jobs, piece by piece, to someone who may not see them.
"""
