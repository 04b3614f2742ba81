"""
Why a job isn't running, in words, and what to do: for its page in the admin and `manage.py jobs explain`.

The causes are looked for in the order in which a worker meets them; all that hold are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isinf

from django.utils.translation import gettext, ngettext

from django_jobs import conf
from django_jobs.core.states import State
from django_jobs.dashboard.hurried import hurried
from django_jobs.dashboard.shown import moment, runjobs_for, span, up_to_limit
from django_jobs.models import StateChoices
from django_jobs.store.explain import Absence, Facts, facts
from django_jobs.store.overview import LiveWorker
from django_jobs.store.stats import COUNTED
from django_jobs.tasks import registry

MOST_NAMED = 3
"""Workers and tasks that a sentence names."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause, and what to do about it."""

    key: str
    says: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job isn't running. `exists` tells whether there is such a job."""

    exists: bool
    state: str
    reasons: Sequence[Reason]


def explain(alias: str, job_id: int) -> Explanation:
    """Return why a job isn't running."""
    found = hurried(alias, lambda cursor: facts(cursor, job_id))
    match found:
        case None:
            busy = gettext("The database is busy: it took too long to find out.")
            return Explanation(True, "", [Reason("busy", busy, gettext("Try again."))])
        case Absence():
            return Explanation(False, "", [of_absence(job_id, found)])
        case Facts():
            return Explanation(True, found.state, list(reasons(found)))


def reasons(found: Facts) -> Iterator[Reason]:
    """Yield every cause that holds, the first to go away first."""
    match found.state:
        case State.READY:
            causes = list(of_waiting(found))
            yield from causes or [of_nothing(found)]
        case State.RUNNING:
            yield of_running(found)
        case State.BLOCKED:
            yield Reason("blocked", gettext("It waits for other work to end."))
        case _:
            yield of_ended(found)


def of_absence(job_id: int, found: Absence) -> Reason:
    if not found.was_drawn:
        return Reason("unheard-of", gettext("There is no job #%(id)s, and never was.") % {"id": job_id})
    says = gettext(
        "There is no job #%(id)s: it was deleted, or the transaction that enqueued it isn’t committed yet."
    ) % {"id": job_id}
    if not found.writers:
        return Reason("absent", says, gettext("No transaction is open that could hold it: it is gone."))
    sessions = ", ".join(
        gettext("session %(pid)s (%(who)s, %(state)s, for %(span)s)")
        % {
            "pid": writer.pid,
            "who": writer.application or gettext("unnamed"),
            "state": writer.state,
            "span": seconds(writer.seconds),
        }
        for writer in found.writers
    )
    return Reason("uncommitted", says, gettext("Open transactions: %(sessions)s.") % {"sessions": sessions})


def of_waiting(found: Facts) -> Iterator[Reason]:
    """Yield what keeps a waiting job from being claimed."""
    if found.due_in_seconds > 0:
        yield of_time(found)
    if found.paused is not None:
        yield Reason(
            "paused",
            gettext("The queue “%(queue)s” has been paused since %(when)s by %(by)s: %(why)s")
            % {
                "queue": found.queue_name,
                "when": moment(found.paused.at),
                "by": found.paused.by or gettext("somebody"),
                "why": found.paused.reason or gettext("no reason given."),
            },
            gettext("Resume the queue."),
        )
    if found.locker is not None:
        yield Reason(
            "locked",
            gettext("A transaction that isn’t committed has its row: session %(pid)s, for %(span)s.")
            % {"pid": found.locker.pid, "span": seconds(found.locker.seconds)},
            gettext("Let it end, or end it with: %(command)s")
            % {"command": f"SELECT pg_terminate_backend({found.locker.pid})"},
        )
    yield from of_workers(found)


def of_time(found: Facts) -> Reason:
    if isinf(found.due_in_seconds):
        return Reason("never-due", gettext("It is never due: its time is infinite."), gettext("Run it now."))
    words = {"span": seconds(found.due_in_seconds)}
    if found.attempts:
        says = gettext("It waits for its next attempt, due in %(span)s.") % words
        if found.reason:
            says += " " + gettext("The last one: %(reason)s") % {"reason": found.reason}
        return Reason("retrying", says, gettext("Wait, or run it now."))
    return Reason("not-due", gettext("It isn’t due: its time comes in %(span)s.") % words,
                  gettext("Wait, or run it now."))  # fmt: skip


def of_workers(found: Facts) -> Iterator[Reason]:
    """Yield why no worker takes a job that may be taken: none lives, serves, knows it, or has a free slot."""
    dead_after = conf.current().dead_after_seconds
    live = [worker for worker in found.workers if worker.silent_seconds <= dead_after]
    serving = [worker for worker in live if worker.serves(found.queue_name)]
    able = [worker for worker in serving if worker.id in found.knowing]
    if not live:
        yield Reason(
            "no-worker",
            gettext("No worker lives."),
            gettext("Start one with: %(command)s") % {"command": "manage.py runjobs"},
        )
    elif not serving:
        yield Reason(
            "unserved",
            gettext("No live worker serves the queue “%(queue)s”; there are %(workers)s.")
            % {"queue": found.queue_name, "workers": names(live)},
            gettext("Start a worker for it with: %(command)s") % {"command": runjobs_for(found.queue_name)},
        )
    elif not able:
        yield Reason(
            "unknown-task",
            gettext("No worker of its queue knows the task %(task)s: neither does %(workers)s.")
            % {"task": found.task_path, "workers": names(serving)},
            gettext(
                "Start workers with the code that has it. Left alone, its jobs fail once they have been due "
                "for %(span)s."
            )
            % {"span": span(conf.current().unknown_task_after)},
        )
    elif found.due_in_seconds <= 0 and found.paused is None:
        yield from of_slots(found, able)


