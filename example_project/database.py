"""Django's database settings from the address of a server, as both settings files need them."""

from __future__ import annotations

from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from example_project.embedded import Server


class BadDatabaseUrl(ValueError):
    """DATABASE_URL is not the address of a PostgreSQL database."""


def from_url(url: str) -> dict[str, Any]:
    """
    Return `DATABASES["default"]` for `url`, like postgresql://user:password@host:5432/name?sslmode=require.

    Whatever libpq understands is allowed; what Django has no key for goes to OPTIONS.
    Raises BadDatabaseUrl, without repeating the password, when libpq doesn't understand it.
    """
    if not url.startswith(("postgresql://", "postgres://")):
        scheme = url.partition("://")[0] if "://" in url else "(none)"
        raise BadDatabaseUrl(
            f"DATABASE_URL must start with postgresql://, not with scheme {scheme!r}: django_jobs needs "
            f"PostgreSQL. Example: postgresql://user:password@localhost/name"
        )
    try:
        given = conninfo_to_dict(url)
    except ProgrammingError as error:
        # libpq's message quotes the address, password and all, so neither it nor its chain is shown.
        raise BadDatabaseUrl(
            "DATABASE_URL is not a valid address. Percent-encode special characters in user and password. "
            "Example: postgresql://user:pass%23word@localhost/name"
        ) from (error if "@" not in url else None)
    if not given.get("dbname"):
        raise BadDatabaseUrl("DATABASE_URL names no database. Example: postgresql://user@localhost/name")
    keys = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    settings: dict[str, Any] = {"ENGINE": "django.db.backends.postgresql"}
    settings |= {key: str(given.pop(word, "")) for word, key in keys.items()}
    settings["OPTIONS"] = given
    return settings


def from_server(server: Server) -> dict[str, Any]:
    """Return `DATABASES["default"]` for an embedded server, which starts with the first connection."""
    return from_url(server.url) | {"ENGINE": "example_project.embedded", "EMBEDDED": server}
