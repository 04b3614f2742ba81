"""
Doing it: an action on ever so many jobs, a batch at a time.

Each batch is a short transaction that changes its jobs through `operations` and writes down who did it, so
that a request which is cut off has done, and recorded, whole batches. What comes out is a `Report`, from
which the message to the user is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.utils.translation import gettext, ngettext, ngettext_lazy

from django_jobs.core.states import State
from django_jobs.dashboard.actions import CANCEL, Action, counted
from django_jobs.dashboard.shown import grouped
from django_jobs.models import Job, StateChoices
from django_jobs.operations import Operations

MOST = 10_000
"""Jobs that one request acts on; more are done by a job of their own, see `bulk_asking`."""

BATCH = 1_000
"""Jobs of one transaction."""

SECONDS = 20.0
"""When a request stops to take further batches: below the 30 s after which many servers give up on it."""

LOGGED = 1_000
"""Up to so many jobs there is a log entry for each; for more, one that lists their ids."""

MOST_RANGES = 1_000
"""Stretches of ids in that list; what is over is cut off with a mark."""


@dataclass(slots=True)
class Report:
    """What became of the jobs of one request."""

    done: int = 0
    asked: int = 0
    """Of those, running jobs that were asked to stop."""
    skipped: Counter[str] = field(default_factory=Counter)
    """By state; under "" those that were gone."""
    left: int = 0
    """Not come to: the time was up."""
    beyond: bool = False
    """Whether more jobs than `MOST` matched."""

    def text(self, action: Action) -> str:
        """Return the message for the user."""
        parts = []
        if self.done - self.asked or not self.asked:
            parts.append(counted(action.done, self.done - self.asked))
        if self.asked:
            asked = ngettext_lazy(
                "Asked %(count)s running job to stop.", "Asked %(count)s running jobs to stop.", "number"
            )
            parts.append(counted(asked, self.asked))
        if skipped := sum(self.skipped.values()):
            gone = gettext("no longer there")
            each = ", ".join(
                f"{grouped(number)} {StateChoices(state).label if state else gone}"
                for state, number in sorted(self.skipped.items())
            )
            parts.append(
                ngettext("Skipped %(count)s: %(each)s.", "Skipped %(count)s: %(each)s.", skipped)
                % {"count": grouped(skipped), "each": each}
            )
        if self.left:
            words = ngettext_lazy(
                "The request’s time was up: %(count)s job was left as it is. Do it again to go on.",
                "The request’s time was up: %(count)s jobs were left as they are. Do it again to go on.",
                "number",
            )
            parts.append(counted(words, self.left))
        if self.beyond:
            parts.append(
                gettext("At most %(most)s jobs are taken at a time. Do it again for the others.")
                % {"most": grouped(MOST)}
            )
        return " ".join(parts)


def carry_out(
    action: Action, ids: Sequence[int], choice: Mapping[str, Any], *, alias: str, user_id: Any, matching: str
) -> Report:
    """
    Do `action` to the jobs `ids`, and write a log entry for each, or one for all when there are many.

    `matching` says in that one entry how the jobs were chosen. Stops after `SECONDS`.
    """
    report = Report()
    operations = Operations(alias)
    log = Log(action, choice, user_id, each=len(ids) <= LOGGED, matching=matching)
    stop_at = monotonic() + SECONDS
    for start in range(0, len(ids), BATCH):
        if monotonic() > stop_at:
            report.left = len(ids) - start
            break
        batch = ids[start : start + BATCH]
        jobs = Job.objects.using(alias).filter(pk__in=batch)
        with transaction.atomic(using=alias):
            log.expect(jobs)
            changed = set(action.act(operations, batch, choice))
            log.write(changed)
        report.done += len(changed)
        # What they are now; those that are deleted were changed, or had gone before.
        states = (
            dict(jobs.values_list("pk", "state"))
            if action.name == CANCEL.name or len(changed) < len(batch)
            else {}
        )
        report.asked += sum(
            1 for pk in changed if action.name == CANCEL.name and states.get(pk) == State.RUNNING
        )
        report.skipped.update(states.get(pk, "") for pk in batch if pk not in changed)
    return report


class Log:
    """The log entries of one request."""

    def __init__(
        self, action: Action, choice: Mapping[str, Any], user_id: Any, *, each: bool, matching: str
    ) -> None:
        self.action = action
        self.words = action.log(choice)
        self.user_id = user_id
        self.each = each
        self.matching = matching
        self.names: dict[int, Job] = {}
        self.done = 0
        self.ranges = Ranges()
        self.entry: LogEntry | None = None

    def expect(self, jobs: Any) -> None:
        """Note what jobs are called before they are changed, or gone."""
        if self.each:
            self.names = {job.pk: job for job in jobs.only("id", "task_path")}

    def write(self, changed: Collection[int]) -> None:
        """Record the jobs of one batch."""
        if not changed:
            return
        if self.each:
            named = [self.names.get(pk) or Job(pk=pk) for pk in sorted(changed)]
            LogEntry.objects.log_actions(self.user_id, named, self.action.flag, self.words)
            return
        self.done += len(changed)
        self.ranges.add(sorted(changed))
        self.entry = self.entry or LogEntry.objects.log_actions(
            self.user_id,
            [Job()],
            self.action.flag,
            single_object=True,
        )
        assert self.entry is not None
        self.entry.object_id = None
        self.entry.object_repr = counted(
            ngettext_lazy("%(count)s job", "%(count)s jobs", "number"), self.done
        )
        self.entry.change_message = gettext("%(what)s Matching: %(matching)s. Ids: %(ids)s") % {
            "what": self.words,
            "matching": self.matching,
            "ids": str(self.ranges),
        }
        self.entry.save()


class Ranges:
    """Ascending ids in few words, such as "1–5, 7"."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []
        self.is_cut = False

    def add(self, ids: Sequence[int]) -> None:
        for pk in ids:
            if self.parts and self.parts[-1][1] == pk - 1:
                self.parts[-1][1] = pk
            elif len(self.parts) < MOST_RANGES:
                self.parts.append([pk, pk])
            else:
                self.is_cut = True
                return

    def __str__(self) -> str:
        words = (str(first) if first == last else f"{first}–{last}" for first, last in self.parts)
        return ", ".join(words) + (", …" if self.is_cut else "")
