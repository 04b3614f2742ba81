"""What is read on the pages: states, times and values as text. All that comes from outside is escaped."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from shlex import quote
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format, localize, number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.core.masking import masked, masked_positional
from django_jobs.core.states import State, Wish
from django_jobs.models import Job
from django_jobs.signatures import positional_names
from django_jobs.store.counting import Count
from django_jobs.store.stats import COUNTED

NOTHING = "–"
"""Stands where there is nothing to show."""

LONGEST_JSON = 20_000
"""Characters of one value on a page; the rest is cut off, and said to be."""

LONGEST_REASON = 160
"""Characters of a reason in the list."""

PATH_PART = re.compile(r"[^._]*[._]+|[^._]+")
"""What of a dotted path stays together on a line."""


def badge(text: str, key: str) -> SafeString:
    """Return `text` as a label; `key` chooses its colour and mark, and the text says the same."""
    return format_html('<span class="dj-badge dj-{}">{}</span>', key, text)


def state_badge(job: Job) -> SafeString:
    """Return the state of a job in a person's words."""
    shown = badge(job.label, job.phase)
    if job.state == State.RUNNING and job.cancel_requested_at is not None:
        return format_html("{} {}", shown, badge(gettext("asked to stop"), "cancelled"))
    return shown


def asked_badge(wish: str) -> SafeString:
    """Return what a worker was asked to do."""
    return badge(
        gettext("asked to stop") if wish == Wish.STOP else gettext("asked to drain"), "worker-stopping"
    )


def link(url: str, text: str) -> SafeString:
    """Return a link."""
    return format_html('<a href="{}">{}</a>', url, text)


def path(text: str) -> SafeString:
    """Return a dotted path, which may break after its dots and underlines rather than inside of a word."""
    parts = format_html_join("", "{}<wbr>", ((part,) for part in PATH_PART.findall(text)))
    return format_html('<span class="dj-path" dir="ltr">{}</span>', parts)


def attempts(job: Job) -> str:
    """Return the attempts that count, and how many there may be."""
    return f"{job.counted_attempt}/{'∞' if job.max_attempts is None else job.max_attempts}"


def span(length: timedelta | None) -> str:
    """Return a length of time in two units at most, such as "2 h 5 min"."""
    if length is None:
        return NOTHING
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 1:
        return gettext("%(number)d ms") % {"number": round(seconds * 1000)}
    if seconds < 10:
        return gettext("%(number)s s") % {"number": localize(round(seconds, 1))}
    whole = round(seconds)
    for size, inner, words in (
        (86_400, 3_600, _("%(outer)d d %(inner)d h")),
        (3_600, 60, _("%(outer)d h %(inner)d min")),
        (60, 1, _("%(outer)d min %(inner)d s")),
    ):
        if whole >= size:
            return str(words) % {"outer": whole // size, "inner": whole % size // inner}
    return gettext("%(number)d s") % {"number": whole}


def moment(when: datetime | None) -> str:
    """Return a point in time to the second, in the user's time zone and language."""
    if when is None:
        return NOTHING
    local = timezone.localtime(when) if timezone.is_aware(when) else when
    return f"{date_format(local, 'DATE_FORMAT')}, {local:%H:%M:%S}"


def stamp(when: datetime) -> SafeString:
    """Return a point in time to the second, also for machines."""
    return format_html('<time datetime="{}">{}</time>', when.isoformat(), moment(when))


def age(when: datetime | None, now: datetime | None = None) -> SafeString | str:
    """Return how long ago `when` was, or how far ahead it is, with the time itself for who points at it."""
    if when is None:
        return NOTHING
    passed = (now or timezone.now()) - when
    words = gettext("in %(span)s") % {"span": span(-passed)} if passed < timedelta(0) else span(passed)
    return format_html(
        '<time datetime="{}" title="{}" dir="auto">{}</time>', when.isoformat(), moment(when), words
    )


def grouped(number: int) -> str:
    """Return a number as people write it: 10,000."""
    return str(number_format(number, force_grouping=True))


def count(found: Count | None) -> str:
    """Return a number of jobs; of an estimate its first two digits, and marked as such."""
    if found is None:
        return NOTHING
    return grouped(found.count) if found.exact else f"≈\xa0{grouped(found.rounded)}"


def up_to_limit(number: int) -> str:
    """Return a number that counting may have stopped at."""
    return f"{grouped(COUNTED)}+" if number > COUNTED else grouped(number)


def cut(text: str | None, length: int = LONGEST_REASON) -> str:
    """Return the first line of `text`, cut to `length`."""
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= length else line[: length - 1] + "…"


def pretty(value: Any) -> SafeString | str:
    """Return `value` as indented JSON; what is over `LONGEST_JSON` is cut off with a mark."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    if len(text) > LONGEST_JSON:
        rest = gettext("… (cut off after %(shown)s of %(all)s characters)") % {
            "shown": grouped(LONGEST_JSON),
            "all": grouped(len(text)),
        }
        return format_html('<pre class="dj-json" dir="ltr">{}\n{}</pre>', text[:LONGEST_JSON], rest)
    return format_html('<pre class="dj-json" dir="ltr">{}</pre>', text)


def masked_json(value: Any) -> SafeString | str:
    """Return `value` as JSON with what has a sensitive name masked; a dash for nothing."""
    if value is None or value == {} or value == []:
        return NOTHING
    return pretty(masked(value, conf.current().sensitive_names))


def positional(job: Job) -> SafeString | str:
    """Return the positional arguments of a job as JSON, with those masked that have a sensitive name."""
    if not job.args:
        return NOTHING
    names = conf.current().sensitive_names
    parameters = positional_names(job.task_path)
    shown = pretty(masked_positional(job.args, parameters, names))
    if parameters is None and names:
        note = gettext(
            "Hidden, because this process doesn’t know the task, so that its sensitive arguments can’t "
            "be told from the others. Import the module of the task where the site starts."
        )
        return format_html('{}<p class="help">{}</p>', shown, note)
    return shown


def share(part: int, whole: int) -> str:
    """Return a share in per cent; a dash where there is nothing to have a share in."""
    if not whole:
        return NOTHING
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return gettext("< %(number)s %%") % {"number": localize(0.1)}
    return gettext("%(number)s %%") % {"number": figure(percent)}


def figure(number: float) -> str:
    """Return a number with one place behind its point while it is small."""
    return grouped(round(number)) if number >= 100 else str(localize(round(number, 1)))


def runjobs_for(queue_name: str) -> str:
    """Return the command that starts a worker for a queue, as a shell takes it."""
    return f"manage.py runjobs --queue={quote(queue_name)}"
