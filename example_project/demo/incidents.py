"""What goes wrong in the demo: a worker dies, dead letters are sent again, a transaction is rolled back."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from django.db import transaction
from django.db.models import Max

from django_jobs.models import Attempt, Job, KindChoices, StateChoices, Worker
from example_project.demo import checks, report
from example_project.demo.scenes import PROCESSES, UNFINISHED, Demo, place_order, wait_until_settled
from example_project.shop import orders
from example_project.shop.models import Order, Photo, Size
from example_project.shop.tasks import print_order


def killing(demo: Demo) -> None:
    """Kill a worker in the middle of a job, and see that nothing is lost and the job runs again."""
    story, outside = demo.story, demo.outside
    story.chapter("A worker is killed")
    outside.hold()
    order = place_order(demo, demo.browser, "Cleo", Size.MEDIUM, copies=1)
    story.wait_for(lambda: outside.print_requests[order], f"order {order} is being printed")
    # What else the worker was doing would rightly be done twice as well, and make the story harder to tell.
    others = demo.jobs().filter(state__in=UNFINISHED).exclude(task_path=print_order.module_path)
    story.wait_for(lambda: not others.exists(), f"all other jobs of order {order} are settled")
    job = demo.jobs().get(task_path=print_order.module_path, meta__order=order)
    assert job.worker is not None
    victim = Worker.objects.get(pk=job.worker)
    ours = victim.name.startswith(demo.workers) and victim.host == socket.gethostname()
    story.expect(ours, f"job {job.pk} runs in a worker of ours, not in {victim}")
    story.say(f"Cleo orders 2 prints: order {order}; process {victim.pid} has the printer at work on them")

    os.kill(victim.pid, signal.SIGKILL)
    killed = time.monotonic()
    story.say(f"kill -9 {victim.pid}")
    lost = Attempt.objects.filter(job=job, kind=KindChoices.LOST)
    story.wait_for(lost.exists, f"the dead worker's job {job.pk} is recorded as lost")
    noticed = time.monotonic() - killed
    story.wait_for(lambda: outside.print_requests[order] > 1, f"job {job.pk} runs again")
    again = time.monotonic() - killed
    outside.release()
    wait_until_settled(demo)
    successor = story.wait_for(
        lambda: len(alive := demo.live_workers()) == PROCESSES and alive[-1], "the dead worker is replaced"
    )
    assert isinstance(successor, Worker)
    story.say(
        f"{noticed:.1f} s later the job is known to be lost, and after {again:.1f} s it runs again; "
        f"process {successor.pid} takes the dead one's place",
        *report.history([Job.objects.get(pk=job.pk)]),
    )

    ends = [run.kind for run in Job.objects.get(pk=job.pk).history()]
    story.expect(ends == [KindChoices.LOST, ""], f"job {job.pk} is lost once and then succeeds: {ends}")
    sheets = sum(count for key, count in outside.printed.items() if key.startswith(f"order-{order}-"))
    story.expect(sheets == 2, f"2 sheets of order {order} are printed, not {sheets}")
    story.say("the printer was asked twice and printed once, as the job sends it the key of each print")
    checks.orders(demo)
    checks.stock(demo)


def operating(demo: Demo) -> None:
    """Send dead letters round again, one in the admin and the others by a queryset, once all is mended."""
    story, outside = demo.story, demo.outside
    story.chapter("An operator sends dead letters round again")
    dead = checks.undelivered(demo)
    outside.repaired = True
    story.say("the partner whose server was down has mended it")
    first, *rest = dead
    retry_in_admin(demo, first)
    others = Job.objects.filter(pk__in=[job.pk for job in rest]).retry()
    story.expect(others == len(rest), f"{len(rest)} more jobs can be sent round again")
    names = " and ".join(f"job {job.pk}" for job in rest)
    story.say(
        f"the operator presses Retry on the admin's page of job {first.pk},",
        f"and sends {names} round with Job.objects.filter(…).retry()",
    )
    wait_until_settled(demo)
    story.say(*report.history([Job.objects.get(pk=first.pk)]))
    heard = sorted(outside.delivered.get("down", []))
    story.expect(heard == sorted(demo.orders), f"the partner hears of orders {demo.orders}, not {heard}")
    left = demo.jobs().filter(state=StateChoices.FAILED).count()
    story.expect(left == 1, f"only the corrupt photo's job is dead now, not {left} jobs")


def retry_in_admin(demo: Demo, job: Job) -> None:
    """Log in, open the job's page, press its Retry and confirm it."""
    browser = demo.browser
    login = browser.send("/admin/login/?next=/admin/", {"username": demo.staff, "password": demo.password})
    demo.story.expect(login.url.endswith("/admin/"), "the operator can log in to the admin")
    page = browser.get(f"/admin/django_jobs/job/{job.pk}/change/")
    offered = page.link("Retry")
    demo.story.expect(offered, f"the page of job {job.pk} offers to retry it ({page.status} {page.url})")
    browser.send(offered, {"confirmed": "yes", "attempts": "all"})
    job.refresh_from_db()
    demo.story.expect(job.state != StateChoices.FAILED, f"job {job.pk} is sent round again from the admin")


def rolling_back(demo: Demo) -> None:
    """Roll an order back: its job, enqueued in the same transaction, was never there."""
    story = demo.story
    story.chapter("A transaction is rolled back")
    photo = Photo.objects.get(pk=demo.photos[0])
    order, job = Order(), 0
    with suppress(ConnectionError), transaction.atomic():
        order = orders.place(name="Dora", email="dora@customers.example", size=Size.SMALL, copies={photo: 1})
        job = Job.objects.aggregate(last=Max("pk"))["last"] or 0
        story.expect(Job.objects.get(pk=job).args == [order.pk], "the order and its job are written")
        raise ConnectionError("the customer's bank does not answer")
    story.expect(not Order.objects.filter(pk=order.pk).exists(), "the order is rolled back")
    story.expect(not Job.objects.filter(pk=job).exists(), "a rolled back order leaves no job")
    story.say(f"order {order.pk} and its job {job} were written, then rolled back: neither is there")
