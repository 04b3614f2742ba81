"""
Index the jobs that are about an object of the project's.

Concurrently: it waits for transactions that are open, while others go on enqueueing and claiming.
"""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.fields.json import KeyTextTransform


class AddIndex(AddIndexConcurrently):
    """As Django's, but on PostgreSQL alone, and again where an earlier try was broken off."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            model = to_state.apps.get_model(app_label, self.model_name)
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                schema_editor.execute("DROP INDEX CONCURRENTLY IF EXISTS django_jobs_about")
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("django_jobs", "0005_steering")]

    operations = [
        AddIndex(
            model_name="job",
            index=models.Index(
                KeyTextTransform("about", "meta"),
                models.F("id"),
                name="django_jobs_about",
                condition=models.Q(meta__has_key="about"),
            ),
        ),
    ]
