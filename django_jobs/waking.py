"""
Waking workers after a commit: from `enqueueing` and `operations` to `store.notify`.

One notification leaves for each transaction, after its commit, on the connection that committed. A process
that commits many jobs a second sends only some: each silence is announced by the notification before it,
upon which workers look a second time when it is over. So the first job of a burst is never
delayed, the last is never forgotten, and no thread or connection is needed for it.

A notification that can't be sent is logged and forgotten: it costs one poll at the most.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_jobs import conf
from django_jobs.core.records import Wake
from django_jobs.store.cursor import run
from django_jobs.store.notify import asking, notify

logger = logging.getLogger("django_jobs")

BURST = 5.0
"""Notifications that may leave at once before their rate is limited."""

LOOK_BACK = 16
"""Callbacks of the open transaction that are searched for one of ours that can carry another queue."""


@dataclass(slots=True)
class Rate:
    """How many notifications this process may still send now: a bucket that fills with time."""

    per_second: float
    tokens: float = BURST
    filled_at: float = 0.0
    lock: Lock = field(default_factory=Lock)

    def take(self, now: float) -> tuple[bool, float]:
        """Return whether one may be sent at `now`, and for how many seconds the next ones may not."""
        with self.lock:
            self.tokens = min(BURST, self.tokens + (now - self.filled_at) * self.per_second)
            self.filled_at = now
            if self.tokens < 1:
                return False, 0
            self.tokens -= 1
            return True, 1 / self.per_second if self.tokens < 1 else 0


rates: dict[tuple[str, str, float], Rate] = {}
"""By database alias, channel, and what the settings allow in a second."""


class Notification:
    """What one transaction has to tell, as the function that Django calls after its commit."""

    def __init__(self, alias: str, savepoints: frozenset[str]) -> None:
        self.alias = alias
        self.savepoints = savepoints
        self.earliest: dict[tuple[str, int, bool | None], Wake] = {}
        self.everywhere = False
        """Whether workers are to look everywhere, and not just where the wakes say."""

    def add(self, wake: Wake) -> None:
        """Keep the earliest due time of each place."""
        known = self.earliest.get(wake.place)
        if known is None or wake.run_after < known.run_after:
            self.earliest[wake.place] = wake

    def __call__(self) -> None:
        """Send it, unless the rate says that workers will look by themselves."""
        settings = conf.current()
        per_second = settings.notify_per_second
        key = (self.alias, settings.channel, per_second)
        rate = rates.get(key) or rates.setdefault(key, Rate(per_second))
        allowed, silence = rate.take(monotonic())
        if not allowed:
            return
        try:
            with connections[self.alias].cursor() as cursor:
                wakes = () if self.everywhere else self.earliest.values()
                notify(cursor, settings.channel, wakes, silence=silence)
        except Exception as error:  # noqa: BLE001  (must never reach the caller, whose work is committed)
            logger.warning(
                "workers could not be notified; they will find the jobs by polling: %s",
                " ".join(str(error).split()),
            )


def wake_after_commit(alias: str, *wakes: Wake, everywhere: bool = False) -> None:
    """
    Notify workers of `wakes` once the open transaction on `alias` is committed, or at once without one.

    `everywhere` has them look in all queues, for changes that name no job.
    """
    if not (wakes or everywhere) or not conf.current().notify:
        return
    connection = connections[alias]
    if not (connection.in_atomic_block or connection.get_autocommit()):
        return  # Django can't say when such a transaction commits, so the poll has to find the jobs
    notification = notification_of(connection)
    notification.everywhere |= everywhere
    for wake in wakes:
        notification.add(wake)
    if not connection.in_atomic_block:
        notification()
    elif not any(entry[1] is notification for entry in connection.run_on_commit[-LOOK_BACK:]):
        transaction.on_commit(notification, using=alias, robust=True)


def tell_after_commit(alias: str, workers: Sequence[int]) -> None:
    """Have workers look at their rows once the open transaction on `alias` is committed, or at once."""

    def send() -> None:
        try:
            with connections[alias].cursor() as cursor:
                run(cursor, asking(conf.current().channel, workers))
        except Exception as error:  # noqa: BLE001  (as above: what was asked stands in their rows)
            logger.warning("workers could not be notified: %s", " ".join(str(error).split()))

    if workers and conf.current().notify:
        transaction.on_commit(send, using=alias, robust=True)


def notification_of(connection: BaseDatabaseWrapper) -> Notification:
    """
    Return the notification of the open transaction that a rollback would take back together with a new
    one: registered under just the savepoints that are open now; or a new one.
    """
    savepoints = frozenset(connection.savepoint_ids)
    if connection.in_atomic_block:
        for entry in connection.run_on_commit[: -LOOK_BACK - 1 : -1]:
            if isinstance(entry[1], Notification) and entry[1].savepoints == savepoints:
                return entry[1]
    return Notification(connection.alias, savepoints)
