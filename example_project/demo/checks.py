"""What must be true of the shop when the jobs are settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Sum

from django_jobs.models import Job, KindChoices, StateChoices
from example_project.shop.models import Line, Order, Paper, Partner, Payment, Photo
from example_project.shop.tasks import make_thumbnail, tell_partner

if TYPE_CHECKING:
    from example_project.demo.scenes import Demo


def photos(demo: Demo) -> None:
    """Good photos have a thumbnail that the site shows; the corrupt one failed for good at once."""
    story = demo.story
    for photo in Photo.objects.filter(pk__in=demo.photos):
        job = demo.jobs().get(task_path=make_thumbnail.module_path, meta__photo=photo.pk)
        if photo.title == "Torn":
            story.expect(job.state == StateChoices.FAILED, "the thumbnail of a corrupt photo fails")
            story.expect(job.counted_attempt == 1, "a corrupt photo is tried once, not again and again")
        else:
            story.expect(photo.thumbnail, f"{photo.title} has a thumbnail")
            page = demo.browser.get(photo.thumbnail.url)
            story.expect(page.status == 200, f"the site shows the thumbnail of {photo.title}")


def orders(demo: Demo) -> None:
    """Each order is paid, its receipt mailed, printed, and told to each partner whose server works."""
    story, outside = demo.story, demo.outside
    for order in Order.objects.filter(pk__in=demo.orders):
        story.expect(order.state == "printed", f"{order} is printed")
        mails = [subject for address, subject in outside.mails if address == order.email]
        story.expect(mails == [f"Your receipt for order {order.pk}"], f"one receipt for {order} arrives")
        for mood in ("once", "sometimes"):
            heard = outside.delivered.get(mood, []).count(order.pk)
            story.expect(heard == 1, f"the partner who fails {mood} hears of {order} once, not {heard} times")
    failed = undelivered(demo)
    story.expect(
        len(failed) == len(demo.orders) and all(job.counted_attempt == 4 for job in failed),
        "webhooks to the partner whose server is down fail for good after 4 attempts",
    )


def undelivered(demo: Demo) -> list[Job]:
    """Return our failed webhooks to the partner whose server is down."""
    down = Partner.objects.get(url__endswith="/down", url__startswith=demo.outside.http.url)
    jobs = demo.jobs().filter(task_path=tell_partner.module_path, state=StateChoices.FAILED)
    return [job for job in jobs if job.args[1] == down.pk]


def stock(demo: Demo) -> None:
    """The stock went down by what was paid for, whatever was retried or killed."""
    paid = Payment.objects.filter(pk__gt=demo.first_payment).values("order")
    used = Line.objects.filter(order__in=paid).aggregate(sheets=Sum("copies"))["sheets"]
    left = Paper.objects.aggregate(sheets=Sum("sheets"))["sheets"]
    demo.story.expect(
        demo.sheets - used == left,
        f"{demo.sheets} sheets in stock less {used} paid for are {demo.sheets - used}, not {left}",
    )


def report(demo: Demo) -> None:
    """The report timed out twice, then was written."""
    story, job = demo.story, Job.objects.get(pk=demo.report)
    ends = [run.kind for run in job.history()]
    story.expect(
        # On a machine that is slower still than the server with the rates, it may time out once more.
        ends[:2] == [KindChoices.TIMEOUT] * 2 and job.state == StateChoices.SUCCESSFUL,
        f"the report times out twice and then succeeds (its runs ended with {ends})",
    )
    first = Payment.objects.get(order=demo.orders[0])
    listed = f"{first.made_at:%Y-%m-%d}" == job.args[0]  # it isn't when midnight has passed meanwhile
    story.expect(job.return_value["orders"] >= listed, "the report lists the day's orders")
