"""
Jobs of other queues, enqueued by these queues themselves and moved by the code of docs/how-to/migrate.md.

Run by `test_moving` in a process that has their packages. `python -m tests.contract.moving QUEUE` prints as
JSON what was moved and what is left.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "migrate.md"


def main(queue: str) -> None:
    django.setup()
    told = {"django-tasks-db": tasks_db, "django-q2": django_q, "celery": celery}[queue](code_of_the_page())
    print(json.dumps(told))


def code_of_the_page() -> dict[str, Any]:
    """Return the names that the page's blocks define."""
    from tests.docs.blocks import blocks

    names: dict[str, Any] = {"__name__": "page_on_moving"}
    for block in blocks(PAGE, "python"):
        exec(compile("\n" * block.line + block.code, str(PAGE), "exec"), names)
    return names


def tasks_db(page: dict[str, Any]) -> dict[str, Any]:
    from django.utils import timezone
    from django_tasks_db.models import DBTaskResult  # type: ignore[import-not-found]

    from tests.contract.project.library.tasks import add_book, add_books

    old = {"backend": "old"}
    due = timezone.now() + timedelta(days=3)
    first = add_book.using(**old).enqueue("Momo")
    add_books.using(**old, queue_name="mail", priority=7).enqueue("Krabat", "Ronja", suffix="!")
    add_book.using(**old, run_after=due).enqueue("Emil")
    ended = DBTaskResult.objects.get(pk=add_book.using(**old).enqueue("ended").id)
    ended.set_successful(1)

    moved = page["move_from_tasks_db"]()

    job = page["job_of"](first.id)
    left = list(DBTaskResult.objects.values_list("status", flat=True))
    return {"moved": moved, "again": page["move_from_tasks_db"](), "left": left, "first": job.args} | facts(
        due
    )


def django_q(page: dict[str, Any]) -> dict[str, Any]:
    from django.utils import timezone
    from django_q.models import OrmQ, Schedule  # type: ignore[import-not-found]
    from django_q.tasks import async_task, schedule  # type: ignore[import-not-found]

    from tests.contract.project.library import tasks

    due = timezone.now() + timedelta(days=3)
    path = tasks.add_book.module_path
    first = async_task(path, "Momo")
    as_functions_were(lambda: async_task(tasks.add_books, "Krabat", "Ronja", suffix="!", group="books"))
    schedule(path, "Emil", schedule_type=Schedule.ONCE, next_run=due)
    schedule(path, "for ever", schedule_type=Schedule.DAILY)

    moved = page["move_from_django_q"]()

    job = page["job_of"](first)
    left = [
        *OrmQ.objects.values_list("pk", flat=True),
        *Schedule.objects.values_list("schedule_type", flat=True),
    ]
    return {"moved": moved, "again": page["move_from_django_q"](), "left": left, "first": job.args} | facts(
        due
    )


def as_functions_were(call: Callable[[], Any]) -> None:
    """Call while `add_books` is a plain function, as it was before the project moved."""
    from tests.contract.project.library import tasks

    task = tasks.add_books
    tasks.add_books = task.func
    try:
        call()
    finally:
        tasks.add_books = task


def celery(page: dict[str, Any]) -> dict[str, Any]:
    from celery import Celery  # type: ignore[import-not-found]
    from django.utils import timezone

    from tests.contract.project.library.tasks import add_book, add_books

    app = Celery("library", broker="memory://")
    names = {"library.add_book": add_book, "library.add_books": add_books}
    one, many = (app.task(task.func, name=name) for name, task in names.items())
    due = timezone.now() + timedelta(days=3)
    first = one.delay("Momo")
    many.apply_async(["Krabat", "Ronja"], {"suffix": "!"})
    one.apply_async(["Emil"], eta=due)

    moved = page["move_from_celery"](app, names)

    (one.s("part of") | one.s()).apply_async()
    try:
        page["move_from_celery"](app, names)
    except ValueError as error:
        refused = str(error)
    with app.connection_for_read() as connection:
        left = [connection.SimpleQueue("celery").get(block=False).headers["task"]]
    job = page["job_of"](first.id)
    return {"moved": moved, "refused": refused, "left": left, "first": job.args} | facts(due)


def facts(due: Any) -> dict[str, Any]:
    """Return what there is of jobs here, in order."""
    from django_jobs.models import Job

    return {
        "jobs": [
            [job.task_path.rpartition(".")[2], job.args, job.kwargs, job.queue_name, job.priority]
            for job in Job.objects.order_by("pk")
        ],
        "due": [job.args for job in Job.objects.filter(run_after=due)],
    }


if __name__ == "__main__":
    main(sys.argv[1])
