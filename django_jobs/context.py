"""The context: what a running body is told of its job, and by whom it may be stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_jobs.about import about_in, object_of
from django_jobs.framework import TaskContext

if TYPE_CHECKING:
    from django.db.models import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(TaskContext):  # type: ignore[type-arg, misc]  # the stubs differ from Django here
    """What a body with `takes_context=True` gets as its first argument."""

    job_id: int
    counted_attempt: int
    deadline: datetime | None
    """When the run times out, by the database's clock; `None` for never."""
    cancel_asked: Callable[[], bool] = field(repr=False, compare=False)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1: snoozes and runs that were handed back don't count."""
        return self.counted_attempt

    @property
    def idempotency_key(self) -> str:
        """
        A text that is the same in every attempt of this job and in no other job.

        For outside services that do a thing once for each key, and for unique rows of your own.
        """
        enqueued_at = self.task_result.enqueued_at
        assert enqueued_at is not None
        return f"{self.job_id}-{int(enqueued_at.timestamp() * 1_000_000)}"

    @property
    def about(self) -> str | None:
        """What names the object that the job is about, such as "shop.order/17"; `None` for none."""
        return about_in(self.meta)

    def get_about(self) -> Model | None:
        """Return the object that the job is about, read now; `None` when there is none, or none any more."""
        return object_of(self.about)

    async def aget_about(self) -> Model | None:
        """See `get_about`."""
        return await sync_to_async(self.get_about)()

    @property
    def is_cancelled(self) -> bool:
        """Whether someone asked for this job to be cancelled since it started. Costs no query."""
        return self.cancel_asked()
