"""
Operations on jobs, queues and workers, for the models' methods, the admin and `manage.py jobs`.

Each is one short transaction on the queue's database: the change through `store.control`, workers woken
and receivers told once it is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import connections, transaction
from django.db.models import Model
from django.dispatch import Signal
from django.utils import timezone

from django_jobs import conf, signals
from django_jobs.about import key_of
from django_jobs.backend import problem_of_queue
from django_jobs.core.records import Wake
from django_jobs.core.states import Wish
from django_jobs.enqueueing import checked_time
from django_jobs.exceptions import UnknownQueue
from django_jobs.framework import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY
from django_jobs.store import control, steering
from django_jobs.store.steering import Answer, Verdict
from django_jobs.waking import tell_after_commit, wake_after_commit


class Operations:
    """What can be done on the queue of one database. Methods return the ids that they changed."""

    def __init__(self, alias: str | None = None) -> None:
        self.alias = alias or conf.database()

    def retry(self, ids: Sequence[int], *, reset_attempts: bool = True) -> list[int]:
        """
        Send failed and cancelled jobs round again, due at once; others are left alone.

        They get all their attempts anew, or with `reset_attempts=False` just one more.
        """
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            changed, wakes = control.retry(cursor, ids, reset_attempts=reset_attempts)
            self.wake(wakes)
            self.tell(signals.job_retried, changed)
        return changed

    def cancel(self, ids: Sequence[int], *, reason: str = "") -> list[int]:
        """
        Cancel waiting jobs, and ask running ones to stop: in any case they aren't retried.

        Returns the ids of both; `job_cancelled` is sent for the waiting ones here, for the others by their
        worker when they end.
        """
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            cancelled, asked = control.cancel(cursor, ids, reason=reason, keep=conf.current().keep_failed)
            self.tell(signals.job_cancelled, cancelled)
        return cancelled + asked

    def cancel_about(self, about: Model | str, *, reason: str = "") -> list[int]:
        """
        Cancel the waiting jobs about an object, or the one that a text such as "shop.order/17" names.

        Those that run are left alone. Returns the ids of the others, for which `job_cancelled` is sent.
        """
        key = about if isinstance(about, str) else key_of(about)
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            keep = conf.current().keep_failed
            cancelled = control.cancel_about(cursor, key, reason=reason or None, keep=keep)
            self.tell(signals.job_cancelled, cancelled)
        return cancelled

    def run_now(self, ids: Sequence[int]) -> list[int]:
        """Make jobs that wait for a later time due at once."""
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            changed, wakes = control.run_now(cursor, ids)
            self.wake(wakes)
        return changed

    def edit(
        self,
        job_id: int,
        *,
        queue_name: str | None = None,
        priority: int | None = None,
        run_after: datetime | None = None,
    ) -> bool:
        """
        Give a waiting job another queue, priority or due time; return whether it was waiting.

        Raises UnknownQueue for a name that no queue can have, and ValueError for a priority or time that no
        job can.
        """
        if queue_name is not None:
            self.check_name(queue_name)
        if priority is not None:
            check_priority(priority)
        if run_after is not None:
            check_due_time(run_after)
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            changed, wakes = control.edit(
                cursor, job_id, queue_name=queue_name, priority=priority, run_after=run_after
            )
            self.wake(wakes)
        return bool(changed)

    def copy(self, job_id: int, *, by: str = "") -> int | None:
        """
        Enqueue a job like another, due at once; return its id, or `None` when there is no such job.

        It has the same task, arguments, queue, priority, attempts and meta, but `copy_of` is added, and
        `enqueued_by` tells who made the copy. No receiver of `task_enqueued` is told, since its task need
        not be known here.
        """
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            made, wakes = control.copy(cursor, job_id, by=by)
            self.wake(wakes)
        return made[0] if made else None

    def discard(self, ids: Sequence[int]) -> list[int]:
        """Delete jobs that aren't running, with their attempts."""
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            deleted = control.discard(cursor, ids)
            self.tell(signals.job_deleted, deleted)
        return deleted

    def pause(self, queue_name: str, *, by: str = "", reason: str = "") -> bool:
        """
        Stop all workers from claiming jobs of a queue, also after restarts; return whether it ran before.

        Jobs that are running go on. Raises UnknownQueue for a name that no queue can have.
        """
        self.check_name(queue_name)
        with connections[self.alias].cursor() as cursor:
            return control.pause(cursor, queue_name, by=by, reason=reason)

    def resume(self, queue_name: str) -> bool:
        """Let workers claim from a queue again, at once; return whether it was paused."""
        self.check_name(queue_name)
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            resumed = control.resume(cursor, queue_name)
            if resumed:
                wake_after_commit(self.alias, everywhere=True)
        return resumed

    def drain_worker(self, worker: int, *, by: str = "", all_processes: bool = False) -> list[Answer]:
        """
        Ask a worker to claim nothing more, run to their ends what runs, however long it takes, and end.

        If `runjobs` started it with a supervisor, another process takes its place. With `all_processes` all
        of that `runjobs` are asked, and it ends with them. A worker hears of it by a notification, or with
        its next heartbeat; what was asked before is never taken back, and a later stop goes before.

        Returns one `django_jobs.store.steering.Answer` for each worker that is meant, whose `verdict` tells
        whether it was asked or why not; an empty list when there is no such worker.
        """
        return self.ask(worker, Wish.DRAIN, by=by, all_processes=all_processes)

    def stop_worker(self, worker: int, *, by: str = "", all_processes: bool = False) -> list[Answer]:
        """
        Ask a worker to end as after SIGTERM: what runs may go on for its time of grace
        (`--shutdown-timeout`), and is handed back then. Otherwise as `drain_worker`.
        """
        return self.ask(worker, Wish.STOP, by=by, all_processes=all_processes)

    def ask(self, worker: int, wish: Wish, *, by: str, all_processes: bool) -> list[Answer]:
        """Write down what is asked of workers, and have them look."""
        with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
            answers = steering.ask(cursor, worker, wish, all_processes=all_processes, by=by)
            asked = [answer.worker for answer in answers if answer.verdict == Verdict.ASKED]
            tell_after_commit(self.alias, asked)
        return answers

    def wake(self, wakes: Sequence[Wake]) -> None:
        """Have workers told of jobs that became due."""
        wake_after_commit(self.alias, *wakes)

    def tell(self, signal: Signal, ids: Sequence[int]) -> None:
        """Send `signal` for `ids` once the change is committed."""
        if ids and signal.has_listeners():
            send = partial(signal.send_robust, None, job_ids=list(ids), database=self.alias)
            transaction.on_commit(send, using=self.alias, robust=True)

    @staticmethod
    def check_name(queue_name: str) -> None:
        """Raise UnknownQueue for a text that is no queue's name."""
        if problem := problem_of_queue(queue_name):
            raise UnknownQueue(problem)


def check_priority(priority: int) -> None:
    """Raise ValueError for what isn't a priority as it is: 1.5 would be stored as another."""
    if type(priority) is not int or not TASK_MIN_PRIORITY <= priority <= TASK_MAX_PRIORITY:
        allowed = f"{TASK_MIN_PRIORITY} to {TASK_MAX_PRIORITY}"
        raise ValueError(f"priority={priority!r} must be a whole number from {allowed}.")


def check_due_time(run_after: datetime) -> None:
    """Raise ValueError for a time that a job can't be enqueued with."""
    if not isinstance(run_after, datetime):
        raise ValueError(f"run_after={run_after!r} must be a datetime.")
    if settings.USE_TZ and timezone.is_naive(run_after):
        raise ValueError(f"run_after={run_after!r} has no time zone. Give it one with timezone.make_aware().")
    checked_time(run_after)
