"""
Signals for what happens to a job beyond Django's own `task_enqueued`, `task_started`, `task_finished`.

All are sent with `send_robust`, after the change is committed, with the backend class or `None` as sender:
a receiver that raises is logged and changes nothing.

The first five carry `job` (a `core.records.ClaimedJob`) and `outcome` (one of `core.records.Outcome`);
the last three, sent by whoever made the change, carry `job_ids`, a list.
"""

from __future__ import annotations

from django.dispatch import Signal

job_retrying = Signal()
"""An attempt failed and another one is due: `outcome` is a `Retried` with kind, trace and delay."""

job_failed = Signal()
"""A job failed for good and waits for a person: `outcome` is a `Failed`."""

job_snoozed = Signal()
"""A body asked to run again later: `outcome` is a `Snoozed`."""

job_cancelled = Signal()
"""A job was cancelled. From a worker: `job` and `outcome`; from an operator: `job_ids`."""

job_released = Signal()
"""A worker handed a job back, at shutdown for instance: `outcome` is a `Released`."""

job_rescued = Signal()
"""A job of a dead worker was taken over; `outcome` says what became of it (`Retried` or `Failed`)."""

job_retried = Signal()
"""An operator sent failed or cancelled jobs round again: `job_ids`, `database`."""

job_deleted = Signal()
"""An operator deleted jobs: `job_ids`, `database`. Pruning is not announced."""
