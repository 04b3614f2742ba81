"""
Pictures of the admin's pages, with sample rows: `python docs/screenshots.py [folder] [words of names…]`.

Needs Debian's `chromium` (or CHROMIUM in the environment) and the `test` extra. Starts the site on a database
that is deleted again, with a policy for content where Django has it, and writes each page in light, dark,
phone width and right-to-left to docs/_build/screenshots/. Ends with status 1 when the browser had anything
to complain about, such as an inline style.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

import django
from django.conf import settings

# ruff: noqa: E402  (Django's own modules want it to be set up)
if django.VERSION >= (6, 0):
    settings.MIDDLEWARE = ["django.middleware.csp.ContentSecurityPolicyMiddleware", *settings.MIDDLEWARE]
    settings.SECURE_CSP = {"default-src": ["'self'"]}
settings.SILENCED_SYSTEM_CHECKS = ["django_jobs.W001"]
django.setup()

from django.contrib.auth.models import Permission, User
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.signals import request_started
from django.test import Client
from django.test.testcases import LiveServerThread
from django.test.utils import setup_databases, teardown_databases
from django.utils import timezone
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, sync_playwright

from django_jobs import task, working_off
from django_jobs.models import Attempt, BulkAction, Capture, Job, Queue, Stat, Worker
from django_jobs.store.statistics import Tally
from example_project.shop.models import Order

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1360, "height": 1000}},
    "dark": {"viewport": {"width": 1360, "height": 1000}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 800}},
    "rtl": {"viewport": {"width": 1360, "height": 1000}, "locale": "ar"},
}

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/webhooks.py", line 41, in post_webhook
    response = session.post(url, json=payload, timeout=10)
  File "/srv/venv/lib/python3.13/site-packages/requests/sessions.py", line 637, in post
    return self.request("POST", url, data=data, json=json, **kwargs)
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='example.com', port=443): Max retries exceeded
"""


LOGGED = (
    ("INFO", "shop.webhooks", "telling https://example.com/hooks/orders of order 7"),
    ("DEBUG", "urllib3.connectionpool", "Starting new HTTPS connection (1): example.com:443"),
    ("WARNING", "shop.webhooks", "no answer yet, trying again\nafter 10 s"),
)
"""Level, logger and text of lines that runs logged."""


def stay_alive(**_: object) -> None:
    """Have the sample workers be heard of, as long as it takes."""
    Worker.objects.filter(name="mailer", stopped_at=None).update(heartbeat_at=timezone.now())


def post_webhook(url: str, payload: dict[str, Any], timeout: int = 10, **more: Any) -> None:
    """A task that the site knows, so that its arguments have names."""


