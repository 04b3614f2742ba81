"""The story of one job: its runs with what was decided after each, and everything that happened in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from django_jobs.captures import Capture, Line
from django_jobs.core.states import Decision, State
from django_jobs.dashboard import shown
from django_jobs.models import Attempt, Job

MOST_RUNS = 50
"""Runs that the page shows, the latest; a job may have thousands, each with its traceback."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job, or is going to."""

    at: datetime
    what: str
    key: str = ""
    """Chooses the mark before it."""
    is_ahead: bool = False

    @property
    def when(self) -> str:
        return shown.moment(self.at)

    @property
    def ago(self) -> SafeString | str:
        return shown.age(self.at)


@dataclass(frozen=True, slots=True)
class Run:
    """One run as it is shown."""

    attempt: Attempt
    worker_url: str = ""
    worker_name: str = ""
    capture: Capture | None = None

    @property
    def number(self) -> int:
        return self.attempt.number

    @property
    def result(self) -> SafeString:
        if self.attempt.kind:
            return shown.badge(self.attempt.get_kind_display(), self.attempt.kind.lower())
        if self.attempt.decision == Decision.SUCCEEDED:
            return shown.badge(gettext("successful"), "successful")
        return shown.badge(gettext("running"), "running")

    @property
    def decision(self) -> str:
        return self.attempt.get_decision_display() if self.attempt.decision else shown.NOTHING

    @property
    def started(self) -> str:
        return shown.moment(self.attempt.started_at)

    @property
    def ended(self) -> str:
        return shown.moment(self.attempt.ended_at)

    @property
    def next_due(self) -> str:
        return shown.moment(self.attempt.next_run_after)

    @property
    def duration(self) -> str:
        started, ended = self.attempt.started_at, self.attempt.ended_at
        return shown.NOTHING if started is None else shown.span((ended or timezone.now()) - started)

    @property
    def summary(self) -> str:
        """The exception in one line; "" when there was none."""
        name, message = self.attempt.exception_class, self.attempt.message
        return shown.cut(f"{name}: {message}" if name and message else name or message)

    @property
    def captured(self) -> str:
        """What was captured in one line: how many log lines, how many queries and their time."""
        found = self.capture
        if found is None:
            return ""
        number = len(self.log) - bool(found.cut) + found.cut
        words = ngettext("%(number)s log line", "%(number)s log lines", number)
        parts = [words % {"number": shown.grouped(number)}]
        if found.queries is not None:
            words = ngettext("%(number)s query in %(span)s", "%(number)s queries in %(span)s", found.queries)
            span = shown.span(timedelta(seconds=found.query_seconds or 0))
            parts.append(words % {"number": shown.grouped(found.queries), "span": span})
        return " · ".join(parts)

    @property
    def log(self) -> list[LogLine]:
        """The captured lines for the page."""
        return [] if self.capture is None else [log_line(line) for line in self.capture.log()]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a captured log as it is shown; a mark for those that are missing has no level."""

    text: str
    level: str = ""
    when: str = ""
    logger: str = ""


def log_line(line: Line | int) -> LogLine:
    """Return a captured line, or the number of missing ones, for the page."""
    if isinstance(line, int):
        words = ngettext("… %(number)s line was cut …", "… %(number)s lines were cut …", line)
        return LogLine(words % {"number": shown.grouped(line)})
    local = timezone.localtime(line.at)
    return LogLine(line.text, line.level, f"{local:%H:%M:%S}.{local.microsecond // 1000:03}", line.logger)


def captures_of(job: Job, runs: Sequence[Attempt]) -> dict[int, Capture]:
    """Return what was captured of `runs`, by their numbers."""
    return {found.number: found for found in job.captures.filter(number__in=[run.number for run in runs])}


def runs_of(job: Job) -> tuple[list[Attempt], int]:
    """
    Return the latest `MOST_RUNS` runs in order, and how many came before them.

    As `Job.history`, which loads all of them.
    """
    kept = list(job.attempts.order_by("-number")[: MOST_RUNS + 1])
    earlier = job.attempts.count() - MOST_RUNS if len(kept) > MOST_RUNS else 0
    runs = kept[MOST_RUNS - 1 :: -1]
    if last := job.run_without_a_row():
        runs.append(last)
    return runs, earlier


def timeline(job: Job, runs: Sequence[Attempt]) -> list[Event]:
    """Return what happened to `job`, and what is going to, in order of time."""
    events = [Event(job.enqueued_at, gettext("Enqueued"))]
    for attempt in runs:
        number: dict[str, Any] = {"number": attempt.number}
        if attempt.started_at is not None:
            events.append(Event(attempt.started_at, gettext("Run %(number)s started") % number, "running"))
        if attempt.ended_at is not None:
            words = {**number, "decision": Run(attempt).decision}
            result = attempt.get_kind_display() if attempt.kind else gettext("successful")
            what = gettext("Run %(number)s ended: %(result)s → %(decision)s") % {**words, "result": result}
            events.append(Event(attempt.ended_at, what, (attempt.kind or "successful").lower()))
    if job.cancel_requested_at is not None:
        events.append(Event(job.cancel_requested_at, gettext("Asked to stop"), "cancelled"))
    if job.finished_at is not None and job.state != State.SUCCESSFUL:
        what = gettext("Became “%(state)s”") % {"state": job.get_state_display()}
        events.append(Event(job.finished_at, what, str(job.state).lower()))
    now = timezone.now()
    if job.state == State.READY:
        ahead = job.run_after > now
        events.append(Event(job.run_after, gettext("Due"), "scheduled" if ahead else "ready", is_ahead=ahead))
    if job.expires_at is not None:
        events.append(Event(job.expires_at, gettext("Kept until"), is_ahead=job.expires_at > now))
    return sorted(events, key=lambda event: event.at)
