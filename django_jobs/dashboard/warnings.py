"""What someone should look at, each in words with its remedy. What was read comes in; no query is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext

from django_jobs import conf
from django_jobs.dashboard.shown import count, grouped, runjobs_for, span
from django_jobs.dashboard.surveying import Survey
from django_jobs.store.health import Condition
from django_jobs.store.overview import LiveWorker

OPEN_FOR_SECONDS = 300.0
"""How long a transaction may be open before it is warned of."""

MOST_DEAD = 200_000
"""Dead rows that are no matter: autovacuum begins at 10,000, and claims pass them by."""

PRUNING_BEHIND = 10
"""Rounds of pruning after which an expired job should have gone."""

SETTLED_SECONDS = 60.0
"""How long a worker has to get a session for its notifications."""

MOST_NAMED = 5
"""Workers, queues or tasks that are warned of one by one."""


@dataclass(frozen=True, slots=True)
class Warning:  # noqa: A001  (the word for it)
    """One thing that isn't as it should be."""

    key: str
    says: str
    remedy: str


def warnings(found: Survey, condition: Condition | None) -> list[Warning]:
    """Return what isn't as it should be, the worst first."""
    return [
        *of_workers(found),
        *of_queues(found),
        *of_tasks(found),
        *of_versions(found),
        *of_listening(found),
        *(of_tables(condition) if condition else ()),
    ]


def of_workers(found: Survey) -> Iterator[Warning]:
    if not [worker for worker in found.workers if worker not in found.stale]:
        yield Warning(
            "no-worker",
            gettext("No live worker: nothing is run."),
            gettext("Start one with: %(command)s") % {"command": "manage.py runjobs"},
        )
    for worker in found.stale[:MOST_NAMED]:
        yield Warning(
            "stale",
            gettext("Nothing has been heard of worker %(worker)s on %(host)s for %(span)s.")
            % {"worker": named(worker), "host": worker.host, "span": seconds(worker.silent_seconds)},
            gettext(
                "Any live worker takes over its jobs. Look whether process %(pid)s hangs or its machine has "
                "lost the database."
            )
            % {"pid": worker.pid},
        )


def of_queues(found: Survey) -> Iterator[Warning]:
    for queue in [queue for queue in found.queues if queue.is_unserved][:MOST_NAMED]:
        yield Warning(
            "unserved",
            gettext("Nobody serves the queue “%(queue)s”: %(due)s due, the oldest waits for %(span)s.")
            % {"queue": queue.name, "due": count(queue.due), "span": seconds(queue.oldest_due_seconds)},
            gettext("Start a worker for it with: %(command)s") % {"command": runjobs_for(queue.name)},
        )


def of_tasks(found: Survey) -> Iterator[Warning]:
    unserved = set(found.unserved)
    unknown = {
        job.task_path: job
        for job in found.oldest
        if not job.task_is_known and job.queue_name not in unserved and found.workers
    }
    for path, job in list(unknown.items())[:MOST_NAMED]:
        yield Warning(
            "unknown-task",
            gettext("No live worker knows the task %(task)s: job %(job)s is due and isn’t taken.")
            % {"task": path, "job": f"#{job.id}"},
            gettext(
                "Start workers with the code that has it. Left alone, its jobs fail once they have been due "
                "for %(span)s."
            )
            % {"span": span(conf.current().unknown_task_after)},
        )


def of_versions(found: Survey) -> Iterator[Warning]:
    for name in ("django_jobs", "django", "python"):
        versions = sorted({worker.versions[name] for worker in found.workers if worker.versions.get(name)})
        if len(versions) > 1:
            yield Warning(
                "versions",
                gettext("Live workers run different versions of %(name)s: %(versions)s.")
                % {"name": name, "versions": ", ".join(versions)},
                gettext("Restart those with the old one, if no deployment is under way."),
            )


def of_listening(found: Survey) -> Iterator[Warning]:
    deaf = [
        worker
        for worker in found.workers
        if not worker.holds_lock and worker.up_seconds > SETTLED_SECONDS and worker not in found.stale
    ]
    if deaf:
        names = ", ".join(named(worker) for worker in deaf[:MOST_NAMED])
        yield Warning(
            "polling",
            gettext("Not told of new jobs, so found by polling only: %(workers)s.")
            % {"workers": names + (", …" if len(deaf) > MOST_NAMED else "")},
            gettext(
                "Where a pooler is between them and the database, name a direct connection in "
                "DJANGO_JOBS['listen_database']. With --no-listen it is as you wanted."
            ),
        )


def of_tables(condition: Condition) -> Iterator[Warning]:
    table = condition.table
    if table.dead > MOST_DEAD and table.dead > table.live:
        yield Warning(
            "bloat",
            gettext("The table of jobs has %(dead)s dead rows beside %(live)s live ones, and takes %(size)s.")
            % {
                "dead": grouped(table.dead),
                "live": grouped(table.live),
                "size": filesizeformat(table.size_bytes),
            },
            gettext("Look for a transaction that has been open for long; then run: %(command)s")
            % {"command": "VACUUM django_jobs_job"},
        )
    for holder in condition.holders:
        what: dict[str, Any] = {
            "pid": holder.pid,
            "who": holder.application or gettext("unnamed"),
            "state": holder.state,
            "span": seconds(holder.seconds),
        }
        yield Warning(
            "transaction",
            gettext(
                "Session %(pid)s (%(who)s, %(state)s) has had a transaction open for %(span)s: dead rows "
                "can’t be removed meanwhile."
            )
            % what,
            gettext("Let it end, or end it with: %(command)s")
            % {"command": f"SELECT pg_terminate_backend({holder.pid})"},
        )
    if condition.expired_seconds > conf.current().prune_seconds * PRUNING_BEHIND:
        yield Warning(
            "pruning",
            gettext("Pruning is behind: a job that expired %(span)s ago is still there.")
            % {"span": seconds(condition.expired_seconds)},
            gettext("Workers prune by themselves. To catch up, run: %(command)s")
            % {"command": "manage.py jobs prune"},
        )


def named(worker: LiveWorker) -> str:
    return f"{worker.name} #{worker.id}"


def seconds(length: float | None) -> str:
    return span(None if length is None else timedelta(seconds=length))
