"""
A job's timeline as a picture: when it waited for its time, when for a worker, and when it ran.

To scale, but that each piece is wide enough to be seen. Drawn as SVG here, coloured by the style sheet; the
list of events beside it says the same in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext

from django_jobs.core.states import State
from django_jobs.dashboard.charts import rounded
from django_jobs.dashboard.shown import moment, span
from django_jobs.models import Attempt, Job

WIDTH, HEIGHT = 960, 24

LEAST = 4.0
"""Width of a run that took next to nothing."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a job's life."""

    key: str
    """Chooses its colour."""
    title: str
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Piece:
    """One rectangle."""

    key: str
    x: str
    width: str
    says: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What the template `job/picture.html` draws."""

    pieces: Sequence[Piece]
    legend: Sequence[tuple[str, str]]
    """Each colour that occurs, and what it stands for."""
    begin: str
    end: str
    now_x: str
    """Where the present is; "" where all is past."""
    width: int = WIDTH
    height: int = HEIGHT


def picture(job: Job, runs: Sequence[Attempt], now: datetime | None = None) -> Picture | None:
    """Return a job's timeline; `None` where its times make no sense, as in a row that someone else wrote."""
    now = now or timezone.now()
    stretches = [stretch for stretch in life(job, runs, now) if stretch.begin <= stretch.end]
    if not stretches:
        return None
    begin, end = stretches[0].begin, max(stretch.end for stretch in stretches)
    whole = max((end - begin).total_seconds(), 0.001)

    def place(when: datetime) -> float:
        return (when - begin).total_seconds() / whole * WIDTH

    pieces = []
    for stretch in stretches:
        x = max(0.0, min(place(stretch.begin), WIDTH - LEAST))
        width = max(place(stretch.end) - x, LEAST if stretch.key not in ("scheduled", "ready") else 0.0)
        says = f"{stretch.title}: {span(stretch.end - stretch.begin)}"
        pieces.append(Piece(stretch.key, rounded(x), rounded(min(width, WIDTH - x)), says))
    is_over = job.state not in (State.READY, State.BLOCKED, State.RUNNING)
    return Picture(
        pieces=pieces,
        legend=list({stretch.key: (stretch.key, legend_of(stretch)) for stretch in stretches}.values()),
        begin=moment(begin),
        end=moment(end),
        now_x="" if is_over or not begin <= now <= end else rounded(place(now)),
    )


def life(job: Job, runs: Sequence[Attempt], now: datetime) -> Iterator[Stretch]:
    """Yield the stretches of a job's life in order."""
    at = job.enqueued_at if not runs or runs[0].number == 1 else runs[0].started_at or job.enqueued_at
    # What the row has is its latest due time.
    began_once = job.attempt == 1 and job.state in (State.RUNNING, State.SUCCESSFUL, State.FAILED)
    due = job.run_after if began_once or not runs else None
    for run in runs:
        began = run.started_at or at
        yield from waiting(at, due, began)
        at = max(began, run.ended_at or now)
        yield Stretch(key_of(run), gettext("Run %(number)s") % {"number": run.number}, began, at)
        due = run.next_run_after
    if job.state in (State.READY, State.BLOCKED):
        yield from waiting(at, job.run_after, max(now, job.run_after))
    elif job.finished_at is not None and (job.state == State.CANCELLED or not runs):
        yield from waiting(at, due, job.finished_at)


def waiting(since: datetime, due: datetime | None, until: datetime) -> Iterator[Stretch]:
    """Yield how long a job waited for its time, and how long for a worker."""
    if due is not None and due > since:
        yield Stretch("scheduled", gettext("waits for its time"), since, min(due, until))
        since = due
    if until > since:
        yield Stretch("ready", gettext("waits for a worker"), since, until)


def key_of(run: Attempt) -> str:
    """Return what chooses the colour of a run."""
    if run.kind:
        return str(run.kind).lower()
    return "successful" if run.decision else "running"


def legend_of(stretch: Stretch) -> str:
    """Return what a colour stands for."""
    words = {"successful": gettext("successful"), "running": gettext("running")}
    kinds = {str(kind).lower(): str(label) for kind, label in Attempt._meta.get_field("kind").flatchoices}
    return words.get(stretch.key) or kinds.get(stretch.key) or stretch.title
