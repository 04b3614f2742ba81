"""Model fields: what must come back exactly (arguments and return values), and arrays of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from django_jobs.core.arguments import UndecodableText, decode, encode_value

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

LARGEST = 2**30
"""Bytes of JSON that PostgreSQL can hold in one value."""


class PlainField(models.Field):  # type: ignore[type-arg]  # not subscriptable at run time
    """A field whose values are dicts, lists, text and numbers."""

    def value_to_string(self, obj: models.Model) -> Any:
        """Return the value itself to serializers, as Django's `JSONField` does: `dumpdata` can write it."""
        return self.value_from_object(obj)


class JSONText(PlainField):
    """
    A value kept as PostgreSQL's `json`, which stores the text as it was given.

    `jsonb` would sort keys, round 1e22 to an integer and lose the sign of -0.0.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "json"

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Read the column as text: psycopg would decode it with less care."""
        return f"{sql}::text", params

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else encode_value(value, place=self.name, max_bytes=LARGEST)

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        """Decode what was stored; text that a stranger wrote and nothing can decode is returned as it is."""
        try:
            return None if value is None else decode(value)
        except UndecodableText:
            return value


class Numbers(PlainField):
    """Whole numbers in a PostgreSQL array. Django's `ArrayField` would want one more app to be installed."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "bigint[]"
