"""How far the claims of one kind of slot have come: what `claiming` keeps of each queue and priority."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django_jobs.core.records import ClaimedJob, Point, Wake
from django_jobs.store.claim import point_of


@dataclass(slots=True)
class Reach:
    """How far the claims of one kind of slot have come."""

    points: dict[str, dict[int, Point]] = field(default_factory=dict)
    """By queue and priority: the last job claimed."""
    hungry: bool = True
    """Whether a claim may find something."""
    wants_plain: bool = True
    """Whether a plain claim is due as soon as the budget allows one."""
    streak: bool = False
    """Whether claims came back full since the last plain one that didn't."""
    plain_not_before: float = 0.0
    """When the budget allows the next plain claim."""

    def advance(self, job: ClaimedJob, *, back: bool = False) -> None:
        """Move the point of the job's queue and priority up to it, or `back` to it, since more lie behind."""
        points = self.points.setdefault(job.queue_name, {})
        here = point_of(job)
        known = points.get(job.priority)
        if back or known is None or (known.run_after, known.id) < (here.run_after, here.id):
            points[job.priority] = here

    def set_back(self, wake: Wake, present: datetime) -> None:
        """
        Move the point of the wake's queue and priority back to just before it, if it is further.

        None lies ahead of the `present`: others that nobody told of may be due before that job.
        """
        points = self.points.setdefault(wake.queue_name, {})
        known = points.get(wake.priority)
        if known is None or (known.run_after, known.id) >= (wake.run_after, 0):
            points[wake.priority] = Point(min(wake.run_after, present), 0)
