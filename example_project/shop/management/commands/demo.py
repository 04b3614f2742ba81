"""`manage.py demo`: the shop, its customers and its workers, as a story that checks itself."""

from __future__ import annotations

import secrets
import signal
import tempfile
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.error import URLError

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from example_project.demo import incidents, scenes
from example_project.demo.outside import Outside
from example_project.demo.processes import Process, Processes
from example_project.demo.scenes import PROCESSES, Demo
from example_project.demo.story import Story, Unmet

LOCK = 1_684_370_285
"""Key of the advisory lock that keeps two demos off one database ('dem-' as a number)."""

ADDRESS = r"server at (http://127\.0\.0\.1:\d+/)"


class Command(BaseCommand):
    help = (
        "Show django_jobs at work: a small photo print shop, its web server and workers as real processes, "
        "customers on its pages, partners who fail, a worker that is killed. Checks what it shows; the "
        "exit status is 1 when an expectation isn't met."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--serve",
            action="store_true",
            help="then keep the site and the workers up until Ctrl-C, and print addresses and login",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, end)
        with tempfile.TemporaryDirectory(prefix="django-jobs-demo-") as folder, Processes() as processes:
            story = Story(self.write, processes)
            try:
                self.run(story, Path(folder), serve=options["serve"])
            except (Unmet, LookupError, URLError) as error:  # the last two: pages that aren't there
                raise CommandError(f"{story.logs()}\n\nNot met: {error}") from None
            except KeyboardInterrupt:
                self.write("\nstopping")
                if not options["serve"]:
                    raise SystemExit(130) from None

    def run(self, story: Story, folder: Path, *, serve: bool) -> None:
        """Play all scenes, and stay when `serve` is set."""
        self.write("A photo print shop and its jobs")
        story.chapter("The shop opens")
        call_command("migrate", verbosity=0)
        with alone(), outside_world() as outside, staff() as (name, password):
            token = secrets.token_hex(3)
            demo = Demo(story=story, outside=outside, token=token, staff=name, password=password)
            scenes.wait_for_others(demo)
            scenes.prepare(demo)
            self.open(demo, folder)
            scenes.shopping(demo)
            scenes.settling(demo)
            incidents.killing(demo)
            incidents.operating(demo)
            incidents.rolling_back(demo)
            self.write(f"\nAll {story.met} expectations are met, after {story.seconds:.0f} s.")
            if serve:
                self.serve(demo)

    def open(self, demo: Demo, folder: Path) -> None:
        """Start the web server and the workers, and wait until they are ready."""
        story, environment = demo.story, demo.outside.environment
        web = story.processes.start(
            Process(
                "the web server",
                "runserver",
                "--noreload",
                "127.0.0.1:0",
                folder=folder,
                environment=environment,
            )
        )
        story.processes.start(
            Process(
                "the worker",
                "runjobs",
                *("--processes", str(PROCESSES)),
                *("--threads", "4"),
                *("--shutdown-timeout", "5"),
                *("--worker-name", demo.workers),
                folder=folder,
                environment=environment,
            )
        )
        demo.address = story.wait_for(lambda: web.found(ADDRESS), "the web server starts")
        story.wait_for(lambda: len(demo.live_workers()) == PROCESSES, f"{PROCESSES} workers start")
        pids = " and ".join(str(worker.pid) for worker in demo.live_workers())
        story.say(
            f"database   PostgreSQL {server_version()}, {connection.settings_dict['HOST'] or 'local'}",
            f"web site   {demo.address}",
            f"workers    manage.py runjobs --processes {PROCESSES}: processes {pids}",
            "outside    a mail server that greylists, 3 partners with webhooks, a printer, exchange rates",
        )

    def serve(self, demo: Demo) -> None:
        """Print where everything is, and stay until Ctrl-C."""
        story = demo.story
        story.chapter("The shop stays open until Ctrl-C")
        story.say(
            f"site   {demo.address}",
            f"admin  {demo.address}admin/",
            f"login  {demo.staff} with the password {demo.password}",
            *(f"log    {process.log}" for process in story.processes.started),
        )
        while not story.processes.ended():
            threading.Event().wait(1)
        raise Unmet(f"{story.processes.ended()[0].name} runs on")

    def write(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def end(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def server_version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return str(cursor.fetchone()[0]).split()[0]


@contextmanager
def alone() -> Iterator[None]:
    """Keep other demos off this database meanwhile: they would run each other's jobs. Raises CommandError."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        if not cursor.fetchone()[0]:
            raise CommandError("Another demo runs on this database. Wait for its end, or stop it.")
    try:
        yield
    finally:
        connection.close()  # which frees the lock, also where the connection is broken


@contextmanager
def outside_world() -> Iterator[Outside]:
    outside = Outside()
    outside.start()
    try:
        yield outside
    finally:
        outside.stop()


@contextmanager
def staff() -> Iterator[tuple[str, str]]:
    """Make a staff user of our own, return its name and password, and delete it afterwards."""
    name, password = f"demo-{secrets.token_hex(3)}", secrets.token_urlsafe(9)
    user = get_user_model().objects.create_superuser(name, password=password)
    try:
        yield name, password
    finally:
        user.delete()
