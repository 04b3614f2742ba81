"""Who runs jobs, and what is set for the queues that they serve: the tables of workers and of queues."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from django.db import models, router
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs import conf
from django_jobs.conf import QUEUE_NAME_LENGTH
from django_jobs.core.names import names_in, names_or_all, numbers_by_name, room, texts_by_name
from django_jobs.core.states import Wish
from django_jobs.fields import Known, Moment

if TYPE_CHECKING:
    from django_jobs.operations import Operations

Done = TypeVar("Done")
"""What an operation tells of what it did."""


class WorkerState(models.TextChoices):
    """What is known of a worker process."""

    RUNNING = "RUNNING", _("running")
    STOPPING = "STOPPING", _("stopping")
    STOPPED = "STOPPED", _("stopped")
    LOST = "LOST", _("lost")


class WishChoices(models.TextChoices):
    """`core.states.Wish` with its words for people."""

    DRAIN = Wish.DRAIN, _("drain")
    STOP = Wish.STOP, _("stop")


LIVE = (WorkerState.RUNNING, WorkerState.STOPPING)


class Worker(models.Model):
    """One process that runs jobs, with a new row at every start."""

    id = models.BigAutoField(_("id"), primary_key=True)
    name = models.CharField(_("name"), max_length=200)
    host = models.CharField(_("host"), max_length=255)
    pid = models.IntegerField(_("process"))
    queues = Known(_("queues"), read=names_or_all, null=True, blank=True)
    excluded_queues = Known(_("excluded queues"), read=names_in, default=list, blank=True)
    tasks = Known(_("tasks it knows"), read=names_in, default=list, blank=True)
    threads = models.IntegerField(_("threads"), default=0)
    async_slots = models.IntegerField(_("async slots"), default=0)
    limits = Known(_("limits"), read=numbers_by_name, null=True, blank=True)
    supervisor = models.CharField(_("supervisor"), max_length=32, default="", db_default="", blank=True)
    supervisor_pid = models.IntegerField(_("supervisor's process"), null=True, blank=True)
    versions = Known(_("versions"), read=texts_by_name, default=dict, blank=True)
    state = models.CharField(_("state"), max_length=16, choices=WorkerState, default=WorkerState.RUNNING)
    holds_lock = models.BooleanField(_("holds its lock"), default=False)
    memory_bytes = models.BigIntegerField(_("memory"), null=True, blank=True)
    started_at = Moment(_("started"), db_default=Now())
    heartbeat_at = Moment(_("heartbeat"), db_default=Now())
    stopped_at = Moment(_("stopped"), null=True, blank=True)
    ending = models.TextField(_("how it ended"), default="", blank=True)
    takes_requests = models.BooleanField(_("can be asked to end"), default=False, db_default=False)
    asked_to = models.CharField(
        _("asked to"), max_length=16, choices=WishChoices, default="", db_default="", blank=True
    )
    asked_all = models.BooleanField(_("all processes were asked"), default=False, db_default=False)
    asked_at = Moment(_("asked"), null=True, blank=True)
    asked_by = models.CharField(_("asked by"), max_length=200, default="", db_default="", blank=True)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)
        permissions = [("stop_worker", _("Can ask workers to drain or to stop"))]

    def __str__(self) -> str:
        return f"{self.name} #{self.pk}"

    @property
    def slots(self) -> int:
        """How many jobs it can run at once."""
        return self.threads + self.async_slots

    def room(self, queue_name: str) -> int:
        """Return how many jobs of a queue it can run at once."""
        return room(self.slots, self.limits or {}, queue_name)

    @property
    def is_live(self) -> bool:
        """Whether the row says that the process runs; see `heartbeat_at` for how long ago it said so."""
        return self.state in LIVE


class Queue(models.Model):
    """What was set for a queue; a queue without a row simply runs."""

    name = models.CharField(_("name"), max_length=QUEUE_NAME_LENGTH, primary_key=True)
    paused_at = Moment(_("paused"), null=True, blank=True)
    paused_by = models.CharField(_("paused by"), max_length=200, default="", blank=True)
    pause_reason = models.TextField(_("reason"), default="", blank=True)

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        default_permissions = ("view",)
        permissions = [("pause_queue", _("Can pause and resume queues"))]

    def __str__(self) -> str:
        return self.name

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None

    def pause(self, *, by: str = "", reason: str = "") -> bool:
        """Stop all workers from claiming jobs of this queue; return whether it was running before."""
        return operate(self, lambda queues: queues.pause(self.name, by=by, reason=reason))

    def resume(self) -> bool:
        """Let workers claim from this queue again, at once; return whether it was paused."""
        return operate(self, lambda queues: queues.resume(self.name))


def operate(instance: models.Model, act: Callable[[Operations], Done]) -> Done:
    """Call `act(operations)` on the database that `instance` is written to, and read it anew."""
    from django_jobs import operations

    alias = router.db_for_write(type(instance), instance=instance) if instance._state.db else conf.database()
    done = act(operations.Operations(alias))
    with suppress(Queue.DoesNotExist):  # nothing was ever set for it
        instance.refresh_from_db(using=alias)
    return done