def fill() -> dict[str, str]:
    """Create sample rows and return the pages to look at, by name."""
    now = timezone.now()
    post_webhook.__module__ = "shop.webhooks"
    task(queue_name="webhooks", max_attempts=4)(post_webhook)
    User.objects.create_superuser("ada", "ada@example.com", "ada")
    viewer = User.objects.create_user("vera", "vera@example.com", "vera", is_staff=True)
    viewer.user_permissions.set(
        Permission.objects.filter(codename__in=["view_job", "view_overview", "view_queue", "view_worker"])
    )

    def worker(name: str, silent: float, **more: object) -> Worker:
        return Worker.objects.create(
            **{
                "name": name,
                "host": "web-1.example.com",
                "pid": 4242,
                "threads": 8,
                "async_slots": 4,
                "holds_lock": True,
                "takes_requests": True,
                "limits": {},
                "memory_bytes": 91 * 2**20,
                "started_at": now - timedelta(hours=5),
                "heartbeat_at": now - timedelta(seconds=silent),
                "versions": {"django_jobs": "0.1.0", "django": django.__version__, "python": "3.13"},
                "tasks": [
                    "shop.tasks.send_receipt",
                    "shop.tasks.make_thumbnail",
                    "shop.webhooks.post_webhook",
                    working_off.PATH,
                ],
            }
            | more
        )

    of_one = {"supervisor": "a", "supervisor_pid": 4240, "queues": ["mail", "default"], "limits": {"mail": 2}}
    mailer = worker("mailer", 3, **of_one)
    silent = worker("batch", 95, queues=["default"], takes_requests=False, limits=None, memory_bytes=None)
    worker("mailer", 2, pid=4243, state="STOPPING", asked_to="DRAIN", asked_by="ada", asked_at=now, **of_one)
    worker(
        "mailer",
        7000,
        queues=["mail"],
        state="STOPPED",
        stopped_at=now - timedelta(hours=2),
        ending="asked to stop",
    )
    worker("batch", 9000, queues=None, state="LOST", ending="killed by signal 9", excluded_queues=["mail"])
    Queue.objects.create(
        name="webhooks",
        paused_at=now - timedelta(minutes=12),
        paused_by="ada",
        pause_reason="The partner's endpoint answers 500 to everything; ticket OPS-421",
    )
    for number in range(40):
        Job.objects.create(
            queue_name="default",
            task_path="shop.tasks.make_thumbnail",
            args=[number],
            state="SUCCESSFUL",
            attempt=1,
            max_attempts=5,
            worker=mailer.pk,
            enqueued_at=now - timedelta(minutes=60 - number),
            started_at=now - timedelta(minutes=59 - number),
            last_attempted_at=now - timedelta(minutes=59 - number),
            finished_at=now - timedelta(minutes=59 - number) + timedelta(milliseconds=340 + 77 * number),
            return_value={"width": 320, "height": 240},
            expires_at=now + timedelta(days=1),
        )
    for number in range(3):
        Job.objects.create(
            queue_name="default",
            task_path="shop.tasks.make_thumbnail",
            args=[number],
            state="RUNNING",
            attempt=1,
            max_attempts=5,
            worker=(mailer, mailer, silent)[number].pk,
            enqueued_at=now - timedelta(minutes=2),
            started_at=now - timedelta(seconds=100),
            last_attempted_at=now - timedelta(seconds=100 - 30 * number),
            cancel_requested_at=now if number == 1 else None,
        )
    order = Order.objects.create(name="Ada", email="ada@example.com", price_cents=290)
    failed = Job.objects.create(
        queue_name="webhooks",
        task_path="shop.webhooks.post_webhook",
        state="FAILED",
        attempt=5,
        uncounted=1,
        max_attempts=4,
        args=["https://example.com/hooks/orders", {"order": 7, "api_key": "k-123"}],
        kwargs={"timeout": 10, "authorization": "Bearer abc", "lines": [{"sku": "A4-matt", "copies": 2}]},
        enqueued_at=now - timedelta(minutes=34),
        started_at=now - timedelta(minutes=33),
        last_attempted_at=now - timedelta(minutes=4),
        finished_at=now - timedelta(minutes=4, seconds=-10.4),
        expires_at=now + timedelta(days=14),
        reason="ConnectionError: HTTPSConnectionPool(host='example.com', port=443)",
        meta={"tags": ["partner"], "enqueued_by": "ada", "about": f"shop.order/{order.pk}"},
        worker=mailer.pk,
    )
    kinds = [
        ("ERROR", "RETRY"),
        ("SNOOZED", "SNOOZE"),
        ("TIMEOUT", "RETRY"),
        ("LOST", "RETRY"),
        ("ERROR", "FAILED"),
    ]
    for number, (kind, decision) in enumerate(kinds, 1):
        started = now - timedelta(minutes=34 - 6 * number)
        Attempt.objects.create(
            job=failed,
            number=number,
            worker=mailer.pk,
            started_at=started,
            kind=kind,
            decision=decision,
            ended_at=started + timedelta(seconds=10.4),
            next_run_after=started + timedelta(minutes=6),
            **(
                {
                    "exception_class": "requests.exceptions.ConnectionError",
                    "traceback": TRACEBACK,
                    "message": "HTTPSConnectionPool(host='example.com', port=443): Max retries exceeded",
                }
                if kind == "ERROR"
                else {}
            ),
        )
    for number, lines in ((1, 3), (5, 40)):
        Capture.objects.create(
            job=failed,
            number=number,
            lines=[
                [now.timestamp() - 60 + place / 3, *LOGGED[place % len(LOGGED)]] for place in range(lines)
            ],
            cut=128 if lines == 40 else 0,
            cut_at=20,
            queries=lines + 4,
            query_seconds=0.0123 * lines,
        )
    for _ in range(14):
        Job.objects.create(
            queue_name="webhooks",
            task_path="shop.webhooks.post_webhook",
            args=["https://example.com"],
            state="FAILED",
            attempt=4,
            max_attempts=4,
            enqueued_at=now - timedelta(hours=3),
            reason="ConnectionError: Max retries exceeded",
            meta={"about": f"shop.order/{order.pk}"},
            started_at=now - timedelta(hours=2),
            last_attempted_at=now - timedelta(hours=1, seconds=5),
            finished_at=now - timedelta(hours=1),
        )
    Job.objects.create(
        queue_name="mail",
        task_path="shop.tasks.send_receipt",
        args=[9],
        state="CANCELLED",
        attempt=0,
        max_attempts=5,
        enqueued_at=now - timedelta(hours=1),
        finished_at=now,
        reason="Order was withdrawn",
    )
    for number in range(6):
        Job.objects.create(
            queue_name="mail",
            task_path="shop.tasks.send_receipt",
            args=[number],
            attempt=number % 2,
            max_attempts=5,
            enqueued_at=now - timedelta(minutes=5),
            run_after=now + timedelta(minutes=3 + 17 * number),
            started_at=now - timedelta(minutes=4) if number % 2 else None,
            last_attempted_at=now - timedelta(minutes=4) if number % 2 else None,
            reason="SMTPServerDisconnected: Connection unexpectedly closed" if number % 2 else None,
        )
    for number in range(5):
        Job.objects.create(
            queue_name="reports",
            task_path="shop.reports.nightly.write_accounts_of_all_subsidiaries_as_csv",
            kwargs={"month": number + 1},
            max_attempts=None,
            enqueued_at=now - timedelta(minutes=42),
            run_after=now - timedelta(minutes=42),
        )
    fill_figures()
    bulk = working_off.ask_for(
        "retry", {}, {"labels": ["failed"]}, alias="default", matching="state=failed, queue=webhooks",
        per_second=200, total=61_000, is_estimate=True, user=User.objects.get(username="ada"),
    )  # fmt: skip
    BulkAction.objects.update(done=23_400, skipped=12)
    Job.objects.filter(pk=bulk.job).update(
        state="RUNNING", worker=mailer.pk, attempt=1, last_attempted_at=now
    )
    base = "/admin/django_jobs"
    return {
        "overview": f"{base}/overview/",
        "overview-day": f"{base}/overview/?period=day",
        "overview-viewer": f"{base}/overview/",
        "jobs": f"{base}/job/",
        "jobs-failed": f"{base}/job/?state=failed&queue=webhooks",
        "job": f"{base}/job/{failed.pk}/change/",
        "job-waiting": f"{base}/job/{Job.objects.filter(queue_name='reports').latest('pk').pk}/change/",
        "job-edit": f"{base}/job/edit/{failed.pk + 17}/",
        "confirm-retry": f"{base}/job/retry/{failed.pk}/",
        "confirm-cancel": f"{base}/job/cancel/{failed.pk - 1}/",
        "confirm-retry-all": f"{base}/job/retry-failed/?queue=webhooks",
        "tasks": f"{base}/knowntask/",
        "run": f"{base}/knowntask/run/shop.webhooks.post_5Fwebhook/",
        "workers": f"{base}/worker/",
        "worker": f"{base}/worker/{mailer.pk}/change/",
        "confirm-stop": f"{base}/worker/stop/{mailer.pk}/",
        "queues": f"{base}/queue/",
        "queue": f"{base}/queue/webhooks/change/",
        "queue-stuck": f"{base}/queue/reports/change/",
        "confirm-pause": f"{base}/queue/pause/mail/",
        "bulks": f"{base}/bulkaction/",
        "bulk": f"{base}/bulkaction/{bulk.pk}/change/",
        "index": "/admin/",
        "order": f"/admin/shop/order/{order.pk}/change/",
        "jobs-viewer": f"{base}/job/",
        "job-viewer": f"{base}/job/{failed.pk}/change/",
    }


