"""What workers write down about the work, once a minute: the tables that charts and rates are read from."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_jobs.conf import QUEUE_NAME_LENGTH, TASK_PATH_LENGTH
from django_jobs.fields import Numbers


class Stat(models.Model):
    """
    What became of the runs of one queue and task in one minute or one hour, over all workers, and how many
    jobs were enqueued.

    Written by `store.statistics` alone, and never more than a few rows a minute, whatever runs: no page has
    to look at jobs to tell how many there were.
    """

    id = models.BigAutoField(_("id"), primary_key=True)
    seconds = models.IntegerField(_("length"))
    at = models.DateTimeField(_("beginning"))
    queue_name = models.CharField(_("queue"), max_length=QUEUE_NAME_LENGTH)
    task_path = models.CharField(_("task"), max_length=TASK_PATH_LENGTH)
    completed = models.BigIntegerField(_("completed"), default=0)
    failed = models.BigIntegerField(_("failed"), default=0)
    retried = models.BigIntegerField(_("retried"), default=0)
    cancelled = models.BigIntegerField(_("cancelled"), default=0)
    enqueued = models.BigIntegerField(_("enqueued"), default=0, db_default=0)
    waits = Numbers(_("waiting times"), default=list)
    runs = Numbers(_("run times"), default=list)

    class Meta:
        verbose_name = _("figures")
        verbose_name_plural = _("figures")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["seconds", "at", "queue_name", "task_path"], name="django_jobs_stat_place"
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue_name} {self.task_path} {self.at:%Y-%m-%d %H:%M}"


class Intake(models.Model):
    """
    How far new jobs have been counted: one row, which lets one worker do it about once a minute.

    Written by `store.statistics` alone.
    """

    id = models.SmallIntegerField(primary_key=True)
    at = models.DateTimeField()
    """When it was last done."""
    counted_to = models.BigIntegerField()
    """The id up to which jobs are counted."""
    seen_to = models.BigIntegerField()
    """The highest id there was then; the next time counts up to here."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.counted_to}"


class Overview(Stat):
    """The page that shows the figures: its place in the admin, and the permission to see it."""

    class Meta:
        proxy = True
        verbose_name = _("overview")
        verbose_name_plural = _("overview")
        default_permissions = ("view",)


class KnownTask(Stat):
    """The page of the tasks that this process knows: its place in the admin, and who may see and use it."""

    class Meta:
        proxy = True
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        default_permissions = ("view",)
        permissions = [("run_task", _("Can enqueue tasks by hand"))]
