"""Make the table for what runs of tasks with the option `capture` logged; no other table changes."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import django_jobs.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_jobs", "0007_bulk_actions"),
    ]

    operations = [
        migrations.CreateModel(
            name="Capture",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
                ("number", models.IntegerField(verbose_name="number")),
                ("lines", django_jobs.fields.JSONText(default=list, verbose_name="log lines")),
                ("cut", models.IntegerField(default=0, verbose_name="lines cut")),
                ("cut_at", models.IntegerField(default=0, verbose_name="lines before the cut")),
                ("queries", models.IntegerField(blank=True, null=True, verbose_name="queries")),
                ("query_seconds", models.FloatField(blank=True, null=True, verbose_name="time of queries")),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="captures",
                        to="django_jobs.job",
                        verbose_name="job",
                    ),
                ),
            ],
            options={
                "verbose_name": "capture",
                "verbose_name_plural": "captures",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("job", "number"), name="django_jobs_capture_number")
                ],
            },
        ),
    ]