def fill_figures() -> None:
    """Create what workers would have written down in a day of a shop."""
    rng = random.Random(4)
    now = timezone.now()
    kinds = [
        ("default", "shop.tasks.make_thumbnail", 40, 0.002, 0.03, 0.4),
        ("mail", "shop.tasks.send_receipt", 12, 0.01, 0.02, 0.9),
        ("webhooks", "shop.webhooks.post_webhook", 5, 0.25, 3.0, 10.0),
    ]
    for seconds, number in ((60, 60), (3600, 168)):
        for place in range(number):
            at = (now - timedelta(seconds=seconds * place)).replace(second=0, microsecond=0)
            at = at.replace(minute=0) if seconds == 3600 else at
            wave = (1.2 + math.sin(place / (5 if seconds == 60 else 3.8))) * seconds / 60
            for queue, name, pace, failing, wait, length in kinds:
                tally = Tally()
                runs = round(pace * wave * rng.uniform(0.7, 1.3))
                tally.failed = round(runs * failing * rng.random())
                tally.retried = round(runs * failing * rng.random())
                tally.completed = runs - tally.failed - tally.retried
                for _ in range(min(runs, 200)):
                    tally.took(wait * rng.lognormvariate(0, 1), length * rng.lognormvariate(0, 0.7))
                figures = {name: getattr(tally, name) for name in ("completed", "failed", "retried")}
                figures["enqueued"] = round(runs * rng.uniform(0.8, 1.25))
                Stat.objects.create(
                    seconds=seconds, at=at, queue_name=queue, task_path=name,
                    waits=tally.waits, runs=tally.runs, **figures,
                )  # fmt: skip


