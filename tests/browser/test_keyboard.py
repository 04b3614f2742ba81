"""The pages without a mouse."""

from __future__ import annotations

from django_jobs.models import Job
from tests.admin.conftest import JOBS, detail
from tests.browser.driving import expect, in_browser

pytestmark = in_browser


def tab_to(page, words):
    """Press Tab until something that is called `words` has the focus; it must be seen to have it."""
    page.wait_for_load_state()
    for _ in range(120):
        page.keyboard.press("Tab")
        called, shown = page.evaluate(
            """() => {
                const one = document.activeElement;
                const {outlineStyle, boxShadow} = getComputedStyle(one);
                const written = one.type === "submit" ? one.value : one.textContent;
                const called = one.labels?.[0]?.textContent || one.ariaLabel || written;
                return [called.trim(), outlineStyle !== "none" || boxShadow !== "none"];
            }"""
        )
        if called == words:
            assert shown, f"nobody sees that {words} has the focus"
            return
    raise AssertionError(f"Tab never came to {words}")


def test_a_job_is_found_and_cancelled_by_keys_alone(visit, ada, make_job):
    job = make_job()
    page = visit(ada)
    page.goto(JOBS)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").strip() == "Skip to main content"
    page.keyboard.press("Enter")
    tab_to(page, str(job.pk))
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{page.url.partition('/admin/')[0]}{detail(job)}")
    tab_to(page, "Cancel job")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cancel/**")
    tab_to(page, "Reason:")
    page.keyboard.type("by hand")
    tab_to(page, "Cancel job")
    page.keyboard.press("Enter")

    expect(page.locator(".messagelist")).to_contain_text("Cancelled 1 job.")
    assert Job.objects.get().reason == "by hand"
