"""
Working off: an action on so many jobs that a job of its own does it, a batch at a time.

`ask_for` writes down what is wanted (`bulk.BulkAction`) and enqueues the job; a worker runs `work_off`. Each
batch is one transaction that holds the row, changes the jobs, and writes how far it has come. So a worker
that dies leaves whole batches, the next one goes on where it was, two that run at once take turns, and a
stop is obeyed before the next batch.

Only jobs are changed that were there when it was asked for: ids up to the highest, and of those that had
ended only such that ended before. A job that was sent round and failed again is not sent round again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from time import monotonic
from typing import Any

from django.apps import apps
from django.db import DatabaseError, connections, router, transaction
from django.utils import translation
from django.utils.formats import number_format
from django.utils.translation import gettext

from django_jobs import conf
from django_jobs.context import JobContext
from django_jobs.core.backoff import Constant
from django_jobs.core.records import NewJob
from django_jobs.enqueueing import enqueue_one
from django_jobs.exceptions import Cancel, Snooze
from django_jobs.framework import TASK_MAX_PRIORITY, BaseTaskBackend, task_backends
from django_jobs.holding import holding
from django_jobs.models import BulkAction, Job, clock
from django_jobs.operations import Operations
from django_jobs.store import overview
from django_jobs.store.matching import NEWEST, PAGE_ROWS, Filter, Match, Place, look
from django_jobs.tasks import JobTask, is_jobs_backend, unconfigured_backend
from django_jobs.telemetry import logger

BATCH = 1_000
"""Jobs of one transaction, at most."""

RUN_SECONDS = 20.0
"""After so long the job ends its run and waits for the next one: sooner than a worker's time to shut down is
over, and so that other jobs get its slot in between."""

MOST_PER_SECOND = 10_000

KEPT = timedelta(days=90)
"""How long finished bulk actions are kept; they are deleted as others are asked for."""

Act = Callable[[Operations, Sequence[int], Mapping[str, Any]], list[int]]

ACTS: dict[str, Act] = {
    "retry": lambda operations, ids, choice: operations.retry(
        ids, reset_attempts=choice.get("attempts") != "one"
    ),
    "run": lambda operations, ids, choice: operations.run_now(ids),
    "cancel": lambda operations, ids, choice: operations.cancel(ids, reason=choice.get("reason", "")),
    "delete": lambda operations, ids, choice: operations.discard(ids),
}
"""What can be done to jobs, by its name: returns the ids of those that were changed."""

LABELS: dict[str, frozenset[str]] = {
    "retry": frozenset({"failed", "cancelled"}),
    "run": frozenset({"scheduled", "retrying"}),
    "cancel": frozenset({"ready", "scheduled", "retrying", "blocked", "running"}),
    "delete": frozenset({"ready", "scheduled", "retrying", "blocked", "successful", "failed", "cancelled"}),
}
"""What each of them can change, in the words of `store.matching.LABELS`."""


class OwnTask(JobTask):
    """
    A task of this package's. Workers know it whatever backends a project has configured: it is never
    enqueued through one, so nothing of it is checked against one.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Leave the registry to `register`."""

    def get_backend(self) -> BaseTaskBackend:
        """Return the backend that keeps its jobs where ours are."""
        return own_backend()


def own_backend() -> BaseTaskBackend:
    """Return the first backend that keeps jobs in the queue's database; where none is configured, ours."""
    for alias in task_backends:
        backend: Any = task_backends[alias]
        if is_jobs_backend(backend) and backend.database == conf.database():
            return backend  # type: ignore[no-any-return]  # any backend of the settings
    return unconfigured_backend()


def usual_queue() -> str:
    """Return the queue where bulk actions go when nothing speaks against it."""
    names = sorted(own_backend().queues)
    return "default" if not names or "default" in names else names[0]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The queue for a bulk action's job, and whether a worker would take it from there now."""

    queue_name: str
    is_served: bool


def chosen_queue(alias: str) -> Chosen:
    """
    Return a queue that isn't paused and that a live worker serves which knows the task; else the usual one.

    Costs two statements.
    """
    with connections[alias].cursor() as cursor:
        alive = overview.live_workers(cursor)
        paused = {queue.name for queue in overview.paused_queues(cursor)}
        knowing = set(overview.workers_that_know(cursor, PATH))
    usual = usual_queue()
    silent = conf.current().dead_after_seconds
    able = [w for w in alive if w.id in knowing and w.silent_seconds <= silent and w.slots]
    names = sorted({name for worker in able for name in worker.queues or ()} | own_backend().queues)
    for name in [usual, *names]:
        if name not in paused and any(worker.serves(name) for worker in able):
            return Chosen(name, True)
    return Chosen(usual, False)


