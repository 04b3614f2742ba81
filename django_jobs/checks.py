"""
System checks: what is wrong with the project's configuration, found by `manage.py check`.

Ids are `django_jobs.E001` and so on for errors, `django_jobs.W001` and so on for warnings; the reference in
the docs lists them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections, router

from django_jobs import conf
from django_jobs.exceptions import suggestion
from django_jobs.framework import InvalidTaskBackend, task_backends
from django_jobs.tasks import is_jobs_backend

if TYPE_CHECKING:
    from django_jobs.backend import JobsBackend


def register() -> None:
    """Enter the checks with Django."""
    checks.register(check_settings, "django_jobs")
    checks.register(check_tables, checks.Tags.database)


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check `DJANGO_JOBS` and the database that it chooses."""
    given = getattr(settings, "DJANGO_JOBS", {})
    messages: list[checks.CheckMessage] = [
        checks.Error(problem, id="django_jobs.E001") for problem in conf.problems_of(given, "DJANGO_JOBS")
    ]
    if messages:
        return messages
    chosen = conf.current()
    for key in ("database", "listen_database"):
        alias = getattr(chosen, key)
        if alias is not None and alias not in connections:
            messages.append(unknown_alias(f"DJANGO_JOBS[{key!r}]", alias))
    if messages:
        return messages
    if chosen.dead_after_seconds < 2 * chosen.heartbeat_seconds:
        messages.append(
            checks.Error(
                f"DJANGO_JOBS['dead_after_seconds'] is {chosen.dead_after_seconds}, less than two heartbeats "
                f"of {chosen.heartbeat_seconds} s: one late heartbeat would make a live worker dead.",
                hint="Make it at least three times heartbeat_seconds.",
                id="django_jobs.E004",
            )
        )
    listener = chosen.listen_database
    if listener is not None and connections[listener].vendor != "postgresql":
        messages.append(not_postgresql(listener, "Name a direct connection to it in listen_database."))
    return messages + check_database(conf.database()) + check_routers()


def check_routers() -> list[checks.CheckMessage]:
    """Check that the database routers look for jobs where they are kept, and let tables be made there."""
    Job = apps.get_model("django_jobs", "Job")
    kept = {backend.database for backend in our_backends()} or {conf.database()}
    messages: list[checks.CheckMessage] = []
    for found, who, hint in (
        (
            conf.database(),
            "runjobs and the admin look for them in",
            "Set DJANGO_JOBS['database'] to that alias.",
        ),
        (
            router.db_for_write(Job),
            "the database routers send queries such as Job.objects.all() to",
            "Have a router's db_for_read and db_for_write answer for the app label 'django_jobs'.",
        ),
    ):
        if found not in kept:
            messages.append(
                checks.Warning(
                    f"Jobs are kept in the database {min(kept)!r}, but {who} {found!r}.",
                    hint=hint,
                    id="django_jobs.W002",
                )
            )
            break
    messages += [
        checks.Warning(
            f"Jobs are kept in the database {alias!r}, but the database routers don't let migrate make the "
            "tables of django_jobs there.",
            hint="Have a router's allow_migrate answer for the app label 'django_jobs'.",
            id="django_jobs.W003",
        )
        for alias in sorted(kept)
        if not router.allow_migrate_model(alias, Job)
    ]
    return messages


def our_backends() -> list[JobsBackend]:
    """Return the backends of `TASKS` that are ours and whose options are right."""
    found = []
    for alias in task_backends:
        try:
            backend: Any = task_backends[alias]
        except (InvalidTaskBackend, TypeError, ValueError):
            continue  # Django's own check of TASKS tells of it
        if is_jobs_backend(backend) and not conf.problems_of(backend.options, ""):
            found.append(backend)
    return found


