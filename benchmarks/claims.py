"""A worker's claims without the worker: the same plan (`Claiming`), statements and session, timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic, perf_counter, sleep

from psycopg.conninfo import conninfo_to_dict

from benchmarks.ground import Ground
from django_jobs.core.records import ClaimedJob, Completed, Ended
from django_jobs.store import claim, finish, link, scout
from django_jobs.worker.claiming import Claiming
from django_jobs.worker.requests import Served

WORKER = 2
KIND = "sync"
KEEP = timedelta(days=1)


@dataclass
class Claims:
    """How long claims took, in milliseconds with their commit."""

    plain: list[float] = field(default_factory=list)
    after_points: list[float] = field(default_factory=list)
    surveys: list[float] = field(default_factory=list)
    scouts: list[float] = field(default_factory=list)

    @property
    def all(self) -> list[float]:
        return self.plain + self.after_points


def timed_claims(ground: Ground, *, batch: int, seconds: float, tasks: Sequence[str]) -> Claims:
    """Claim `batch` jobs at a time and finish them, for so long or until none is left."""
    found = Claims()
    claiming = Claiming(Served(None, frozenset(), {}), kinds=(KIND,), queues=("default",), poll_seconds=5.0)
    with link.connect(conninfo_to_dict(ground.url), prepare=True) as connection:
        [now] = connection.execute("SELECT clock_timestamp()").fetchall()
        claiming.set_clock(now[0], monotonic())
        end = monotonic() + seconds
        empty_handed = 0
        while monotonic() < end and empty_handed < 3:
            for request in claiming.requests(monotonic(), {KIND: batch}, {}):
                make = claim.claim if request.plain else claim.claim_after
                began = perf_counter()
                rows = connection.execute(*make(WORKER, request.rooms, tasks, request.limit)).fetchall()
                took = perf_counter() - began
                (found.plain if request.plain else found.after_points).append(took * 1000)
                jobs = claim.claimed(rows)
                claiming.took(request, jobs, monotonic(), took)
                empty_handed = 0 if jobs else empty_handed + 1
                if jobs:
                    link.run_together(connection, finish.finish(WORKER, ended(jobs), keep_cancelled=KEEP))
            for search in claiming.searches(monotonic(), {KIND: batch}):
                began = perf_counter()
                rows = connection.execute(*scout.scout(search.spans, tasks, search.walk)).fetchall()
                took = perf_counter() - began
                found.scouts.append(took * 1000)
                claiming.scouted(search, scout.scouted(rows), monotonic(), took)
            if claiming.is_survey_due(monotonic()):
                began = perf_counter()
                places = claim.surveyed(connection.execute(*claim.survey()).fetchall())
                took = perf_counter() - began
                found.surveys.append(took * 1000)
                claiming.surveyed(places, monotonic(), took)
                if not places:
                    break
            wait = claiming.seconds_left(monotonic(), {KIND: batch}, {})
            hungry = any(reach.hungry for reach in claiming.reaches.values())
            if not hungry and wait > 0:
                sleep(min(wait, max(0.0, end - monotonic())))
    return found


def ended(jobs: Sequence[ClaimedJob]) -> list[Ended]:
    return [Ended(job, Completed(return_value=None, keep=KEEP)) for job in jobs]