def of_slots(found: Facts, able: Sequence[LiveWorker]) -> Iterator[Reason]:
    """Yield that all slots are busy, or as many as a queue may have, and what else is due before this job."""
    full = [worker for worker in able if is_full(found, worker)]
    limited = [worker for worker in able if worker not in full and is_limited(found, worker)]
    nobody = len(full) + len(limited) == len(able)
    if nobody and full:
        ids = {worker.id for worker in full}
        tasks = Counter(job.task_path for job in found.running if job.worker in ids)
        yield Reason(
            "busy",
            gettext("All slots of %(workers)s are busy with: %(tasks)s.")
            % {
                "workers": names(full),
                "tasks": ", ".join(f"{number} × {path}" for path, number in tasks.most_common(MOST_NAMED)),
            },
            gettext("Wait, or start more workers, or such with more slots (--processes, --threads)."),
        )
    if nobody and limited:
        yield of_limit(found, limited)
    if found.ahead:
        yield Reason(
            "behind",
            ngettext(
                "%(count)s due job of its queue comes before it, by priority or time.",
                "%(count)s due jobs of its queue come before it, by priority or time.",
                min(found.ahead, COUNTED),
            )
            % {"count": up_to_limit(found.ahead)},
            gettext("Give it a higher priority, or start more workers."),
        )


def of_limit(found: Facts, limited: Sequence[LiveWorker]) -> Reason:
    """Return that workers run as many jobs of the queue as they may."""
    number = max(worker.room(found.queue_name) for worker in limited)
    says = gettext(
        "The limit of the queue “%(queue)s” is reached: %(workers)s may run %(limits)s of its jobs at once."
    ) % {
        "queue": found.queue_name,
        "workers": names(limited),
        "limits": " + ".join(str(worker.room(found.queue_name)) for worker in limited[:MOST_NAMED])
        + (" + …" if len(limited) > MOST_NAMED else ""),
    }
    wider = f"{runjobs_for(found.queue_name)}:{number + 1}"
    remedy = gettext("Wait, or start workers with a higher limit, as in: %(command)s") % {"command": wider}
    return Reason("limit", says, remedy)


def is_limited(found: Facts, worker: LiveWorker) -> bool:
    """Whether a worker runs as many jobs of the queue as its command line allows."""
    runs = sum(job.worker == worker.id and job.queue_name == found.queue_name for job in found.running)
    return found.queue_name in worker.limits and runs >= worker.room(found.queue_name)


def is_full(found: Facts, worker: LiveWorker) -> bool:
    """Whether a worker has no slot left of the kind that the job takes."""
    task = registry.get(found.task_path)
    if task is None:
        runs, slots = [job for job in found.running if job.worker == worker.id], worker.slots
    else:
        runs = [
            job
            for job in found.running
            if job.worker == worker.id
            and job.task_path in registry
            and registry[job.task_path].is_async == task.is_async
        ]
        slots = worker.async_slots if task.is_async else worker.threads
    return len(runs) >= slots


def of_nothing(found: Facts) -> Reason:
    """Return that nothing keeps a job from being claimed."""
    return Reason(
        "any-moment",
        gettext("Nothing keeps it: it has been due for %(span)s, and a worker that knows it has a free slot.")
        % {"span": seconds(-found.due_in_seconds)},
        gettext("It starts within %(span)s, the longest time between two looks.")
        % {"span": seconds(conf.current().poll_seconds)},
    )


def of_running(found: Facts) -> Reason:
    """Return who runs a job, or that its worker is dead."""
    held_by = found.held_by
    who = f"{held_by.name} #{found.worker}" if held_by else f"#{found.worker}"
    gone = held_by is None or held_by.state not in ("RUNNING", "STOPPING")
    silent = held_by is not None and held_by.silent_seconds > conf.current().dead_after_seconds
    if gone or silent:
        others = [worker for worker in found.workers if worker.id != found.worker]
        words = {"worker": who, "span": seconds(held_by.silent_seconds if held_by else None)}
        return Reason(
            "worker-dead",
            gettext("Its worker %(worker)s is dead, and it isn’t rescued yet.") % words
            if gone
            else gettext("Nothing has been heard of its worker %(worker)s for %(span)s.") % words,
            gettext("A live worker takes it over within seconds.")
            if others
            else gettext("No other worker lives that could take it over. Start one with: %(command)s")
            % {"command": "manage.py runjobs"},
        )
    says = gettext("It is running on worker %(worker)s, for %(span)s.") % {
        "worker": who,
        "span": seconds(found.runs_for_seconds),
    }
    if found.cancel_requested:
        return Reason("stopping", says + " " + gettext("It was asked to stop."))
    return Reason("running", says)


def of_ended(found: Facts) -> Reason:
    """Return that a job has ended."""
    label = StateChoices(found.state).label
    says = gettext("It has ended: %(state)s.") % {"state": label}
    if found.reason:
        says = gettext("It has ended: %(state)s. %(reason)s") % {"state": label, "reason": found.reason}
    remedy = "" if found.state == State.SUCCESSFUL else gettext("Retry it.")
    return Reason("ended", says, remedy)


def names(workers: Sequence[LiveWorker]) -> str:
    """Return the names of some workers."""
    first = ", ".join(f"{worker.name} #{worker.id}" for worker in workers[:MOST_NAMED])
    return first + (", …" if len(workers) > MOST_NAMED else "")


def seconds(length: float | None) -> str:
    return span(None if length is None or isinf(length) else timedelta(seconds=length))
