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
from django_jobs.store.statistics import Moment, Period

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
    moments = minutes(course, now)
    most = max((max(m.ended, m.enqueued if with_line else 0) for m in moments if m), default=0) or 1
    room = SPARK_WIDTH / len(moments)

    def point(place: int, number: int) -> str:
        return f"{rounded(place * room + room / 2)},{rounded(SPARK_HEIGHT * (1 - number / most))}"

    ended = [point(place, moment.ended if moment else 0) for place, moment in enumerate(moments)]
    corners = [f"{rounded(room / 2)},{SPARK_HEIGHT}", f"{rounded(SPARK_WIDTH - room / 2)},{SPARK_HEIGHT}"]
    is_drawn = with_line and any(moment and moment.enqueued for moment in moments)
    known = moments[:-UNCOUNTED_MINUTES] if is_drawn else []
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
        area=" ".join([corners[0], *ended, corners[1]]) if any(moments) else "",
        line=" ".join(point(place, moment.enqueued if moment else 0) for place, moment in enumerate(known)),
        bars=bars,
        says=says,
    )


def minutes(course: Sequence[Moment], now: datetime | None = None) -> list[Moment | None]:
    """Return the sixty minutes up to now, `None` for one without anything."""
    last = int((now or timezone.now()).timestamp()) // 60 * 60
    found = {int(instant(moment.at).timestamp()): moment for moment in course}
    return [found.get(last - 60 * ago) for ago in reversed(range(60))]


def chart(course: Sequence[Moment], period: Period, now: datetime | None = None) -> Chart:
    """Draw what ended in a period; minutes and hours without anything are gaps."""
    end = (now or timezone.now()).astimezone(UTC).timestamp()
    last = int(end) // period.seconds * period.seconds
    number = int(period.length.total_seconds()) // period.seconds
    found = {int(instant(moment.at).timestamp()): moment for moment in course}
    most = max((max(moment.ended, moment.enqueued) for moment in course), default=0)
    room = WIDTH / number
    bars = []
    for place in range(number):
        begin = last - (number - 1 - place) * period.seconds
        moment = found.get(begin)
        if moment is not None and (moment.ended or moment.enqueued):
            bars.append(
                Bar(
                    x=rounded(place * room + room * GAP / 2),
                    width=rounded(room * (1 - GAP)),
                    says=f"{time_of(begin, period)}: {words(moment)}",
                    parts=parts(moment, most),
                )
            )
    marks = [
        Mark(x=rounded(share * WIDTH), anchor=anchor, text=time_of(int(at), period))
        for share, anchor, at in (
            (0, "start", last - (number - 1) * period.seconds),
            (0.5, "middle", last - number // 2 * period.seconds),
            (1, "end", last),
        )
    ]
    total = Moment(
        timezone.now(),
        sum(moment.completed for moment in course),
        sum(moment.failed for moment in course),
        sum(moment.retried for moment in course),
        sum(moment.enqueued for moment in course),
    )
    known = number - UNCOUNTED_MINUTES * 60 // period.seconds
    numbers = [
        moment.enqueued if (moment := found.get(last - (number - 1 - place) * period.seconds)) else 0
        for place in range(known)
    ]
    points = (
        f"{rounded((place + 0.5) * room)},{rounded(HEIGHT * (1 - each / most))}"
        for place, each in enumerate(numbers)
    )
    return Chart(
        bars=bars,
        marks=marks,
        most=grouped(most) if most else "",
        says=words(total),
        line=" ".join(points) if any(numbers) else "",
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
