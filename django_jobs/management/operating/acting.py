"""
Acting on many jobs: `retry`, `cancel`, `run-now`, `discard`, `prune`.

What matches is looked for a page at a time (`store.matching`) and acted on in batches, each a transaction of
its own, so that an action on millions of jobs holds no locks for long and can be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import Any

from django.db import connections, transaction

from django_jobs import conf
from django_jobs.management.operating.parsing import FINAL_LABELS, STATES_OF
from django_jobs.models import clock
from django_jobs.operations import Operations
from django_jobs.store import prune
from django_jobs.store.cursor import Statement, run
from django_jobs.store.matching import Filter, Match, pages

BATCH = 1_000
"""Jobs changed in one transaction."""

SAMPLE = 20
"""Jobs that a dry run shows."""

MOST_IDS = 10_000
"""Ids that a report names."""

REST = 0.5
"""Pause after a batch of pruning, as a share of its time: what others do goes before."""


class UnclearWish(Exception):
    """The command line doesn't say which jobs are meant; the message says how to."""


@dataclass(slots=True)
class Report:
    """What an action did, or with `dry_run` would do."""

    action: str
    database: str
    dry_run: bool
    matched: int = 0
    changed: int = 0
    ids: list[int] = field(default_factory=list)
    """Jobs that were changed, or matched in a dry run: the first `MOST_IDS`."""
    by_state: dict[str, int] = field(default_factory=dict)
    """What matched, by the state it was in."""
    missing: list[int] = field(default_factory=list)
    """Ids given that no job has, or whose job the action or the filters leave out."""
    interrupted: bool = False
    sample: list[Match] = field(default_factory=list)

    def saw(self, found: Sequence[Match]) -> None:
        """Count what matched."""
        self.matched += len(found)
        for match in found:
            self.by_state[match.label] = self.by_state.get(match.label, 0) + 1
        self.sample += found[: SAMPLE - len(self.sample)]
        if self.dry_run:
            self.did([match.id for match in found], 0)

    def did(self, ids: Sequence[int], number: int) -> None:
        """Count what was changed."""
        self.changed += number
        self.ids += ids[: MOST_IDS - len(self.ids)]


def wanted_of(options: dict[str, Any], alias: str) -> Filter:
    """Return the filter that the command line asks for. Raises UnclearWish."""
    ids, everything = options["ids"], options["everything"]
    failed_since = options.get("failed_since")
    narrowed = bool(
        options["queue"] or options["task"] or options["state"] or failed_since or options["older_than"]
    )
    action = options["action"]
    if not (ids or narrowed or everything):
        raise UnclearWish(
            f"Say which jobs: ids, filters (see: manage.py jobs {action} --help), or --all for all that are "
            f"{', '.join(STATES_OF[action])}."
        )
    if everything and (ids or narrowed):
        raise UnclearWish("--all means every job, so leave out the ids and filters, or leave out --all.")
    labels = tuple(options["state"] or STATES_OF[action])
    if failed_since is not None:
        if options["state"] and set(labels) != {"failed"}:
            raise UnclearWish("--failed-since means failed jobs, so leave out --state.")
        labels = ("failed",)
    return Filter(
        labels=labels,
        ids=list(dict.fromkeys(ids)) or None,
        queues=options["queue"],
        tasks=options["task"],
        since=instant(failed_since, alias),
        before=instant(options["older_than"], alias),
    )


def instant(when: timedelta | datetime | None, alias: str) -> datetime | None:
    """Return a point in time, or that which lies so long ago by the database's clock."""
    if not isinstance(when, timedelta):
        return when
    try:
        return clock(alias) - when
    except OverflowError:
        raise UnclearWish("That is longer ago than the calendar reaches.") from None


def act(options: dict[str, Any], alias: str) -> Report:
    """Do what the command line asks for to all jobs that match, and return what was done."""
    wanted = wanted_of(options, alias)
    report = Report(options["action"], alias, options["dry_run"])
    change = changer(options, Operations(alias))
    with connections[alias].cursor() as cursor:
        try:
            for found in pages(cursor, wanted):
                report.saw(found)
                for ids in batches([match.id for match in found]) if not report.dry_run else ():
                    changed = change(ids)
                    report.did(changed, len(changed))
        except KeyboardInterrupt:
            report.interrupted = True
    if wanted.ids and not report.interrupted:
        touched = set(report.ids)
        report.missing = [key for key in wanted.ids[:MOST_IDS] if key not in touched]
    return report


def changer(options: dict[str, Any], operations: Operations) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return the function that does an action to jobs, and returns the ids that it changed."""
    match options["action"]:
        case "retry":
            return lambda ids: operations.retry(ids, reset_attempts=not options["keep_attempts"])
        case "cancel":
            return lambda ids: operations.cancel(ids, reason=options["reason"])
        case "run-now":
            return operations.run_now
        case _:
            return operations.discard


def batches(ids: Sequence[int], size: int = BATCH) -> Iterator[Sequence[int]]:
    """Yield `ids`, so many at a time."""
    for first in range(0, len(ids), size):
        yield ids[first : first + size]


def prune_jobs(options: dict[str, Any], alias: str, tell: Callable[[int], None]) -> Report:
    """Delete what has expired or is older than asked for; `tell` is called with the number so far."""
    report = Report("prune", alias, options["dry_run"])
    cutoffs = cutoffs_of(options["older_than"] or [], alias)
    try:
        if cutoffs:
            for state, before in cutoffs.items():
                prune_older(report, state, before, options["batch"], tell)
        elif report.dry_run:
            with connections[alias].cursor() as cursor:
                for found in pages(cursor, Filter(labels=FINAL_LABELS, expired=True)):
                    report.saw(found)
        else:
            prune_expired(report, options["batch"], tell)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def cutoffs_of(ages: Sequence[tuple[str | None, timedelta]], alias: str) -> dict[str, datetime]:
    """Return for each state before when its jobs must have ended; its own age goes before the general one."""
    general = [length for state, length in ages if state is None]
    chosen = dict.fromkeys(FINAL_LABELS, general[-1]) if general else {}
    chosen |= {state: length for state, length in ages if state is not None}
    found = {state: instant(length, alias) for state, length in chosen.items()}
    return {state: before for state, before in found.items() if before is not None}


def prune_older(
    report: Report, state: str, before: datetime, batch: int, tell: Callable[[int], None]
) -> None:
    """Delete jobs that ended in one state before then."""
    with connections[report.database].cursor() as cursor:
        for found in pages(cursor, Filter(labels=(state,), before=before)):
            report.saw(found)
            for ids in batches([match.id for match in found], batch) if not report.dry_run else ():
                statement = prune.prune_chosen(ids, state=state.upper(), before=before)
                report.did((), delete(report.database, statement)[0])
                tell(report.changed)


def prune_expired(report: Report, batch: int, tell: Callable[[int], None]) -> None:
    """Delete what is past its retention, as workers do, and the rows of workers that ended long ago."""
    after = prune.BEGINNING
    while True:
        number, last = delete(report.database, prune.prune(batch, after=after))
        report.matched += number
        report.did((), number)
        if number < batch:
            break
        tell(report.changed)
        after = last
    delete(report.database, prune.prune_workers(conf.current().keep_workers))


def delete(alias: str, statement: Statement) -> Sequence[Any]:
    """Run one statement in a transaction of its own, rest a little, and return its row."""
    began = monotonic()
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        [row] = run(cursor, statement)
    sleep(REST * (monotonic() - began))
    found: Sequence[Any] = row
    return found


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as the documented object."""
    return {f.name: getattr(report, f.name) for f in fields(report) if f.name != "sample"}
