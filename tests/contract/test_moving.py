"""docs/how-to/migrate.md: waiting jobs of other queues are moved by the code that it shows, and run."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.contract import processes
from tests.contract.fetching import pip
from tests.contract.test_project import LIBRARY, Project, start_project

__all__ = ["start_project"]

OF_DJANGO = ["django-tasks-db", "django-stubs-ext", "typing-extensions", "django-q2", "django-picklefield"]
"""Packages of the queues that live in Django, and what they need of others; Django itself is there."""

MOVED = [
    ["add_book", ["Momo"], {}, "default", 0],
    ["add_books", ["Krabat", "Ronja"], {"suffix": "!"}, "default", 0],
    ["add_book", ["Emil"], {}, "default", 0],
]


@pytest.fixture(scope="module")
def project(start_project: Callable[..., Project], tmp_path_factory) -> Project:
    folder = tmp_path_factory.mktemp("packages")
    target = ["--disable-pip-version-check", "--target", str(folder)]
    pip("install", *target, "--no-deps", *OF_DJANGO, folder=folder)
    pip("install", *target, "celery", folder=folder)
    made = start_project("moving", packages=folder)
    made.create("")
    made.manage("migrate", "--verbosity=0")
    return made


@pytest.mark.slow
def test_waiting_jobs_of_each_queue_are_moved_and_run(project):
    for queue, moved, left in [
        ("django-tasks-db", [MOVED[0], [*MOVED[1][:3], "mail", 7], MOVED[2]], ["SUCCESSFUL"]),
        ("django-q2", MOVED, ["D"]),
        ("celery", MOVED, ["library.add_book"]),
    ]:
        project.shell("from django_jobs.models import Job; Job.objects.all().delete()")
        told = json.loads(processes.run("-m", "tests.contract.moving", queue, variables=project.variables))

        assert told["moved"] == 3, queue
        assert told.get("again", 0) == 0
        assert told["jobs"] == moved, queue
        assert told["due"] == [["Emil"]], queue
        assert told["left"] == left, queue
        assert told["first"] == ["Momo"], queue
        assert "is part of a chain" in told.get("refused", "is part of a chain")

        assert "2 completed" in project.manage("runjobs", "--drain")
        assert (
            project.shell(
                f"""
from {LIBRARY}.models import Book
print(sorted(Book.objects.values_list("title", flat=True)), Book.objects.all().delete()[0])
"""
            )
            == "['Krabat!', 'Momo', 'Ronja!'] 3"
        )
