"""
Further filters of the list of jobs: worker, priority, exception, tag, object, and a value in arguments or
meta.

What has no choices to click is written into a field. All look within the reach that `lists` sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.db import connections
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.ids import id_of
from django_jobs.holding import holding
from django_jobs.models import LIVE, Attempt, JobQuerySet, Worker
from django_jobs.store import statistics

MOST_WORKERS = 50
"""Live workers to choose from; others by writing their id into the address."""

PRIORITIES = {
    "high": (_("above 0"), Q(priority__gt=0)),
    "usual": ("0", Q(priority=0)),
    "low": (_("below 0"), Q(priority__lt=0)),
}


class ClosedFilter(SimpleListFilter):
    """A filter that is folded until it is used, and that stands also without choices."""

    template = "admin/django_jobs/job/filter.html"

    def has_output(self) -> bool:
        return True

    def with_chosen(self, found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Add what is chosen, where it is none of the choices."""
        chosen = self.value()
        if chosen is not None and chosen not in [name for name, _words in found]:
            return [(chosen, chosen), *found]
        return found


class WorkerFilter(ClosedFilter):
    title = _("worker")
    parameter_name = "worker"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        if not request.user.has_perm("django_jobs.view_worker"):
            return self.with_chosen([])
        live = Worker.objects.using(conf.database()).filter(state__in=LIVE).order_by("name", "id")
        return self.with_chosen(
            [(str(worker.pk), str(worker)) for worker in live.only("id", "name")[:MOST_WORKERS]]
        )

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen is None:
            return queryset
        number = id_of(chosen)
        return queryset.none() if number is None else queryset.filter(worker=number)


class PriorityFilter(ClosedFilter):
    title = _("priority")
    parameter_name = "level"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        return [(name, words) for name, (words, _condition) in PRIORITIES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen is None:
            return queryset
        return queryset.filter(PRIORITIES[chosen][1]) if chosen in PRIORITIES else queryset.none()


class ExceptionFilter(ClosedFilter):
    """Jobs of which any run raised this class."""

    title = _("exception")
    parameter_name = "exception"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        with connections[conf.database()].cursor() as cursor:
            names = sorted(failure.exception_class for failure in statistics.failures(cursor))
        return self.with_chosen([(name, name) for name in names])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen is None:
            return queryset
        if "\0" in chosen:
            return queryset.none()
        return queryset.filter(Exists(Attempt.objects.filter(job=OuterRef("pk"), exception_class=chosen)))


class WrittenFilter(ClosedFilter):
    """A filter whose value is written into a field."""

    template = "admin/django_jobs/job/written_filter.html"
    help: Any = ""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        return []

    def choices(self, changelist: ChangeList) -> Iterator[dict[str, Any]]:  # type: ignore[override]  # the stubs want a list of fixed keys
        """Yield what the field's form needs, as the one choice."""
        assert self.parameter_name is not None
        others = [(name, value) for name, value in changelist.params.items() if name != self.parameter_name]
        yield {
            "selected": bool(self.value()),
            "name": self.parameter_name,
            "value": self.value() or "",
            "others": others,
            "help": self.help,
            "clear": changelist.get_query_string(remove=[self.parameter_name]),
        }


class TagFilter(WrittenFilter):
    title = _("tag")
    parameter_name = "tag"
    help = _("A tag in the job’s meta, such as the one of meta={'tags': ['vip']}.")

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        return queryset.none() if "\0" in chosen else queryset.filter(meta__tags__contains=[chosen])


class AboutFilter(WrittenFilter):
    title = _("object")
    parameter_name = "about"
    help = _("The object that jobs are about: its model and its key, such as shop.order/17.")

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        jobs = cast("JobQuerySet", queryset)
        return jobs.none() if "\0" in chosen else jobs.about(chosen.strip())


class ValueFilter(WrittenFilter):
    """Jobs with a value in their arguments or meta, for who may see those."""

    title = _("value")
    parameter_name = "value"
    help = _("A whole value in arguments or meta, or name=value. What is masked isn’t found.")

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: ModelAdmin[Any]
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.is_allowed = request.user.has_perm("django_jobs.view_arguments")

    def has_output(self) -> bool:
        """A value in the address must not be passed over, or an action would mean all jobs."""
        return self.is_allowed or bool(self.value())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        text = self.value()
        if not text:
            return queryset
        return holding(queryset, text) if self.is_allowed else queryset.none()


FURTHER_FILTERS = (WorkerFilter, PriorityFilter, ExceptionFilter, TagFilter, AboutFilter, ValueFilter)