@contextmanager
def site() -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """Give the address of a running site with the sample rows, its pages, and each user's session."""
    settings.DEBUG = False
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        pages = fill()
        sessions = {}
        for user in User.objects.all():
            client = Client()
            client.force_login(user)
            sessions[user.username] = client.cookies[settings.SESSION_COOKIE_NAME].value
        server = LiveServerThread("127.0.0.1", StaticFilesHandler)
        server.daemon = True
        server.start()
        server.is_ready.wait()
        if server.error:
            raise server.error
        request_started.connect(stay_alive)
        try:
            yield f"http://127.0.0.1:{server.port}", pages, sessions
        finally:
            server.terminate()
    finally:
        teardown_databases(databases, verbosity=0)


def photograph(browser: Browser, address: str, session: str, look: str, pages: dict[str, Path]) -> int:
    """Write pictures of pages, each to its path, and return how often the browser complained."""
    complaints: list[str] = []
    window = browser.new_context(base_url=address, **LOOKS[look])
    window.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": address}])
    tab = window.new_page()
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
    for page, path in pages.items():
        seen = len(complaints)
        answer = tab.goto(page)
        if answer is None or answer.status != 200:
            complaints.append(f"{page}: {answer and answer.status}")
        tab.screenshot(path=path, full_page=True)
        Image.open(path).quantize(255, dither=Image.Dither.NONE).save(path, optimize=True)
        print(path.stem, *complaints[seen:], sep="\n  ")
    window.close()
    return len(complaints)


def is_complaint(message: ConsoleMessage) -> bool:
    """Whether it is an error or a warning, other than that the site has no icon."""
    return message.type in ("error", "warning") and not message.location["url"].endswith("/favicon.ico")


def main() -> int:
    """Write all pictures, or those whose name holds one of the words given after the folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "_build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:]
    complaints = 0
    with site() as (address, pages, sessions), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which(os.environ.get("CHROMIUM", "chromium")),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        for look in LOOKS:
            for user, session in sessions.items():
                named = {
                    page: folder / f"{name}-{look}.png"
                    for name, page in pages.items()
                    if name.endswith("-viewer") == (user == "vera")
                    and (not wanted or any(word in f"{name}-{look}" for word in wanted))
                }
                complaints += photograph(browser, address, session, look, named)
        browser.close()
    print(f"Pictures are in {folder}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
