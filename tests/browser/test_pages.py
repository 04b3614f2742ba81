"""Every page in a browser: what each kind of user finds there, and that the browser doesn't complain."""

from __future__ import annotations

import re

import django

from django_jobs.models import Job, Queue
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES, TASKS, WORKERS
from tests.browser.driving import expect, in_browser

pytestmark = in_browser


class TestSuperuser:
    def test_every_page_is_there_and_linked_from_the_index(self, visit, ada, pages, subtests):
        page = visit(ada)
        for name, address in pages.items():
            with subtests.test(name):
                answer = page.goto(address)

                assert answer.status == 200
                policy = answer.headers.get("content-security-policy", "")
                assert "default-src 'self'" in policy or django.VERSION < (6, 0)
                expect(page.locator("#content h1, #content-main")).not_to_have_count(0)
        page.goto("/admin/")
        for title, address in LISTS.items():
            page.locator("#content .app-django_jobs tbody").get_by_role(
                "link", name=title, exact=True
            ).click()
            assert page.url.endswith(address)
            page.go_back()


class TestViewer:
    def test_no_page_offers_anything_to_be_done(self, visit, vera, pages, subtests):
        page = visit(vera)
        for name, address in pages.items():
            if name.startswith("doing-"):
                continue
            with subtests.test(name):
                assert page.goto(address).status == 200

                links = page.locator("#content a").evaluate_all("all => all.map(a => a.pathname)")
                assert [path for path in links if DOING.search(path)] == []
                assert page.locator("#content form[method=post] [type=submit]").count() == 0
                assert page.locator("select[name=action]").count() == 0

    def test_what_she_sends_all_the_same_is_refused(self, visit, vera, pages, complaints, subtests):
        page = visit(vera)
        page.goto(OVERVIEW)
        [token] = [cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken"] or [
            ""
        ]
        before = list(Job.objects.order_by("pk").values()), list(Queue.objects.values())
        for name, address in pages.items():
            if name.startswith("doing-"):
                with subtests.test(name):
                    assert page.goto(address).status == 403
                    answer = page.request.post(
                        address, form={"confirmed": "yes", "csrfmiddlewaretoken": token}
                    )
                    assert answer.status == 403
                    assert "CSRF" not in answer.text()
        assert (list(Job.objects.order_by("pk").values()), list(Queue.objects.values())) == before
        complaints.clear()  # of the refusals


class TestStranger:
    def test_there_is_nothing_for_someone_without_permission(
        self, visit, stranger, pages, complaints, subtests
    ):
        page = visit(stranger)
        page.goto("/admin/")
        expect(page.locator(".app-django_jobs")).to_have_count(0)
        for name, address in pages.items():
            if name != "index":
                with subtests.test(name):
                    assert page.goto(address).status in (403, 404)
        complaints.clear()  # of the refusals

    def test_who_has_not_signed_in_does_so_first(self, visit, ada, pages):
        page = visit()

        for address in pages.values():
            page.goto(address)
            assert page.url.partition("?")[0].endswith("/admin/login/")
        page.goto(f"{JOBS}?state=failed")
        page.get_by_label("Username").fill("ada")
        page.get_by_label("Password").fill("ada")
        page.get_by_role("button", name="Log in").click()

        assert page.url.endswith(f"{JOBS}?state=failed")
        expect(page.locator("#result_list tbody tr")).to_have_count(1)


LISTS = {"Overview": OVERVIEW, "Jobs": JOBS, "Queues": QUEUES, "Tasks": TASKS, "Workers": WORKERS}

DOING = re.compile(r"/(retry|cancel|run|delete|edit|copy|retry-failed|pause|resume)/")
