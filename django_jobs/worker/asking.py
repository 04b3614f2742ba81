"""What the dispatcher asks the tables in one turn of its wheel, and what it does with each answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_jobs.core.records import Ended
from django_jobs.store import claim, scout
from django_jobs.store.cursor import Rows, Statement
from django_jobs.worker.requests import Request, Search

if TYPE_CHECKING:
    from django_jobs.worker.dispatcher import Dispatcher

FLUSH_SECONDS = 0.005
"""How soon a claim that didn't wait for the disk is flushed, if no outcome was stored meanwhile."""


@dataclass(frozen=True, slots=True)
class Question:
    """A statement, and what takes in its answer: the rows, when they came, and after how many seconds."""

    statement: Statement
    take_in: Callable[[Rows, float, float], None]


def questions(dispatcher: Dispatcher, now: float, leaving: Sequence[Ended]) -> list[Question]:
    """
    Return what to ask now: claims, with room for as many as `leaving` makes, scouts and the survey.

    Answers are taken in in this order, and each was asked for by what was known before all of them.
    """
    claiming, in_flight = dispatcher.claiming, dispatcher.ledger.queue_counts
    found: list[Question] = []
    if dispatcher.flush_at is not None and now >= dispatcher.flush_at and not leaving:
        found.append(flush_of(dispatcher))
    early = not (leaving or found)  # nothing else in this transaction that the disk must have
    if claiming.served.limits and leaving:  # what leaves makes room in its queue, for a claim of this turn
        gone = Counter([ended.job.queue_name for ended in leaving])
        in_flight = in_flight - gone
        claiming.freed(gone)
    if dispatcher.duties.is_doubtful():  # the heartbeat is due before the next turn
        claiming.look_everywhere()
    else:
        free = dispatcher.ledger.free(leaving)
        requests = claiming.requests(now, free, in_flight)
        found += [claim_of(dispatcher, request, early=early) for request in requests]
        found += [scout_of(dispatcher, search) for search in claiming.searches(now, free)]
    if claiming.is_survey_due(now):
        found.append(survey_of(dispatcher))
    return found


def claim_of(dispatcher: Dispatcher, request: Request, *, early: bool) -> Question:
    """Return the claim that is requested; what it brings goes to slots, if `early` before the disk has it."""

    def take_in(rows: Rows, now: float, seconds: float) -> None:
        jobs = claim.claimed(rows)
        dispatcher.claiming.took(request, jobs, now, seconds)
        dispatcher.take(jobs)
        if early and jobs and dispatcher.flush_at is None:
            dispatcher.flush_at = now + FLUSH_SECONDS

    make = claim.claim if request.plain else claim.claim_after
    tasks = dispatcher.tasks[request.kind]
    statement = make(dispatcher.worker, request.rooms, tasks, request.limit)
    return Question(claim.early(statement) if early else statement, take_in)


def flush_of(dispatcher: Dispatcher) -> Question:
    """Return what has the disk take in claims that didn't wait for it."""

    def take_in(rows: Rows, now: float, seconds: float) -> None:
        dispatcher.flush_at = None

    return Question(claim.flush(dispatcher.worker), take_in)


def scout_of(dispatcher: Dispatcher, search: Search) -> Question:
    """Return a scout."""

    def take_in(rows: Rows, now: float, seconds: float) -> None:
        dispatcher.claiming.scouted(search, scout.scouted(rows), now, seconds)

    return Question(scout.scout(search.spans, dispatcher.tasks[search.kind], search.walk), take_in)


def survey_of(dispatcher: Dispatcher) -> Question:
    """Return the survey."""

    def take_in(rows: Rows, now: float, seconds: float) -> None:
        dispatcher.claiming.surveyed(claim.surveyed(rows), now, seconds)

    return Question(claim.survey(), take_in)
