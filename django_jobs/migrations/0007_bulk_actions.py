"""Make the table of bulk actions, each of which a job of its own works off."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_jobs", "0006_about"),
    ]

    operations = [
        migrations.CreateModel(
            name="BulkAction",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
                ("action", models.CharField(max_length=16, verbose_name="action")),
                ("choice", models.JSONField(default=dict)),
                ("filters", models.JSONField(default=dict)),
                ("matching", models.TextField(verbose_name="jobs that match")),
                ("upto", models.BigIntegerField()),
                ("per_second", models.IntegerField(verbose_name="jobs per second, at most")),
                ("total", models.BigIntegerField(verbose_name="jobs expected")),
                ("is_estimate", models.BooleanField(default=False, verbose_name="estimated")),
                (
                    "asked_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="asked"
                    ),
                ),
                (
                    "asked_by",
                    models.CharField(blank=True, default="", max_length=200, verbose_name="asked by"),
                ),
                ("user_key", models.CharField(blank=True, default="", max_length=200)),
                ("language", models.CharField(blank=True, default="", max_length=32)),
                ("job", models.BigIntegerField(blank=True, null=True, verbose_name="job")),
                ("part", models.IntegerField(default=0)),
                ("after", models.BigIntegerField(default=0)),
                ("done", models.BigIntegerField(default=0, verbose_name="done")),
                ("skipped", models.BigIntegerField(default=0, verbose_name="skipped")),
                ("finished_at", models.DateTimeField(blank=True, null=True, verbose_name="finished")),
                (
                    "stopped_by",
                    models.CharField(blank=True, default="", max_length=200, verbose_name="stopped by"),
                ),
            ],
            options={
                "verbose_name": "bulk action",
                "verbose_name_plural": "bulk actions",
                "default_permissions": (),
            },
        ),
    ]
