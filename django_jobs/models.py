"""
The tables. What may be written to them is decided in `store/`; lists for people read them through the ORM.

`Job` is rewritten at every claim and every finish, so it is narrow and has no index that the claim, the
rescue, the pruning or the list of failed jobs doesn't need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import connections, models, router
from django.db.models import F, Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_jobs.about import ABOUT, about_in, key_of
from django_jobs.bulk import BulkAction as BulkAction
from django_jobs.captures import Capture as Capture
from django_jobs.conf import QUEUE_NAME_LENGTH, TASK_PATH_LENGTH
from django_jobs.core.states import FINAL, Decision, Kind, State
from django_jobs.fields import JSONText, Moment
from django_jobs.figures import Intake as Intake
from django_jobs.figures import KnownTask as KnownTask
from django_jobs.figures import Overview as Overview
from django_jobs.figures import Stat as Stat
from django_jobs.serving import LIVE as LIVE
from django_jobs.serving import Queue as Queue
from django_jobs.serving import Worker as Worker
from django_jobs.serving import WorkerState as WorkerState
from django_jobs.serving import operate

if TYPE_CHECKING:
    from django_jobs.operations import Operations

FINISHED = sorted(state.value for state in FINAL)


def named_object() -> KeyTextTransform:
    """Return the expression for the text in meta that names the object of a job."""
    return KeyTextTransform(ABOUT, "meta")


class StateChoices(models.TextChoices):
    """`core.states.State` with its words for people."""

    BLOCKED = State.BLOCKED, _("blocked")
    READY = State.READY, _("ready")
    RUNNING = State.RUNNING, _("running")
    SUCCESSFUL = State.SUCCESSFUL, _("successful")
    FAILED = State.FAILED, _("failed")
    CANCELLED = State.CANCELLED, _("cancelled")


class KindChoices(models.TextChoices):
    """`core.states.Kind` with its words for people."""

    ERROR = Kind.ERROR, _("error")
    TIMEOUT = Kind.TIMEOUT, _("timed out")
    LOST = Kind.LOST, _("worker lost")
    SNOOZED = Kind.SNOOZED, _("snoozed")
    CANCELLED = Kind.CANCELLED, _("cancelled")
    RELEASED = Kind.RELEASED, _("handed back")
    UNKNOWN_TASK = Kind.UNKNOWN_TASK, _("unknown task")


class DecisionChoices(models.TextChoices):
    """`core.states.Decision` with its words for people."""

    SUCCEEDED = Decision.SUCCEEDED, _("done")
    RETRY = Decision.RETRY, _("retry")
    FAILED = Decision.FAILED, _("failed for good")
    SNOOZE = Decision.SNOOZE, _("run again later")
    CANCELLED = Decision.CANCELLED, _("cancelled")
    RELEASED = Decision.RELEASED, _("back in the queue")


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs, with what an operator does to many of them. Each method returns how many it changed."""

    def retry(self, *, reset_attempts: bool = True) -> int:
        """Send failed and cancelled jobs round again; others are left alone. See `Job.retry`."""
        return self.in_batches(lambda jobs, ids: jobs.retry(ids, reset_attempts=reset_attempts))

    def cancel(self, reason: str = "") -> int:
        """Cancel waiting jobs, and ask running ones to stop. See `Job.cancel`."""
        return self.in_batches(lambda jobs, ids: jobs.cancel(ids, reason=reason))

    def run_now(self) -> int:
        """Make jobs that wait for a later time due at once."""
        return self.in_batches(lambda jobs, ids: jobs.run_now(ids))

    def discard(self) -> int:
        """Delete jobs that aren't running, with their attempts, and tell the receivers of `job_deleted`."""
        return self.in_batches(lambda jobs, ids: jobs.discard(ids))

    def about(self, instance: models.Model | str) -> JobQuerySet:
        """Return the jobs about an object, or the one that a text such as "shop.order/17" names."""
        key = instance if isinstance(instance, str) else key_of(instance)
        return self.filter(meta__has_key=ABOUT).alias(key=named_object()).filter(key=key)

    def in_batches(self, act: Callable[[Operations, Sequence[int]], Sequence[int]], size: int = 1000) -> int:
        """Call `act(operations, ids)` for ever so many jobs, `size` at a time, in order of their ids."""
        from django_jobs import operations

        changed, last = 0, 0
        chosen = self._db  # type: ignore[attr-defined]  # not in the stubs
        alias = chosen or router.db_for_write(self.model)
        jobs = operations.Operations(alias)
        rest = self.using(alias).order_by("pk")  # a replica may not know of the latest yet
        while ids := list(rest.filter(pk__gt=last).values_list("pk", flat=True)[:size]):
            changed += len(act(jobs, ids))
            last = ids[-1]
        return changed