def ask_for(
    action: str,
    choice: Mapping[str, Any],
    filters: Mapping[str, Any],
    *,
    alias: str,
    matching: str,
    per_second: int,
    total: int,
    is_estimate: bool,
    user: Any = None,
) -> BulkAction:
    """
    Have `action` done to all jobs there are now that match `filters`, and return its row.

    `filters` are fields of `Filter`, and `value`, which is the text for `holding`. Whether `user` may do that
    was checked. Raises KeyError for an action that there isn't, and TypeError for a filter that there isn't.
    """
    narrowed = LABELS[action] & set(filters.get("labels", LABELS[action]))
    wanted = {**filters, "labels": sorted(narrowed)}
    filter_of(wanted)
    with transaction.atomic(using=alias):
        with connections[alias].cursor() as cursor:
            cursor.execute(NEWEST)
            [upto] = cursor.fetchone()
        bulks = BulkAction.objects.using(alias)
        bulks.filter(finished_at__lt=clock(alias) - KEPT).delete()
        bulk = bulks.create(
            action=action,
            choice=dict(choice),
            filters=wanted,
            matching=matching,
            upto=upto,
            per_second=max(1, min(per_second, MOST_PER_SECOND)),
            total=total,
            is_estimate=is_estimate,
            asked_by="" if user is None else user.get_username()[:200],
            user_key="" if user is None else str(user.pk),
            language=translation.get_language() or "",
        )
        bulk.refresh_from_db()
        enqueue_for(bulk)
    return bulk


def enqueue_for(bulk: BulkAction) -> None:
    """Enqueue the job that works `bulk` off, and write down which it is."""
    alias = str(bulk._state.db)
    job = NewJob(
        queue_name=chosen_queue(alias).queue_name,
        task_path=PATH,
        args=f"[{bulk.pk}]",
        kwargs="{}",
        priority=TASK_MAX_PRIORITY,
        run_after=None,
        max_attempts=20,
        meta="{}",
    )
    bulk.job = enqueue_one(alias, job).id
    bulk.save(using=alias, update_fields=["job"])


def go_on(bulk: BulkAction) -> bool:
    """Enqueue another job for a bulk action whose own has ended before its time; return whether it was so."""
    alias = str(bulk._state.db)
    with transaction.atomic(using=alias):
        row = locked(alias, bulk.pk)
        if row is None or row.finished_at is not None:
            return False
        if row.job is not None and Job.objects.using(alias).filter(pk=row.job, finished_at=None).exists():
            return False
        enqueue_for(row)
    return True


def stop(bulk: BulkAction, *, by: str, user_key: str = "") -> bool:
    """End a bulk action before its next batch, and cancel its job; return whether it was unfinished."""
    alias = str(bulk._state.db)
    with transaction.atomic(using=alias):
        row = locked(alias, bulk.pk)
        if row is None or row.finished_at is not None:
            return False
        finish(row, stopped_by=by or "?", user_key=user_key)
        if row.job is not None:
            Operations(alias).cancel([row.job], reason=by)
    return True


def locked(alias: str, pk: int) -> BulkAction | None:
    """Return the row, held until the end of the transaction; `None` when it is gone."""
    return BulkAction.objects.using(alias).select_for_update().filter(pk=pk).first()


def finish(bulk: BulkAction, *, stopped_by: str = "", user_key: str = "") -> None:
    """Write the end of a bulk action, also into the admin's log."""
    alias = str(bulk._state.db)
    bulk.finished_at = clock(alias)
    bulk.stopped_by = stopped_by[:200]
    bulk.save(using=alias, update_fields=["finished_at", "stopped_by"])
    with translation.override(bulk.language or translation.get_language()):
        words = gettext("Stopped: %(done)s done, %(skipped)s skipped.") if stopped_by else ""
        words = words or gettext("Ended: %(done)s done, %(skipped)s skipped.")
        numbers = {
            name: number_format(getattr(bulk, name), force_grouping=True) for name in ("done", "skipped")
        }
        log(bulk, user_key or bulk.user_key, words % numbers)


