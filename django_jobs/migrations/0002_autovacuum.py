"""
Have the jobs' table vacuumed by the number of its dead rows, and not by a share of all that it keeps.

Every job leaves dead rows behind, whatever the size of the history: see docs/decisions/0001.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, router

SET = """
    ALTER TABLE django_jobs_job SET (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0)
"""

RESET = """
    ALTER TABLE django_jobs_job RESET (
        autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay)
"""


def alter(statement: str) -> Any:
    """Return the step that runs `statement` where the table is: not on another vendor's, nor elsewhere."""

    def step(apps: Any, schema_editor: Any) -> None:
        connection = schema_editor.connection
        job = apps.get_model("django_jobs", "Job")
        if connection.vendor == "postgresql" and router.allow_migrate_model(connection.alias, job):
            schema_editor.execute(statement)

    return step


class Migration(migrations.Migration):
    dependencies = [("django_jobs", "0001_initial")]

    operations = [migrations.RunPython(alter(SET), alter(RESET), elidable=False)]
