"""
How fast work goes: throughput, chart, and waiting and run times by task, for the overview and a queue's page.

All comes from what workers wrote down; see `store.statistics`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs.core.histogram import quantile
from django_jobs.dashboard import shown
from django_jobs.dashboard.charts import chart
from django_jobs.store.statistics import PERIODS, Figures, Moment, Period, Tally, together

PERIOD_WORDS = {"hour": _("last hour"), "day": _("last 24 hours"), "week": _("last 7 days")}

MOST_TASKS = 50
"""Tasks that are listed."""


def period_of(request: HttpRequest) -> Period:
    """Return the period that a page is asked for."""
    return next((period for period in PERIODS if period.name == request.GET.get("period")), PERIODS[0])


def pace(figures: Figures | None, period: Period, jobs_url: Callable[..., str]) -> dict[str, Any]:
    """Return what the templates `pace.html` and `tasks.html` need; `None` is for what wasn't to be had."""
    return {
        "periods": [] if figures is None else periods(figures, period),
        "period_words": PERIOD_WORDS[period.name],
        "chart": None if figures is None else chart(figures.course, period),
        "tasks": [] if figures is None else tasks(figures, jobs_url),
    }


def periods(figures: Figures, chosen: Period) -> list[dict[str, Any]]:
    """Return what ended in each period, with the address that shows it."""
    return [
        {
            "title": PERIOD_WORDS[period.name],
            "is_chosen": period is chosen,
            "url": f"?{urlencode({'period': period.name})}",
            **rates(figures.totals[period.name], period),
        }
        for period in PERIODS
    ]


def tasks(figures: Figures, jobs_url: Callable[..., str]) -> list[dict[str, Any]]:
    """Return one row for each task that ended in the period, those that failed most first."""
    ended = together((task, tally) for (_queue, task), tally in figures.kinds.items())
    in_order = sorted(ended.items(), key=lambda item: (-item[1].failed, -item[1].ended, item[0]))
    return [
        {
            "name": shown.path(name) if name else gettext("others"),
            "url": jobs_url(task=name) if name else "",
            **lengths(tally),
        }
        for name, tally in in_order[:MOST_TASKS]
        if tally.ended
    ]


def seconds(length: float | None) -> timedelta | None:
    return None if length is None else timedelta(seconds=length)


def rates(moment: Moment, period: Period) -> dict[str, str]:
    """Return what ended in a period, and how fast."""
    minutes = period.length.total_seconds() / 60
    return {
        "enqueued": shown.grouped(moment.enqueued),
        "rate_in": shown.figure(moment.enqueued / minutes),
        "completed": shown.grouped(moment.completed),
        "failed": shown.grouped(moment.failed),
        "retried": shown.grouped(moment.retried),
        "share": shown.share(moment.failed, moment.ended),
        "rate": shown.figure(moment.ended / minutes),
    }


def lengths(tally: Tally) -> dict[str, Any]:
    """Return how many runs ended, and how long they waited and took."""
    found: dict[str, Any] = {
        "ended": shown.grouped(tally.ended),
        "failed": shown.grouped(tally.failed),
        "has_failed": bool(tally.failed),
        "share": shown.share(tally.failed, tally.ended),
    }
    for name, classes in (("wait", tally.waits), ("run", tally.runs)):
        for share in (50, 95):
            found[f"{name}{share}"] = shown.span(seconds(quantile(classes, share / 100)))
    return found
