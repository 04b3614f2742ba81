"""
Jobs that hold a value in their arguments or meta, as far as it isn't masked: for the admin's list, and for
bulk actions. `store/values.py` has the conditions; here stands which tasks have an argument of which name.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from django_jobs import conf
from django_jobs.core.masking import is_sensitive
from django_jobs.signatures import positional_names
from django_jobs.store import values
from django_jobs.tasks import registry


def holding(jobs: QuerySet[Any], text: str) -> QuerySet[Any]:
    """
    Return those of `jobs` that hold `text`: a whole value, or `name=value`.

    Looks at each of `jobs`, so there must not be many. Whether the user may see arguments was checked.
    """
    if "\0" in text:
        return jobs.none()
    secrets = conf.current().sensitive_names
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        return jobs.filter(condition(values.ANYWHERE, values.anywhere_params(text, secrets, plain_tasks())))
    if is_sensitive(name, secrets):
        return jobs.none()
    return jobs.filter(condition(values.NAMED, values.named_params(name, value, places_of(name))))


def condition(text: str, params: tuple[object, ...]) -> Any:
    """Return a constant of `store.values` as a condition."""
    return RawSQL(text, params, output_field=BooleanField())  # noqa: S611  (the text is a constant)


def plain_tasks() -> list[str]:
    """Return the known tasks none of whose parameters has a sensitive name."""
    secrets = conf.current().sensitive_names
    return [
        path
        for path in registry
        if not any(is_sensitive(name, secrets) for name in positional_names(path) or ())
    ]


def places_of(name: str) -> dict[str, int]:
    """Return at which place known tasks have an argument of that name."""
    found = {path: list(positional_names(path) or ()) for path in registry}
    return {path: names.index(name) for path, names in found.items() if name in names}
