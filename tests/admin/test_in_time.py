"""The limit to a page’s time: middleware has its turn before a page is rendered, which is limited too."""

from __future__ import annotations

import pickle

import pytest
from django.db import connection
from django.template import engines
from django.template.response import TemplateResponse

from django_jobs.dashboard import in_time
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES


class Retitling:
    """Middleware of a project that changes what pages are rendered with."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_template_response(self, request, response):
        response.context_data["title"] = "A title of the project’s"
        return response


def answered(rf, asleep):
    """Return the answer of a view whose template has the database sleep for so many seconds."""

    def sleep():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s)", [asleep])
        return "rested"

    def page(text, status=200, **context):
        return lambda request: TemplateResponse(
            request, engines["django"].from_string(text), context, status=status
        )

    view = in_time.in_time(page("{{ sleep }}", sleep=sleep), page("given up", status=503))
    return view(rf.get("/"))


@pytest.mark.parametrize("page", [JOBS, QUEUES, OVERVIEW])
def test_middleware_may_change_what_a_page_is_rendered_with(admin_client, settings, page):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.Retitling"]

    assert "A title of the project’s" in admin_client.get(page).content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_page_whose_rendering_takes_too_long_is_given_up(rf, monkeypatch):
    monkeypatch.setattr(in_time, "PAGE_SECONDS", 0.1)

    response = answered(rf, asleep=5).render()

    assert (response.status_code, response.content) == (503, b"given up")


def test_a_rendered_page_can_be_kept_in_a_cache(rf, db):
    response = answered(rf, asleep=0).render()

    assert pickle.loads(pickle.dumps(response)).content == b"rested"