def check_database(alias: str) -> list[checks.CheckMessage]:
    """Check that the queue's database can hold it, and say what isn't atomic."""
    messages: list[checks.CheckMessage] = []
    if connections[alias].vendor != "postgresql":
        messages.append(
            not_postgresql(alias, "Choose another alias with DJANGO_JOBS['database'] and a database router.")
        )
    elif alias != DEFAULT_DB_ALIAS:
        messages.append(
            checks.Warning(
                f"Jobs are kept in the database {alias!r}: enqueueing is part of a transaction on {alias!r}, "
                f"but not of one on {DEFAULT_DB_ALIAS!r}.",
                hint="Enqueue after the commit with django_jobs.enqueue_on_commit(task, …), and silence this "
                "check once you do.",
                id="django_jobs.W001",
            )
        )
    return messages


def not_postgresql(alias: str, hint: str) -> checks.CheckMessage:
    return checks.Error(
        f"django_jobs works on PostgreSQL, but the database {alias!r} is {connections[alias].vendor}.",
        hint=hint,
        id="django_jobs.E003",
    )


def unknown_alias(where: str, alias: str) -> checks.CheckMessage:
    return checks.Error(
        f"{where} names the database {alias!r}, which DATABASES doesn't have."
        f"{suggestion(alias, list(connections))}",
        id="django_jobs.E002",
    )


def check_backend(backend: JobsBackend) -> list[checks.CheckMessage]:
    """Check one alias of `TASKS` that uses `JobsBackend`."""
    from django_jobs.backend import OPTIONS  # not at import: the backend imports this module's users

    where = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed("django_jobs"):
        return [
            checks.Error(
                f"{where} uses django_jobs, which isn't installed as an app.",
                hint="Add 'django_jobs' to INSTALLED_APPS and run migrate.",
                id="django_jobs.E005",
            )
        ]
    messages: list[checks.CheckMessage] = [
        checks.Error(problem, id="django_jobs.E006")
        for problem in conf.problems_of(backend.options, f"{where}['OPTIONS']", OPTIONS)
    ]
    messages += [
        checks.Error(
            problem,
            hint="Name the queues in a list, such as ['default', 'mail']; an empty one allows any name.",
            id="django_jobs.E008",
        )
        for problem in backend.queue_problems(f"{where}['QUEUES']")
    ]
    if messages:
        return messages
    alias = backend.options.get("database")
    if alias is not None:
        if alias not in connections:
            messages.append(unknown_alias(f"{where}['OPTIONS']['database']", alias))
        else:
            messages += check_database(alias)
    return messages


def check_tables(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """With `check --database`: name what is missing in the tables there, if jobs are kept there."""
    if not databases or conf.problems_of(getattr(settings, "DJANGO_JOBS", {}), "DJANGO_JOBS"):
        return []
    if sys.argv[1:2] == ["migrate"]:  # which runs this check first, and is about to mend what it finds
        return []
    kept = {conf.database(), *(backend.database for backend in our_backends())}
    return [
        checks.Error(problem, hint=f"Run: manage.py migrate --database {alias}", id="django_jobs.E007")
        for alias in sorted(kept & set(databases))
        for problem in missing_tables(alias)
    ]


def missing_tables(alias: str) -> list[str]:
    """Return a sentence for each table, column, index or constraint of the queue that the database lacks."""
    problems = []
    connection = connections[alias]
    with connection.cursor() as cursor:
        present = set(connection.introspection.table_names(cursor))
        for model in apps.get_app_config("django_jobs").get_models():
            table = model._meta.db_table
            if model._meta.proxy:
                continue  # its table is another model's
            if table not in present:
                problems.append(f"The table {table} is missing in the database {alias!r}.")
                continue
            columns = {
                column.name for column in connection.introspection.get_table_description(cursor, table)
            }
            wanted = {str(field.column) for field in model._meta.local_concrete_fields}
            problems += [f"The column {table}.{name} is missing." for name in sorted(wanted - columns)]
            rules = connection.introspection.get_constraints(cursor, table)  # Django counts indexes as such
            problems += [
                f"The {kind} {rule.name} on {table} is missing."
                for kind, wanted_rules in (
                    ("index", model._meta.indexes),
                    ("constraint", model._meta.constraints),
                )
                for rule in wanted_rules
                if rule.name not in rules
            ]
    return problems
