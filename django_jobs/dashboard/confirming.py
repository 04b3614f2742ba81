"""
The page that asks before anything is changed, and the moment after it was answered.

A GET shows what will happen; a POST with Django's token does it, once the permission was checked again. All
actions come through here, whichever button or menu they start from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import django
from django import forms
from django.contrib import messages
from django.db import OperationalError
from django.db.models import BooleanField, Case, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext

from django_jobs.dashboard.acting import MOST, carry_out
from django_jobs.dashboard.actions import Action, counted
from django_jobs.dashboard.bulk_asking import Bulk, Offer, ask_for_bulk, bulk_form, offered
from django_jobs.dashboard.hurried import is_too_long, limited
from django_jobs.dashboard.in_time import PAGE_SECONDS
from django_jobs.dashboard.shown import cut, grouped, state_badge
from django_jobs.models import Job, StateChoices

if TYPE_CHECKING:
    from django_jobs.dashboard.base import ReadOnlyPages

EXAMPLES = 10
"""Jobs that the page names."""


class Crumb(NamedTuple):
    """One step of the way from the start page."""

    title: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the page asks."""

    title: str
    says: Sequence[str]
    """What will happen, and what won't."""
    button: str
    form: forms.Form
    possible: bool = True
    dangerous: bool = False
    examples: Sequence[Mapping[str, Any]] = ()
    more: int = 0
    """How many there are beside the examples."""
    hidden: Sequence[tuple[str, str]] = ()
    """Fields that the answer carries along."""
    back: str
    trail: Sequence[Crumb] = field(default_factory=list)

    @property
    def shown_more(self) -> str:
        return grouped(self.more)


def shown_trail(trail: Sequence[Crumb]) -> dict[str, Any]:
    """Return what the template of a way from the start page needs."""
    return {"trail": trail, "trail_is_list": django.VERSION >= (6, 1)}


def ask(page: ReadOnlyPages, request: HttpRequest, question: Question) -> HttpResponse:
    """Return the page with `question`."""
    request.current_app = page.admin_site.name
    context = {
        **page.admin_site.each_context(request),
        "title": question.title,
        "subtitle": None,
        "opts": page.opts,
        "media": page.media,
        "question": question,
        **shown_trail([*question.trail, Crumb(question.title)]),
    }
    return TemplateResponse(request, "admin/django_jobs/confirm.html", context)


def confirm(
    page: ReadOnlyPages,
    request: HttpRequest,
    action: Action,
    jobs: QuerySet[Job],
    *,
    answered: bool,
    matching: str,
    back: str,
    trail: Sequence[Crumb],
    hidden: Sequence[tuple[str, str]] = (),
    ids: Sequence[int] | None = None,
    bulk: Bulk | None = None,
) -> HttpResponse:
    """
    Ask whether `action` shall be done to `jobs`, or do it when the request is the answer.

    `ids` are those of a choice made one by one, so that also what has gone since can be told. `bulk` is what
    a job of its own would need; without it there will be none. Raises PermissionDenied.
    """
    page.require(request, action.permission)
    form = (action.form if bulk is None else bulk_form(action))(request.POST if answered else None)
    is_given = answered and form.is_valid()
    offer: Offer | None = None
    try:  # requests that only ask are limited as a whole, by `in_time`
        with limited(jobs.db, PAGE_SECONDS) if answered else nullcontext():
            if bulk is not None or not is_given:
                will, wont, lowest = forecast(action, jobs)
                offer = None if bulk is None else offered(action, bulk, will + wont.total(), will, lowest)
            wanted = list(ids or ())
            if is_given and ids is None:
                wanted = list(jobs.values_list("pk", flat=True)[: MOST + 1])
    except OperationalError as error:
        if not (answered and is_too_long(error)):
            raise
        return page.given_up(request)
    if is_given:
        if bulk and offer and (offer.is_only_way or form.cleaned_data.get("how") == "job"):
            return ask_for_bulk(page, request, action, bulk, offer, form.cleaned_data, matching)
        report = carry_out(
            action,
            sorted(wanted[:MOST]),
            form.cleaned_data,
            alias=jobs.db,
            user_id=request.user.pk,
            matching=matching,
        )
        report.beyond = len(wanted) > MOST
        level = messages.WARNING if report.skipped or report.left or not report.done else messages.SUCCESS
        page.tell(request, report.text(action), level)
        return HttpResponseRedirect(back)
    if offer is not None:
        offer.fit(form)
    elif bulk is not None:
        form = action.form()
    return ask(
        page,
        request,
        Question(
            title=str(action.title),
            says=sentences(action, will, wont, "" if ids is not None else matching, offer),
            button=str(action.button or action.title),
            form=form,
            possible=will > 0 or offer is not None,
            dangerous=action.dangerous,
            examples=examples(page, jobs.filter(action.applies)) if will else (),
            more=max(0, (will if offer is None else offer.total) - EXAMPLES) if will else 0,
            hidden=hidden,
            back=back,
            trail=trail,
        ),
    )


def forecast(action: Action, jobs: QuerySet[Job]) -> tuple[int, Counter[str], int]:
    """
    Return how many of `jobs`, up to `MOST`, would be changed, and how many not, by state.

    Also returns the lowest id of them, 0 for none.
    """
    applies = Case(When(action.applies, then=Value(True)), default=Value(False), output_field=BooleanField())
    rows = list(jobs.annotate(applies=applies).values_list("state", "applies", "pk")[: MOST + 1])
    return (
        sum(applies for _, applies, _ in rows),
        Counter(state for state, applies, _ in rows if not applies),
        min((pk for _, _, pk in rows), default=0),
    )


def sentences(
    action: Action, will: int, wont: Counter[str], filters: str, offer: Offer | None = None
) -> list[str]:
    """Return what will happen in words."""
    says = [gettext("Jobs that match: %(filters)s.") % {"filters": filters}] if filters else []
    if offer is not None and offer.is_only_way:
        return [*says, *offer.says(action)]
    if will > MOST:
        says.append(
            gettext("More than %(most)s jobs match; so many are taken at a time.") % {"most": grouped(MOST)}
        )
    says.append(counted(action.consequence, min(will, MOST)) if will else gettext("There is nothing to do."))
    if wont:
        each = ", ".join(
            f"{grouped(number)} {StateChoices(state).label}" for state, number in sorted(wont.items())
        )
        says.append(gettext("Left as they are: %(each)s.") % {"each": each})
    return says if offer is None else [*says, *offer.says(action)]


def examples(page: ReadOnlyPages, jobs: QuerySet[Job]) -> list[dict[str, Any]]:
    """Return the first few of `jobs` for the page."""
    return [
        {
            "title": str(job),
            "url": page.address_of(job),
            "state": state_badge(job),
            "queue": job.queue_name,
            "reason": cut(job.reason),
        }
        for job in jobs.defer("args", "kwargs", "return_value", "meta")[:EXAMPLES]
    ]
