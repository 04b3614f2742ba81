"""Tasks with `encoding="rich"`, for `test_rich_tasks`."""

from __future__ import annotations

from typing import Any

from django_jobs import JobContext, task


@task(encoding="rich", max_attempts=1)
def echo(value: Any, *, key: Any = None) -> Any:
    return [value, key]


@task(encoding="rich", max_attempts=1)
async def echo_async(value: Any, *, key: Any = None) -> Any:
    return [value, key]


@task(encoding="rich", max_attempts=1, takes_context=True)
def echo_with_context(context: JobContext, value: Any, *, key: Any = None) -> Any:
    assert context.task_result.args == echo.get_backend().get_result(context.task_result.id).args
    return [value, key]


@task(encoding="rich", max_attempts=1, takes_context=True)
async def echo_async_with_context(context: JobContext, value: Any, *, key: Any = None) -> Any:
    return [value, key]


@task(encoding="rich", max_attempts=1)
def fail_with(value: Any) -> None:
    raise ValueError(value)


ECHOES = [echo, echo_async, echo_with_context, echo_async_with_context]
