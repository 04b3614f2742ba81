"""Tasks that the tests of `django_jobs.testing` and of `manage.py jobs` run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction

from django_jobs import Cancel, Constant, Fail, JobContext, JobTimeout, Retry, Snooze, task
from django_jobs.models import Job, Queue

seen: list[Any] = []
"""What bodies did; cleared before each test."""

MINUTE = timedelta(minutes=1)


@task
def add(a: int, b: int = 2) -> int:
    seen.append((a, b))
    return a + b


@task(queue_name="mail", priority=5)
def post(to: str, password: str = "") -> str:
    seen.append(to)
    return to


@task
async def count_queues() -> int:
    seen.append("async")
    return await Queue.objects.acount()


@task(max_attempts=3, backoff=Constant(MINUTE, jitter=0.0))
def fail_twice() -> str:
    seen.append("try")
    if len(seen) < 3:
        raise ValueError("not yet")
    return "done"


@task(max_attempts=3, backoff=Constant(MINUTE, jitter=0.0))
def always_fail() -> None:
    raise ValueError("never")


@task(takes_context=True)
def speak(context: JobContext, word: str) -> str:
    seen.append(context.attempt)
    if context.attempt == 1 and word == "retry":
        raise Retry("later", after=MINUTE)
    if word == "fail":
        raise Fail("hopeless")
    if word == "cancel":
        raise Cancel("unwanted")
    if word == "timeout":
        raise JobTimeout
    return word


@task
def snooze_once() -> None:
    seen.append("nap")
    if seen.count("nap") == 1:
        raise Snooze(MINUTE)


@task
def for_ever() -> None:
    for_ever.enqueue()


@task
def chain(links: int) -> None:
    seen.append(links)
    if links:
        chain.enqueue(links - 1)
        chain.using(run_after=timedelta(hours=1)).enqueue(0)


@task(transactional=True)
def open_queue(name: str, then_fail: bool = False) -> None:
    Queue.objects.create(name=name)
    if then_fail:
        raise ValueError("after writing")


@task(max_attempts=1)
def break_transaction() -> None:
    """Fail as a body does that relies on every statement being a transaction of its own."""
    Queue.objects.create(name="twice")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_jobs_queue (name) VALUES ('twice')")


@task
def recover() -> str:
    """Fail inside atomic(), and go on."""
    Queue.objects.create(name="twice")
    try:
        with transaction.atomic():
            Queue.objects.create(name="twice")
    except IntegrityError:
        return "recovered"
    return "never"


@task(max_attempts=1)
def after_commit(fails: bool = False) -> None:
    def tell() -> None:
        seen.append("committed")
        if fails:
            raise ValueError("after the commit")

    with transaction.atomic():
        transaction.on_commit(tell)
        seen.append("written")


@task(takes_context=True)
def cancel_itself(context: JobContext) -> None:
    seen.append(context.is_cancelled)
    Job.objects.get(pk=context.job_id).cancel()
    seen.append(context.is_cancelled)
    raise ValueError("would be retried")


@task(takes_context=True)
async def look_async(context: JobContext) -> None:
    seen.append(context.is_cancelled)


@task(keep_successful=timedelta(0))
def vanish() -> str:
    return "gone"


@task(max_attempts=1)
def end_the_tests() -> None:
    raise KeyboardInterrupt