def log(bulk: BulkAction, user_key: str, words: str) -> None:
    """Add an entry to the admin's log, where there is one, and the user is still there."""
    if not user_key or not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import CHANGE, LogEntry
    from django.contrib.auth import get_user_model

    try:
        with transaction.atomic(using=router.db_for_write(LogEntry)):
            user = get_user_model()._default_manager.filter(pk=user_key).first()
            if user is not None:
                LogEntry.objects.log_actions(user.pk, [bulk], CHANGE, words)
    except DatabaseError as error:  # a worker's role need not have a right to it
        logger.warning("the end of bulk action %s isn't in the admin's log: %s", bulk.pk, error)


def work_off(context: JobContext, bulk_id: int) -> dict[str, int] | None:
    """The job's body: do batches for a while, at the chosen pace; then wait for the next run."""
    alias, until = conf.database(), monotonic() + RUN_SECONDS
    rows, pause = PAGE_ROWS, Event()
    while True:
        began = monotonic()
        step = one_batch(alias, bulk_id, rows)
        if step.bulk is None or step.bulk.finished_at is not None:
            return None if step.bulk is None else {"done": step.bulk.done, "skipped": step.bulk.skipped}
        rows = BATCH if step.there_are_more else PAGE_ROWS
        wait = began + step.changed / step.bulk.per_second - monotonic()
        if wait > 0:
            pause.wait(wait)
        if context.is_cancelled:
            raise Cancel(gettext("Cancelled. The bulk action can go on from where it was."))
        if monotonic() > until:
            raise Snooze(timedelta(0), "It goes on.")


@dataclass(frozen=True, slots=True)
class Step:
    """What one batch came to."""

    bulk: BulkAction | None
    changed: int = 0
    there_are_more: bool = False
    """Whether more jobs were found than it took."""


def one_batch(alias: str, bulk_id: int, rows: int) -> Step:
    """Look at the next `rows` rows, change what of them matches, and write how far that is."""
    with transaction.atomic(using=alias):
        bulk = locked(alias, bulk_id)
        if bulk is None or bulk.finished_at is not None:
            return Step(bulk)
        with connections[alias].cursor() as cursor:
            place, found = look(cursor, wanted(bulk), Place(bulk.part, bulk.after), bulk.upto, rows)
        found = with_value(alias, found, bulk.filters.get("value"))
        batch: Sequence[Match] = found[: max(1, min(BATCH, bulk.per_second))]
        there_are_more = len(batch) < len(found)
        if there_are_more:
            place = Place(bulk.part, batch[-1].id)
        ids = [match.id for match in batch]
        changed = ACTS[bulk.action](Operations(alias), ids, bulk.choice) if ids else []
        bulk.done += len(changed)
        bulk.skipped += len(ids) - len(changed)
        if place is not None:
            bulk.part, bulk.after = place.part, place.after
        bulk.save(using=alias, update_fields=["done", "skipped", "part", "after"])
        if place is None:
            finish(bulk)
        return Step(bulk, len(changed), there_are_more)


def wanted(bulk: BulkAction) -> Filter:
    """Return the filter of a bulk action: no job of another one, none that ended after it was asked for."""
    return filter_of({**bulk.filters, "before": bulk.asked_at, "not_of": PATH})


def filter_of(filters: Mapping[str, Any]) -> Filter:
    """Return what of a bulk action's filters `look` can tell."""
    return Filter(**{name: value for name, value in filters.items() if name != "value"})


def with_value(alias: str, found: list[Match], value: str | None) -> list[Match]:
    """Return those of a page of jobs that hold the value, where there is one to look for."""
    if value is None or not found:
        return found
    jobs = Job.objects.using(alias).filter(pk__in=[match.id for match in found])
    ids = set(holding(jobs, value).values_list("pk", flat=True))
    return [match for match in found if match.id in ids]


PATH = f"{__name__}.{work_off.__name__}"


def register(registry: dict[str, JobTask]) -> None:
    """Enter the task into `registry`. Called by `discovery`, so by every worker."""
    if PATH in registry:
        return
    task: OwnTask = object.__new__(OwnTask)
    options: dict[str, Any] = {
        name: field.default_factory() if callable(field.default_factory) else field.default
        for name, field in OwnTask.__dataclass_fields__.items()
    }
    options |= {
        "func": work_off,
        "takes_context": True,
        "priority": TASK_MAX_PRIORITY,
        "backend": own_backend().alias,  # these three have no defaults in Django 6.0
        "queue_name": usual_queue(),
        "run_after": None,
        "timeout": None,
        "backoff": Constant(timedelta(seconds=2)),
    }
    for name, value in options.items():
        object.__setattr__(task, name, value)
    registry[PATH] = task
