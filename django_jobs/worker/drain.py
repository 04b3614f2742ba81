"""
Draining: running what is due until nothing is left, for `runjobs --drain` and tests.

Left are jobs that are due, and jobs that wait for another attempt: a drain waits for retries. What was
scheduled for later is not waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_jobs.store import stock
from django_jobs.store.link import run_together

if TYPE_CHECKING:
    from django_jobs.worker.dispatcher import Dispatcher


def is_drained(dispatcher: Dispatcher) -> bool:
    """Whether a worker that drains has nothing in its hands and nothing left to claim."""
    if dispatcher.ledger.in_flight or dispatcher.connection is None:
        return False
    served = dispatcher.claiming.served
    statement = stock.left(
        None if served.names is None else sorted(served.names),
        sorted(served.excluded),
        [path for paths in dispatcher.tasks.values() for path in paths],
    )
    [[[left]]] = run_together(dispatcher.connection, [statement])
    return not left
