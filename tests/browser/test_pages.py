"""Every page in a browser: what each kind of user finds there, and that the browser doesn't complain."""

from __future__ import annotations

import re

from django_jobs.models import BulkAction, Job, Queue, Worker
from example_project.shop.models import Order
from tests.admin.conftest import JOBS, OVERVIEW, QUEUES, TASKS, WORKERS
from tests.browser import tasks
from tests.browser.conftest import BULKS
from tests.browser.driving import expect, in_browser

pytestmark = in_browser


class TestSuperuser:  # who sees every page in test_looks
    def test_the_index_leads_to_each_of_our_lists(self, visit, ada):
        page = visit(ada)
        page.goto("/admin/")

        for title, address in LISTS.items():
            page.locator("#content .app-django_jobs tbody").get_by_role(
                "link", name=title, exact=True
            ).click()
            expect(page.locator("#content-main")).to_be_visible()
            assert page.url.endswith(address)
            page.go_back()

    def test_filters_are_chosen_and_written_together_and_stay_in_the_address(self, visit, ada, make_job):
        wanted = make_job("FAILED", queue_name="mail", meta={"tags": ["vip"]})
        make_job("FAILED", queue_name="mail")
        make_job("FAILED", queue_name="web", meta={"tags": ["vip"]})
        make_job(queue_name="mail", meta={"tags": ["vip"]})
        page = visit(ada)
        page.goto(JOBS)

        page.locator("#changelist-filter").get_by_role("link", name="failed").click()
        queue = page.locator("input[name=queue]")
        names = queue.evaluate("(one) => [...one.list.options].map((option) => option.value)")
        assert {"mail", "web"} <= set(names)
        queue.fill("mail")
        queue.press("Enter")
        page.locator("summary", has_text="tag").click()
        page.locator("input[name=tag]").fill("vip")
        page.locator("input[name=tag]").press("Enter")

        expect(page.locator("#result_list tbody tr")).to_have_count(1)
        again = visit(ada)
        again.goto(page.url)
        expect(again.locator("#result_list tbody tr")).to_have_count(1)
        expect(again.locator("#result_list th a")).to_have_text(str(wanted.pk))

    def test_the_search_box_proposes_names_and_finds_their_jobs(self, visit, ada, make_job):
        wanted = make_job(queue_name="mail", task_path="shop.send")
        make_job(queue_name="web", task_path="shop.push")
        page = visit(ada)
        for written in ("mail", "shop.send"):
            page.goto(JOBS)
            box = page.get_by_role("search").get_by_label("Search", exact=True)
            names = box.evaluate("(one) => [...one.list.options].map((option) => option.value)")
            assert {"mail", "web", "shop.send", "shop.push"} <= set(names)

            box.fill(written)
            box.press("Enter")

            expect(page.locator("#result_list tbody tr")).to_have_count(1)
            expect(page.locator("#result_list th a")).to_have_text(str(wanted.pk))
            assert page.url.endswith(f"q={written}")

    def test_a_job_and_what_it_is_about_lead_to_each_other(self, visit, ada):
        order = Order.objects.create(name="Grace", email="grace@example.com", price_cents=100)
        tasks.held.using(about=order).enqueue("receipt")
        page = visit(ada)

        page.goto(f"/admin/shop/order/{order.pk}/change/")
        page.locator("section", has=page.locator("#dj-jobs-about")).get_by_role(
            "link", name="#"
        ).first.click()
        page.locator(".dj-subject").get_by_role("link", name="order").click()

        assert page.url.endswith(f"/admin/shop/order/{order.pk}/change/")


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

    def test_what_she_sends_all_the_same_is_refused(self, visit, vera, pages, subtests):
        page = visit(vera)
        page.goto(OVERVIEW)
        tokens = [cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken"]
        before = everything()
        for name, address in pages.items():
            if name.startswith("doing-"):
                with subtests.test(name):
                    assert page.request.get(address).status == 403
                    answer = page.request.post(
                        address, form={"confirmed": "yes", "csrfmiddlewaretoken": tokens[0]}
                    )
                    assert answer.status == 403
                    assert "CSRF" not in answer.text()
        assert everything() == before


def everything():
    """Return what can be changed."""
    return [list(model.objects.order_by("pk").values()) for model in (Job, Queue, Worker, BulkAction)]


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
                    assert page.request.get(address).status in (403, 404)
        page.goto(OVERVIEW)
        expect(page.locator("body")).to_contain_text("403 Forbidden")
        complaints.clear()  # of this one

    def test_who_has_not_signed_in_does_so_first(self, visit, ada, pages):
        page = visit()

        for address in pages.values():
            answer = page.request.get(address, max_redirects=0)
            assert answer.headers["location"].startswith("/admin/login/?next=")
        page.goto(f"{JOBS}?state=failed")
        page.get_by_label("Username").fill("ada")
        page.get_by_label("Password").fill("ada")
        page.get_by_role("button", name="Log in").click()

        expect(page.locator("#result_list tbody tr")).to_have_count(1)
        assert page.url.endswith(f"{JOBS}?state=failed")


LISTS = {
    "Overview": OVERVIEW,
    "Jobs": JOBS,
    "Queues": QUEUES,
    "Tasks": TASKS,
    "Workers": WORKERS,
    "Bulk actions": BULKS,
}

DOING = re.compile(r"/(retry|cancel|run|delete|edit|copy|retry-failed|pause|resume|drain|stop|go-on)/")
