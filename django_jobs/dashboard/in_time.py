"""A page's time: what takes the database longer than that is given up, and the user is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from django_jobs import conf
from django_jobs.dashboard.hurried import is_too_long, limited

PAGE_SECONDS = 5.0
"""How long one statement of a page may take."""

View = Callable[..., HttpResponse]


def in_time(view: View, given_up: Callable[[HttpRequest], HttpResponse]) -> View:
    """Return a view that reads with `PAGE_SECONDS` for each statement, or answers what `given_up` does."""

    @wraps(view)
    def timed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not only_reads(request):
            return view(request, *args, **kwargs)
        try:
            with limited(conf.database(), PAGE_SECONDS):
                response = view(request, *args, **kwargs)
                return response.render() if isinstance(response, TemplateResponse) else response
        except OperationalError as error:
            if not is_too_long(error):
                raise
        return given_up(request)

    return timed


def only_reads(request: HttpRequest) -> bool:
    """Whether a request changes nothing: also the one of a list's menu, which is answered by a question."""
    if request.method == "POST":
        return "action" in request.POST and "confirmed" not in request.POST
    return request.method in ("GET", "HEAD")
