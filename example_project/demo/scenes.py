"""The scenes of the demo, each a few facts about django_jobs, shown on the shop and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import Max, Q, QuerySet, Sum
from django.db.models.functions import Now
from django.utils import timezone

from django_jobs.models import Job, KindChoices, StateChoices, Worker, WorkerState
from example_project.demo import checks, report
from example_project.demo.customer import Browser, Page, snapshot
from example_project.demo.outside import Outside
from example_project.demo.story import Story
from example_project.shop.models import Paper, Partner, Payment, Photo, Size
from example_project.shop.tasks import nightly_report

FRESH = timedelta(seconds=40)
"""How old the heartbeat of a worker that may still run is at most."""

PROCESSES = 2
"""Processes of workers."""

NEW_SHEETS = 50
PARTNERS = {"Once Upon a Frame": "once", "Sometimes Framed": "sometimes", "Frame Down": "down"}
"""Partners by name, with the moods of their servers."""

UNFINISHED = (StateChoices.READY, StateChoices.RUNNING, StateChoices.BLOCKED)


@dataclass(kw_only=True)
class Demo:
    """What the scenes share."""

    story: Story
    outside: Outside
    token: str
    """Makes this run's mail addresses and workers its own."""
    staff: str
    """Name of the staff user, for this run."""
    password: str
    address: str = ""
    first_job: int = 0
    sheets: int = 0
    """Sheets of all sizes in stock at the start, and put there later."""
    first_payment: int = 0
    orders: list[int] = field(default_factory=list)
    photos: list[int] = field(default_factory=list)
    report: int = 0

    @property
    def workers(self) -> str:
        """The name of our workers."""
        return f"demo-{self.token}"

    @property
    def browser(self) -> Browser:
        """A new customer's."""
        return Browser(self.address)

    def jobs(self) -> QuerySet[Job]:
        """The jobs that came of our own photos, orders and report."""
        ours = Q(meta__order__in=self.orders) | Q(meta__photo__in=self.photos) | Q(pk=self.report)
        return Job.objects.filter(ours, pk__gt=self.first_job).order_by("pk")

    def live_workers(self) -> list[Worker]:
        return list(
            Worker.objects.filter(name__startswith=self.workers, state=WorkerState.RUNNING).order_by("pk")
        )


def wait_for_others(demo: Demo) -> None:
    """Wait until no worker but ours runs on this database: it would know nothing of our mail server."""
    known: dict[int, str] = {}

    def none_left() -> bool:
        others = Worker.objects.filter(
            state__in=[WorkerState.RUNNING, WorkerState.STOPPING], heartbeat_at__gt=Now() - FRESH
        ).exclude(name__startswith=demo.workers)
        known.clear()
        known.update({worker.pid: worker.host for worker in others})
        return not known

    if not none_left():
        processes = ", ".join(f"process {pid} on {host}" for pid, host in known.items())
        demo.story.say(f"waiting for other workers on this database to end: {processes}")
        demo.story.wait_for(none_left, f"no other worker runs on this database, but {processes} does")


def prepare(demo: Demo) -> None:
    """Set up partners and paper, and note where our own rows begin."""
    for name, mood in PARTNERS.items():
        url = f"{demo.outside.http.url}/partners/{mood}"
        Partner.objects.update_or_create(name=name, defaults={"url": url, "is_active": True})
    for size in Size:
        sheets = 0 if size == Size.POSTER else 500
        Paper.objects.update_or_create(size=size, defaults={"sheets": sheets})
    demo.first_job = Job.objects.aggregate(last=Max("pk"))["last"] or 0
    demo.first_payment = Payment.objects.aggregate(last=Max("pk"))["last"] or 0
    demo.sheets = Paper.objects.aggregate(sheets=Sum("sheets"))["sheets"]


def shopping(demo: Demo) -> None:
    """Customers upload photos and order prints through the pages; the office asks for its report."""
    story = demo.story
    story.chapter("Customers, on the site's pages")
    ada = demo.browser
    for title, hue, cut_off in (("Lighthouse", 140, False), ("Harbour", 20, False), ("Torn", 90, True)):
        page = ada.send("/", {"title": title, "image": snapshot(title, hue, cut_off=cut_off)})
        story.expect(
            page.status == 200, f"the page takes the photo {title} ({page.status}, {page.complaints})"
        )
        demo.photos.append(Photo.objects.filter(title=title).latest("pk").pk)
    story.say("Ada uploads the photos Lighthouse, Harbour and Torn; the file of Torn is cut off")
    first = place_order(demo, ada, "Ada", Size.SMALL, copies=2)
    story.say(f"Ada orders 4 prints, 10 × 15 cm: order {first}")
    second = place_order(demo, demo.browser, "Ben", Size.POSTER, copies=1)
    story.say(f"Ben orders 2 posters, 30 × 40 cm, which are out of stock: order {second}")
    day = f"{timezone.now():%Y-%m-%d}"
    demo.report = int(nightly_report.using(meta={"day": day}).enqueue(day).id)
    story.say(f"the office asks for the report of {day}")


def place_order(demo: Demo, browser: Browser, name: str, size: Size, copies: int) -> int:
    """Order some copies of our first two photos through the page, and return the order's number."""
    page: Page = browser.send(
        "/order/",
        {
            "name": name,
            "email": f"{name.lower()}.{demo.token}@customers.example",
            "size": size.value,
            **{f"copies_{photo}": copies for photo in demo.photos[:2]},
        },
    )
    found = re.search(r"/orders/(\d+)/$", page.url)
    demo.story.expect(found, f"the page takes the order of {name} ({page.status}, {page.complaints})")
    assert found is not None
    order = int(found[1])
    demo.orders.append(order)
    return order


def settling(demo: Demo) -> None:
    """Wait until everything is settled, and show the history of each job."""
    story = demo.story
    waiting = demo.jobs().filter(attempts__kind=KindChoices.SNOOZED)
    story.wait_for(waiting.exists, "the order without paper is snoozed")
    Paper.objects.filter(size=Size.POSTER).update(sheets=NEW_SHEETS)
    demo.sheets += NEW_SHEETS
    story.say(f"order {demo.orders[-1]} waits for paper; {NEW_SHEETS} sheets of it come in")
    wait_until_settled(demo)

    story.chapter("What became of each job")
    jobs = list(demo.jobs())
    story.say(*report.history(jobs))
    story.chapter("Dead letters: jobs that wait for a person")
    dead = [job for job in jobs if job.state == StateChoices.FAILED]
    story.say(*report.dead_letters(dead))

    checks.photos(demo)
    checks.orders(demo)
    checks.stock(demo)
    checks.report(demo)


def wait_until_settled(demo: Demo) -> None:
    """
    Wait until none of our jobs is unfinished.

    No moment in between looks like that: a job that enqueues others does it in the transaction in which it
    ends, or before.
    """
    story = demo.story
    story.wait_for(
        lambda: not demo.jobs().filter(state__in=UNFINISHED).exists(), "all jobs are settled", seconds=120
    )
