"""
Enqueueing: a task and its arguments become a row, in the caller's transaction.

Everything that could be wrong is checked before any SQL, so that a refusal leaves the caller's transaction
as it was. Called by `backend`, which turns what comes back into Django's `TaskResult`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from django.conf import settings as django_settings
from django.db import connections, transaction
from django.utils import timezone

from django_jobs import conf
from django_jobs.about import ABOUT
from django_jobs.core import rich
from django_jobs.core.arguments import encode_call, encode_value
from django_jobs.core.records import Inserted, NewJob, Wake
from django_jobs.results import as_shown
from django_jobs.signatures import call_signature, positional_counts, takes_by_name
from django_jobs.store.insert import insert, insert_many
from django_jobs.tasks import UNSET, JobTask, registry
from django_jobs.waking import wake_after_commit

CHUNK = 5_000
"""Jobs inserted by one statement of `enqueue_many`."""

EARLIEST = datetime(MINYEAR, 1, 3, tzinfo=UTC)
LATEST = datetime(MAXYEAR, 12, 31, 9, 59, 59, 999_999, tzinfo=UTC)
"""Earliest and latest due time: so far within Python's calendar that every time zone, up to 14 hours ahead of
UTC, can show them. Rows that strangers wrote are read within the same limits (`fields.CALENDAR`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a backend's options and the settings say about the jobs it enqueues."""

    max_attempts: int | None
    max_argument_bytes: int


def prepare(task: JobTask, args: Sequence[Any], kwargs: Mapping[str, Any], limits: Limits) -> NewJob:
    """
    Return the row for one call of `task`.

    An argument `about` that the task doesn't take is the object that the job is about, as of `using`. Raises
    TypeError when the call doesn't fit the task's signature, and the errors of `core.arguments`,
    which are TypeErrors and ValueErrors naming the argument, when a value can't be stored.
    """
    if ABOUT in kwargs and not takes_by_name(task.func, ABOUT):
        task = task.using(about=kwargs[ABOUT])
        kwargs = {name: value for name, value in kwargs.items() if name != ABOUT}
    if kwargs or len(args) not in positional_counts(task.func, task.takes_context):  # sooner than to bind
        try:
            call_signature(task.func, task.takes_context).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{task.module_path}() can't be called with these arguments: {error}.") from None
    if task.encoding == "rich":
        args, kwargs = rich.flatten(list(args)), rich.flatten(dict(kwargs))
    args_text, kwargs_text = encode_call(args, kwargs, max_bytes=limits.max_argument_bytes)
    meta = encode_value(task.meta, place="meta", max_bytes=limits.max_argument_bytes) if task.meta else "{}"
    return NewJob(
        queue_name=task.queue_name,
        task_path=task.module_path,
        args=args_text,
        kwargs=kwargs_text,
        priority=int(task.priority),
        run_after=checked_time(task.run_after),
        max_attempts=limits.max_attempts if task.max_attempts is UNSET else task.max_attempts,
        meta=meta,
    )


def checked_time(run_after: datetime | timedelta | None) -> datetime | timedelta | None:
    """Return `run_after`. Raises ValueError when it is earlier or later than any time zone can show."""
    if run_after is None:
        return None
    try:
        due = timezone.now() + run_after if isinstance(run_after, timedelta) else run_after
        if EARLIEST <= (due.replace(tzinfo=UTC) if timezone.is_naive(due) else due) <= LATEST:
            return run_after
    except OverflowError:
        pass
    raise ValueError(
        f"run_after must be from {EARLIEST.isoformat(' ', 'minutes')} to {LATEST.isoformat(' ', 'minutes')}, "
        f"but is {run_after!r}."
    )


def enqueue_one(alias: str, job: NewJob) -> Inserted:
    """Insert `job` on the database `alias` and have workers told after the commit."""
    with connections[alias].cursor() as cursor:
        inserted = insert(cursor, job)
    wake_after_commit(alias, wake_of(job, inserted))
    return inserted


def enqueue_chunks(alias: str, jobs: Iterator[NewJob]) -> Iterator[list[tuple[NewJob, Inserted]]]:
    """
    Insert `jobs` on the database `alias`, a chunk at a time, and yield each chunk.

    All are inserted or none. What fits into one chunk is read before any SQL, so that a refusal of one of
    them leaves the caller's transaction as it was, and is all or nothing by itself; more take a savepoint.
    """
    chunk = list(islice(jobs, CHUNK))
    if len(chunk) < CHUNK:
        if chunk:
            yield enqueue_chunk(alias, chunk)
        return
    with transaction.atomic(using=alias):
        while chunk:
            yield enqueue_chunk(alias, chunk)
            chunk = list(islice(jobs, CHUNK))


def enqueue_chunk(alias: str, jobs: Sequence[NewJob]) -> list[tuple[NewJob, Inserted]]:
    """Insert `jobs` on the database `alias` with one COPY and have workers told after the commit."""
    connection = connections[alias]
    # Django's cursor passes COPY on as it is, so its errors are turned into Django's here.
    with connection.cursor() as cursor, connection.wrap_database_errors:
        inserted = insert_many(cursor, jobs)
    if not django_settings.USE_TZ:
        inserted = [
            replace(place, enqueued_at=as_shown(place.enqueued_at), run_after=as_shown(place.run_after))
            for place in inserted
        ]
    wake_after_commit(alias, *[wake_of(job, place) for job, place in zip(jobs, inserted, strict=True)])
    return list(zip(jobs, inserted, strict=True))


def wake_of(job: NewJob, inserted: Inserted) -> Wake:
    """Return what workers must know about a new job."""
    task = registry.get(job.task_path)
    return Wake(job.queue_name, job.priority, inserted.run_after, None if task is None else task.is_async)


def calls_of(calls: Iterable[Any]) -> Iterator[tuple[Sequence[Any], Mapping[str, Any]]]:
    """
    Yield positional and keyword arguments for each call given to `enqueue_many`.

    Raises TypeError, naming the place, for one that is neither a sequence nor a mapping.
    """
    for place, call in enumerate(calls):
        if isinstance(call, Mapping):
            yield (), call
        elif isinstance(call, Sequence) and not isinstance(call, (str, bytes)):
            yield call, {}
        else:
            raise TypeError(
                f"enqueue_many takes sequences of positional arguments or mappings of keyword arguments, "
                f"but call {place} is {call!r}. For a single argument write ({call!r},)."
            )


def enqueue_on_commit(task: JobTask, /, *args: Any, using: str | None = None, **kwargs: Any) -> None:
    """
    Enqueue `task` once the open transaction on the database `using` is committed.

    For projects whose jobs live in another database than their data, where no transaction can span both: a
    rollback enqueues nothing, but a crash between the two commits loses the job. Arguments are checked at
    once, and enqueued as they are then; none can be called `using`. Without an open transaction the job is
    enqueued at once.
    """
    settings = conf.current()
    usual = Limits(max_attempts=settings.max_attempts, max_argument_bytes=settings.max_argument_bytes)
    prepare(task, args, kwargs, getattr(task.get_backend(), "limits", usual))
    transaction.on_commit(partial(task.enqueue, *deepcopy(args), **deepcopy(kwargs)), using=using)


def decoded(job: NewJob) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Return arguments, keyword arguments and meta of a row as the body will get them."""
    return json.loads(job.args), *(
        json.loads(text) if text != "{}" else {} for text in (job.kwargs, job.meta)
    )
