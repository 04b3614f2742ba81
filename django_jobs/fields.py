"""Model fields: what must come back exactly (arguments, return values), what strangers may have written, and
arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import models

from django_jobs.core.arguments import UndecodableText, decode, encode_value

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

LARGEST = 2**30
"""Bytes of JSON that PostgreSQL can hold in one value."""


CALENDAR = (
    "CASE WHEN %(expressions)s > '9999-12-31 09:59:59.999999Z' THEN '9999-12-31 09:59:59.999999Z'"
    " WHEN %(expressions)s < '0001-01-03Z' THEN '0001-01-03Z' ELSE %(expressions)s END"
)
"""A time, or the nearest one that Python can tell in every time zone; nothing stays nothing."""


def within_calendar(name: str) -> models.Func:
    """Return the column of that name as an expression, for arithmetic that infinite times would break."""
    return models.Func(models.F(name), template=CALENDAR, output_field=Moment())


class CalendarField(models.DateTimeField):  # type: ignore[type-arg]  # not subscriptable at run time
    """
    A time that is read within Python's calendar: PostgreSQL knows 'infinity', and years that Python doesn't.

    One such row, written by hand, would otherwise make every list fail that it is in.
    """

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Read what is outside of the calendar as its nearest day."""
        return CALENDAR % {"expressions": sql}, [*params] * 3

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        """Say that in the database it is a time like any other."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs


if TYPE_CHECKING:
    Moment = models.DateTimeField  # for types it is one like any other, and the stubs know only its name
else:
    Moment = CalendarField


class Known(models.JSONField):
    """JSON of which the shape is known: `read` makes of whatever stands there what the code relies on."""

    def __init__(self, *args: Any, read: Callable[[Any], Any] = lambda value: value, **kwargs: Any) -> None:
        self.read = read
        super().__init__(*args, **kwargs)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return self.read(super().from_db_value(value, expression, connection))

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        """Say that in the database it is JSON like any other."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs


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

    def get_lookup(self, lookup_name: str) -> Any:
        """Offer `isnull` alone: PostgreSQL compares no `json`. `meta`, a `jsonb`, is there to be searched."""
        return super().get_lookup(lookup_name) if lookup_name == "isnull" else None

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
