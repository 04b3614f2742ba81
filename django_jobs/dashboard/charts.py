"""
Charts as SVG: bars of what ended, one for each minute or hour, and a line of what was enqueued. The small
ones of lists have an area for the bars. Drawn here, coloured by the style sheet.

No style stands in the markup, so a strict Content-Security-Policy lets it pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from django_jobs.dashboard.shown import grouped
from django_jobs.store.statistics import PERIODS, Moment, Period

WIDTH, HEIGHT = 960, 120
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
UNCOUNTED_MINUTES = 2
"""The latest minutes, whose new jobs aren't counted yet: the line ends before them."""

GAP = 0.2
"""Share of a bar's room that stays empty."""


@dataclass(frozen=True, slots=True)
class Part:
    """One coloured piece of a bar, from `y` down."""

    key: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Bar:
    """What ended in one minute or hour."""

    x: str
    width: str
    says: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Mark:
    """A time below the chart."""

    x: str
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing for the template `chart.html`."""

    bars: Sequence[Bar]
    marks: Sequence[Mark]
    most: str
    """What the highest bar stands for."""
    says: str
    """The chart in words."""
    line: str = ""
    """What was enqueued, as points; empty where nothing was."""
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class Spark:
    """A small drawing of the last hour, for the template `spark.html`."""

    area: str
    """What ended, as points."""
    line: str
    """What was enqueued, as points; empty where nothing was, or that isn't shown."""
    bars: Sequence[Bar]
    """Minutes with failures."""
    says: str
    width: int = SPARK_WIDTH
    height: int = SPARK_HEIGHT


def spark(course: Sequence[Moment], *, says: str, with_line: bool, now: datetime | None = None) -> Spark:
    """Draw the last hour: what ended, what of it failed and, if wanted, what was enqueued."""
    moments = list(steps(course, PERIODS[0], now).values())
    most = max((max(m.ended, m.enqueued if with_line else 0) for m in moments if m), default=0) or 1
    room = SPARK_WIDTH / len(moments)
    ended = points([moment.ended if moment else 0 for moment in moments], room, SPARK_HEIGHT, most)
    first, last = (f"{rounded(x)},{SPARK_HEIGHT}" for x in (room / 2, SPARK_WIDTH - room / 2))
    bars = [
        Bar(
            x=rounded(place * room),
            width=rounded(room),
            says="",
            parts=[Part("failed", rounded(SPARK_HEIGHT - height), rounded(height))],
        )
        for place, moment in enumerate(moments)
        if moment and moment.failed
        for height in [max(moment.failed / most * SPARK_HEIGHT, 2.0)]
    ]
    return Spark(
        area=f"{first} {ended} {last}" if any(moments) else "",
        line=line(moments, PERIODS[0], room, SPARK_HEIGHT, most) if with_line else "",
        bars=bars,
        says=says,
    )


def steps(course: Sequence[Moment], period: Period, now: datetime | None = None) -> dict[int, Moment | None]:
    """Return the minutes or hours of a period up to now by when they begin; `None` where nothing was."""
    last = int((now or timezone.now()).timestamp()) // period.seconds * period.seconds
    number = int(period.length.total_seconds()) // period.seconds
    found = {int(instant(moment.at).timestamp()): moment for moment in course}
    begins = (last - ago * period.seconds for ago in reversed(range(number)))
    return {begin: found.get(begin) for begin in begins}


def line(moments: Sequence[Moment | None], period: Period, room: float, height: int, most: int) -> str:
    """Return what was enqueued as points, up to where it is counted; "" where nothing was."""
    known = moments[: len(moments) - UNCOUNTED_MINUTES * 60 // period.seconds]
    numbers = [moment.enqueued if moment else 0 for moment in known]
    return points(numbers, room, height, most) if any(numbers) else ""


def points(numbers: Sequence[int], room: float, height: int, most: int) -> str:
    """Return numbers as the points of a line, each in the middle of its room."""
    return " ".join(
        f"{rounded((place + 0.5) * room)},{rounded(height * (1 - number / most))}"
        for place, number in enumerate(numbers)
    )


def chart(course: Sequence[Moment], period: Period, now: datetime | None = None) -> Chart:
    """Draw what ended in a period; minutes and hours without anything are gaps."""
    found = steps(course, period, now)
    begins = list(found)
    most = max((max(moment.ended, moment.enqueued) for moment in course), default=0)
    room = WIDTH / len(found)
    bars = [
        Bar(
            x=rounded(place * room + room * GAP / 2),
            width=rounded(room * (1 - GAP)),
            says=f"{time_of(begin, period)}: {words(moment)}",
            parts=parts(moment, most),
        )
        for place, (begin, moment) in enumerate(found.items())
        if moment is not None and (moment.ended or moment.enqueued)
    ]
    marks = [
        Mark(x=rounded(share * WIDTH), anchor=anchor, text=time_of(at, period))
        for share, anchor, at in (
            (0, "start", begins[0]),
            (0.5, "middle", begins[-1] - len(begins) // 2 * period.seconds),
            (1, "end", begins[-1]),
        )
    ]
    total = Moment(
        timezone.now(),
        sum(moment.completed for moment in course),
        sum(moment.failed for moment in course),
        sum(moment.retried for moment in course),
        sum(moment.enqueued for moment in course),
    )
    return Chart(
        bars=bars,
        marks=marks,
        most=grouped(most) if most else "",
        says=words(total),
        line=line(list(found.values()), period, room, HEIGHT, most),
    )


def parts(moment: Moment, most: int) -> list[Part]:
    """Return the pieces of a bar from its foot up: what completed, what is retried, what failed."""
    found, top = [], float(HEIGHT)
    pieces = (("completed", moment.completed), ("retried", moment.retried), ("failed", moment.failed))
    for key, number in pieces:
        if number:
            # One failure among thousands still is to be seen.
            height = max(number / most * HEIGHT, 1.5)
            top = max(0.0, top - height)
            found.append(Part(key, rounded(top), rounded(height)))
    return found


def words(moment: Moment) -> str:
    """Return the numbers of a bar in words."""
    return gettext(
        "%(completed)s completed, %(retried)s to be retried, %(failed)s failed, %(enqueued)s enqueued"
    ) % {
        "enqueued": grouped(moment.enqueued),
        "completed": grouped(moment.completed),
        "retried": grouped(moment.retried),
        "failed": grouped(moment.failed),
    }


def instant(when: datetime) -> datetime:
    """Return `when` with its zone, also where the project has USE_TZ off."""
    return when if timezone.is_aware(when) else timezone.make_aware(when)


def time_of(seconds: int, period: Period) -> str:
    """Return a point in time for people, as exact as the period needs."""
    when = timezone.localtime(datetime.fromtimestamp(seconds, UTC))
    if period.length > timedelta(days=1):
        return f"{date_format(when, 'D')} {when:%H:%M}"
    return f"{when:%H:%M}"


def rounded(number: float) -> str:
    """Return a coordinate as SVG wants it, whatever the user's language has for a decimal point."""
    return f"{number:.2f}"
