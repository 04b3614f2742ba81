from __future__ import annotations

from typing import Any

from django_jobs import task
from tests.scenarios.marks import mark


@task(takes_context=True)
def fresh(context: Any) -> None:
    mark("begin", "fresh", context.job_id, context.attempt)
