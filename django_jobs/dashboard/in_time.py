"""A page's time: what takes the database longer than that is given up, and the user is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from django_jobs import conf
from django_jobs.dashboard.hurried import is_too_long, limited

PAGE_SECONDS = 5.0
"""How long one statement of a page may take."""

View = Callable[..., HttpResponse]


def in_time(view: View, given_up: Callable[[HttpRequest], TemplateResponse]) -> View:
    """Return a view that reads with `PAGE_SECONDS` for each statement, or answers what `given_up` does."""

    @wraps(view)
    def timed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not only_reads(request):
            return view(request, *args, **kwargs)

        def render(page: TemplateResponse) -> HttpResponse:
            del vars(page)["render"]  # the class's own is left, also to a cache that pickles it
            return within_limit(page.render) or given_up(request).render()

        response = within_limit(partial(view, request, *args, **kwargs)) or given_up(request)
        if isinstance(response, TemplateResponse) and not response.is_rendered:
            # not now: middleware may change what it is rendered with
            vars(response)["render"] = partial(render, response)
        return response

    return timed


def within_limit(answer: Callable[[], HttpResponse]) -> HttpResponse | None:
    """Return what `answer` does, or `None` when one of its statements took longer than `PAGE_SECONDS`."""
    try:
        with limited(conf.database(), PAGE_SECONDS):
            return answer()
    except OperationalError as error:
        if not is_too_long(error):
            raise
    return None


def only_reads(request: HttpRequest) -> bool:
    """Whether a request changes nothing: also the one of a list's menu, which is answered by a question."""
    if request.method == "POST":
        return "action" in request.POST and "confirmed" not in request.POST
    return request.method in ("GET", "HEAD")
