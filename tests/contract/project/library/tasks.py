"""Tasks of the library, made by Django's own decorator."""

from __future__ import annotations

from typing import Any

from django.utils.module_loading import import_string

from django_jobs.framework import IN_CORE
from tests.contract.project.library.models import Book

task = import_string(f"{'django.tasks' if IN_CORE else 'django_tasks'}.task")


@task
def print_title(book_id: int) -> str:
    title: str = Book.objects.using("default").get(pk=book_id).title
    return title


@task
def add_book(title: str) -> int:
    return int(Book.objects.create(title=title).pk)


@task(takes_context=True)
def look_at_itself(context: Any) -> list[str]:
    result = context.task_result
    result.refresh()
    return [result.status, result.backend]


@task
def add_books(*titles: str, suffix: str = "") -> list[str]:
    for title in titles:
        Book.objects.create(title=title + suffix)
    return list(titles)


@task
def fail() -> None:
    raise SystemExit(9)
