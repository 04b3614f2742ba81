"""What many jobs were asked for at once: the table of bulk actions, each worked off by a job of its own."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_jobs.fields import Moment


class BulkAction(models.Model):
    """
    An action on all jobs that match a filter, and how far it has come.

    Made and changed by `working_off` alone. `place` and the counts are written together with each batch.
    """

    id = models.BigAutoField(_("id"), primary_key=True)
    action = models.CharField(_("action"), max_length=16)
    choice = models.JSONField(default=dict)
    """What was chosen about it: a reason, or how many attempts."""
    filters = models.JSONField(default=dict)
    """Fields of `store.matching.Filter`."""
    matching = models.TextField(_("jobs that match"))
    """The filters in words."""
    upto = models.BigIntegerField()
    per_second = models.IntegerField(_("jobs per second, at most"))
    total = models.BigIntegerField(_("jobs expected"))
    is_estimate = models.BooleanField(_("estimated"), default=False)
    asked_at = Moment(_("asked"), db_default=Now())
    asked_by = models.CharField(_("asked by"), max_length=200, default="", blank=True)
    user_key = models.CharField(max_length=200, default="", blank=True)
    language = models.CharField(max_length=32, default="", blank=True)
    job = models.BigIntegerField(_("job"), null=True, blank=True)
    """The job that works it off, or did last."""
    part = models.IntegerField(default=0)
    after = models.BigIntegerField(default=0)
    done = models.BigIntegerField(_("done"), default=0)
    skipped = models.BigIntegerField(_("skipped"), default=0)
    finished_at = Moment(_("finished"), null=True, blank=True)
    stopped_by = models.CharField(_("stopped by"), max_length=200, default="", blank=True)

    objects = models.Manager["BulkAction"]()

    class Meta:
        verbose_name = _("bulk action")
        verbose_name_plural = _("bulk actions")
        default_permissions = ()

    def __str__(self) -> str:
        return f"#{self.pk}"
