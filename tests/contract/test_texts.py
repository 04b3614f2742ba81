"""
Every text that a user's browser shows goes through gettext.

A language is played in which each translated text stands in brackets; what stands outside of them on a page,
and isn't data, was not translated. As in Django itself, system checks, commands, log lines and exceptions
speak English.
"""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone, translation

from django_jobs.models import Attempt, Job, Queue, Worker
from django_jobs.tasks import registry

SHOWN = {"title", "placeholder", "aria-label", "alt", "aria-description"}
BRACKETED = re.compile(r"⟦[^⟦⟧]*⟧")
WORD = re.compile(r"[^\W\d_]{2,}")
DATA = re.compile(
    r"\w+(?:\.\w+)*\.tasks\.\w+|[\w.]*worker-7|host-7|default|mail|ada|builtins\.\w+|ValueError|boom|Traceback.*|"
    r"\{.*?\}|\[.*?\]|0x\w+|django_jobs|\b(?:id|pk)\b|\d+(?:ms|s|min|h|d)\b|UTC|PostgreSQL|JSON|"
    r"\d{4}-\d\d-\d\d\S*|key|value",
    re.DOTALL,
)


OF_DJANGO = {"Search", "True", "False", "None"}
"""Descriptions of icons that Django's own admin doesn't translate."""


class Texts(HTMLParser):
    """Gathers what a page shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.hidden += tag in {"script", "style", "code", "pre"}
        self.found += [value for name, value in attrs if name in SHOWN and value]
        if tag == "input" and given.get("type") in {"submit", "button", "reset"} and given.get("value"):
            self.found.append(given["value"])

    def handle_endtag(self, tag):
        self.hidden -= tag in {"script", "style", "code", "pre"}

    def handle_data(self, data):
        if not self.hidden:
            self.found.append(data)


def untranslated(html: str) -> set[str]:
    """Return the texts of a page with words outside of the brackets that are no data."""
    page = Texts()
    page.feed(html)
    found = set()
    for text in page.found:
        rest = text
        while BRACKETED.search(rest):
            rest = BRACKETED.sub("", rest)
        if WORD.search(DATA.sub("", rest)) and " ".join(text.split()) not in of_the_project():
            found.add(" ".join(text.split()))
    return found


def of_the_project() -> set[str]:
    """Return what stands beside our texts: names of the project's apps, models, tasks' parts and queues."""
    app = apps.get_app_config("shop")
    names = {str(app.verbose_name), *(str(m._meta.verbose_name_plural) for m in app.get_models())}
    parts = {"shop.", "tasks.", "send", *registry, *(task.queue_name for task in registry.values())}
    return {name[0].upper() + name[1:] for name in names} | parts | OF_DJANGO


@pytest.fixture
def bracketed(monkeypatch):
    """Have each translated text in brackets."""
    real = translation._trans  # type: ignore[attr-defined]
    for name, place in (("gettext", 0), ("pgettext", 1)):
        monkeypatch.setattr(real, name, lambda *texts, place=place: f"⟦{texts[place]}⟧")
    for name, place in (("ngettext", 0), ("npgettext", 1)):
        monkeypatch.setattr(
            real,
            name,
            lambda *texts, place=place: f"⟦{texts[place] if texts[place + 2] == 1 else texts[place + 1]}⟧",
        )


@pytest.fixture
def rows(db):
    """A job in each state, with attempts, a worker, and a paused queue."""
    now = timezone.now()
    worker = Worker.objects.create(
        name="worker-7", host="host-7", pid=7, threads=8, async_slots=2, heartbeat_at=now, queues=["mail"]
    )
    Queue.objects.create(name="mail", paused_at=now)
    common = {"queue_name": "mail", "task_path": "shop.tasks.send", "max_attempts": 5, "args": [1]}
    ended = {"attempt": 1, "finished_at": now, "last_attempted_at": now, "started_at": now}
    jobs = [
        Job.objects.create(state="READY", **common),
        Job.objects.create(state="READY", run_after=now + timedelta(days=1), **common),
        Job.objects.create(state="READY", run_after=now + timedelta(days=1), attempt=1, **common),
        Job.objects.create(
            state="RUNNING", attempt=1, worker=worker.pk, started_at=now, last_attempted_at=now, **common
        ),
        *(Job.objects.create(state=s, **ended, **common) for s in ("SUCCESSFUL", "FAILED", "CANCELLED")),
    ]
    for kind, decision in (
        ("ERROR", "RETRY"),
        ("TIMEOUT", "FAILED"),
        ("LOST", "RETRY"),
        ("SNOOZED", "SNOOZE"),
    ):
        Attempt.objects.create(
            job=jobs[5],
            number=Attempt.objects.count() + 1,
            worker=worker.pk,
            kind=kind,
            decision=decision,
            exception_class="builtins.ValueError",
            message="boom",
            traceback="Traceback",
            started_at=now,
            ended_at=now,
        )
    return jobs


@pytest.fixture
def client(db):
    user = User.objects.create_superuser("ada")
    client = Client()
    client.force_login(user)
    return client


def test_every_page_of_the_admin(rows, client, bracketed):
    base = "/admin/django_jobs/"
    pages = [base, *(f"{base}{model}/" for model in ("job", "queue", "worker"))]
    pages += [f"{base}job/{job.pk}/change/" for job in rows]
    pages += [f"{base}job/{action}/{rows[5].pk}/" for action in ("retry", "delete")]
    pages += [f"{base}job/{action}/{rows[0].pk}/" for action in ("cancel", "run")]
    pages += [f"{base}worker/{worker.pk}/change/" for worker in Worker.objects.all()]
    pages += [f"{base}queue/{queue.pk}/change/" for queue in Queue.objects.all()]
    left = {}
    for page in pages:
        answer = client.get(page, follow=True)
        assert answer.status_code == 200, page
        if found := untranslated(answer.content.decode()):
            left[page] = found

    assert not left, left


def test_texts_outside_of_gettext_are_found(bracketed):
    page = "<p title='plain'>⟦a⟧ 7</p><input type=submit value=Send><b>bare</b><code>x yz</code>⟦c %s⟧"

    assert untranslated(page) == {"plain", "Send", "bare"}
