"""
A Django database engine that joins the embedded server before the first connection, and not earlier.

`manage.py check`, `help` and whatever else needs no database so start no server. In everything else it is
Django's own PostgreSQL engine.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base

from example_project.embedded.client import join


class DatabaseWrapper(base.DatabaseWrapper):
    """The engine for `DATABASES[…]["ENGINE"] = "example_project.embedded"`, with a Server in "EMBEDDED"."""

    def get_connection_params(self) -> dict[str, Any]:
        join(self.settings_dict["EMBEDDED"])
        return super().get_connection_params()
