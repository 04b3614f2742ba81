"""What runs of tasks with the option `capture` logged and asked of databases, kept for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_jobs.fields import JSONText


class Line(NamedTuple):
    """One line of a log; its text may itself have several."""

    at: datetime
    level: str
    logger: str
    text: str


class Capture(models.Model):
    """
    What was captured of one run, written with its outcome and deleted with its job.

    `lines` are lists of time (seconds since 1970), level, logger and text. Where there were too many, `cut`
    of them are missing after the first `cut_at`. `queries` is null when they weren't counted.
    """

    id = models.BigAutoField(_("id"), primary_key=True)
    # As of attempts: no constraint, and the unique one is the index that finds those of a job.
    job = models.ForeignKey(
        "django_jobs.Job",
        models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="captures",
        verbose_name=_("job"),
    )
    number = models.IntegerField(_("number"))
    lines = JSONText(_("log lines"), default=list)
    cut = models.IntegerField(_("lines cut"), default=0)
    cut_at = models.IntegerField(_("lines before the cut"), default=0)
    queries = models.IntegerField(_("queries"), null=True, blank=True)
    query_seconds = models.FloatField(_("time of queries"), null=True, blank=True)

    class Meta:
        verbose_name = _("capture")
        verbose_name_plural = _("captures")
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="django_jobs_capture_number")]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_id}/{self.number}"

    def log(self) -> Iterator[Line | int]:
        """Yield the lines in order, and the number of those that are missing in their place."""
        found = [line_of(line) for line in (self.lines if isinstance(self.lines, list) else [])]
        yield from (line for line in found[: self.cut_at] if line is not None)
        if self.cut > 0:
            yield self.cut
        yield from (line for line in found[self.cut_at :] if line is not None)


def line_of(stored: Any) -> Line | None:
    """Return a stored line; `None` for what a stranger wrote in its place."""
    match stored:
        case [int() | float() as seconds, str() as level, str() as logger, str() as text]:
            try:
                return Line(datetime.fromtimestamp(seconds, UTC), level, logger, text)
            except (OverflowError, ValueError, OSError):
                return None
    return None