class Job(models.Model):
    """One enqueued call of a task."""

    id = models.BigAutoField(_("id"), primary_key=True)
    queue_name = models.CharField(_("queue"), max_length=QUEUE_NAME_LENGTH)
    task_path = models.CharField(_("task"), max_length=TASK_PATH_LENGTH)
    args = JSONText(_("arguments"), default=list)
    kwargs = JSONText(_("keyword arguments"), default=dict)
    priority = models.SmallIntegerField(_("priority"), default=0)
    state = models.CharField(_("state"), max_length=16, choices=StateChoices, default=StateChoices.READY)
    run_after = Moment(_("due"), db_default=Now())
    attempt = models.IntegerField(_("claims"), default=0)
    uncounted = models.IntegerField(_("claims that don't count"), default=0)
    max_attempts = models.IntegerField(_("attempts allowed"), null=True, blank=True)
    worker = models.BigIntegerField(_("worker"), null=True, blank=True)
    enqueued_at = Moment(_("enqueued"), db_default=Now())
    started_at = Moment(_("first started"), null=True, blank=True)
    last_attempted_at = Moment(_("last started"), null=True, blank=True)
    finished_at = Moment(_("finished"), null=True, blank=True)
    expires_at = Moment(_("kept until"), null=True, blank=True)
    return_value = JSONText(_("return value"), null=True, blank=True)
    reason = models.TextField(_("reason"), null=True, blank=True)  # noqa: DJ001  (null: nothing to say)
    cancel_requested_at = Moment(_("cancel requested"), null=True, blank=True)
    meta = models.JSONField(_("meta"), default=dict, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions = [
            ("retry_job", _("Can retry jobs")),
            ("cancel_job", _("Can cancel jobs")),
            ("run_job", _("Can make jobs due at once")),
            ("view_arguments", _("Can see the arguments and results of jobs")),
        ]
        indexes = [
            # The claim and the survey: store/claim.py.
            models.Index(
                F("queue_name"),
                F("priority").desc(),
                F("run_after"),
                F("id"),
                name="django_jobs_ready",
                condition=Q(state=State.READY.value),
            ),
            # The rescue, and what a worker is running: store/rescue.py.
            models.Index(
                fields=["worker"], name="django_jobs_running", condition=Q(state=State.RUNNING.value)
            ),
            # Pruning: store/prune.py.
            models.Index(
                fields=["expires_at"], name="django_jobs_expiry", condition=Q(expires_at__isnull=False)
            ),
            # The list of jobs that wait for a person: admin.
            models.Index(
                fields=["state", "id"],
                name="django_jobs_dead",
                condition=Q(state__in=[State.FAILED.value, State.CANCELLED.value]),
            ),
            # The jobs about an object, newest first: `about`, and store/control.py.
            models.Index(named_object(), F("id"), name="django_jobs_about", condition=Q(meta__has_key=ABOUT)),
        ]
        constraints = [
            models.CheckConstraint(
                name="django_jobs_state", condition=Q(state__in=[state.value for state in State])
            ),
            models.CheckConstraint(
                name="django_jobs_finished",
                condition=Q(state__in=FINISHED, finished_at__isnull=False)
                | (~Q(state__in=FINISHED) & Q(finished_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="django_jobs_running_has_worker",
                condition=~Q(state=State.RUNNING.value) | Q(worker__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_path} #{self.pk}"

    @property
    def counted_attempt(self) -> int:
        """Attempts that count against `max_attempts`, the running one included."""
        return self.attempt - self.uncounted

    @property
    def about(self) -> str | None:
        """What names the object that the job is about, such as "shop.order/17"; `None` for none."""
        return about_in(self.meta)

    @property
    def phase(self) -> str:
        """The state in small letters, with waiting jobs told apart: `ready`, `scheduled` or `retrying`."""
        if self.state != State.READY or self.run_after <= timezone.now():
            return str(self.state).lower()
        return "retrying" if self.counted_attempt > 0 else "scheduled"

    @property
    def is_ahead(self) -> bool:
        """Whether it waits for a time that has yet to come."""
        return self.phase in ("scheduled", "retrying")

    @property
    def label(self) -> str:
        """The phase in the words of a person."""
        words = {"retrying": _("retrying"), "scheduled": _("scheduled")}
        return str(words.get(self.phase) or self.get_state_display())

    @property
    def duration(self) -> timedelta | None:
        """How long the last run took, or has been running; `None` before it started."""
        if self.last_attempted_at is None:
            return None
        if self.state == State.RUNNING:
            return timezone.now() - self.last_attempted_at
        return None if self.finished_at is None else self.finished_at - self.last_attempted_at

    def history(self) -> list[Attempt]:
        """
        Return every run in order, each with its result and decision.

        The successful run and the one under way have no row of their own: they are read off the job and
        returned as unsaved `Attempt`s.
        """
        last = self.run_without_a_row()
        return [*self.attempts.order_by("number"), *([last] if last else [])]

    def run_without_a_row(self) -> Attempt | None:
        """Return the successful run, or the one under way, as an unsaved `Attempt`; `None` for neither."""
        if self.state not in (State.RUNNING, State.SUCCESSFUL) or self.last_attempted_at is None:
            return None
        return Attempt(
            job=self,
            number=self.attempt,
            worker=self.worker,
            started_at=self.last_attempted_at,
            ended_at=self.finished_at,
            kind="",
            decision=Decision.SUCCEEDED if self.state == State.SUCCESSFUL else "",
        )

    def retry(self, *, reset_attempts: bool = True) -> bool:
        """
        Send a failed or cancelled job round again, due at once; return whether it was.

        It gets all its attempts anew, or with `reset_attempts=False` just one more. Two calls at once
        lead to one further run.
        """
        return bool(operate(self, lambda jobs: jobs.retry([self.pk], reset_attempts=reset_attempts)))

    def cancel(self, reason: str = "") -> bool:
        """
        Cancel a waiting job, or ask a running one to stop; return whether either was done.

        A running job ends when its body notices (`context.is_cancelled`; async bodies are cancelled); in
        any case it isn't retried.
        """
        return bool(operate(self, lambda jobs: jobs.cancel([self.pk], reason=reason)))

    def run_now(self) -> bool:
        """Make a job due at once that waits for a later time; return whether it did."""
        return bool(operate(self, lambda jobs: jobs.run_now([self.pk])))


class Attempt(models.Model):
    """One run of a job that ended otherwise than by completing at once."""

    id = models.BigAutoField(_("id"), primary_key=True)
    # No constraint in the database: it would cost every pruned job a look-up of its own.
    # The unique constraint below is the index that finds a job's attempts.
    job = models.ForeignKey(
        Job,
        models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="attempts",
        verbose_name=_("job"),
    )
    number = models.IntegerField(_("number"))
    worker = models.BigIntegerField(_("worker"), null=True, blank=True)
    started_at = Moment(_("started"), null=True, blank=True)
    ended_at = Moment(_("ended"), null=True, blank=True)
    kind = models.CharField(_("result"), max_length=16, choices=KindChoices)
    exception_class = models.TextField(_("exception"), default="", blank=True)
    message = models.TextField(_("message"), default="", blank=True)
    traceback = models.TextField(_("traceback"), default="", blank=True)
    decision = models.CharField(_("decision"), max_length=16, choices=DecisionChoices)
    next_run_after = Moment(_("next due"), null=True, blank=True)

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="django_jobs_attempt_number")]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.job_id}/{self.number}"

    @property
    def duration(self) -> timedelta | None:
        """How long the run took; `None` while it goes on."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at


def clock(alias: str) -> datetime:
    """Return the database's time."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
