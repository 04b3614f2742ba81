"""Have workers tell more of themselves, and let people ask them to end. Adds columns to a small table, without a rewrite."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_jobs", "0004_tasks"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="worker",
            options={
                "default_permissions": ("view",),
                "permissions": [("stop_worker", "Can ask workers to drain or to stop")],
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
            },
        ),
        migrations.AddField(
            model_name="worker",
            name="asked_all",
            field=models.BooleanField(
                db_default=False, default=False, verbose_name="all processes were asked"
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="asked_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="asked"),
        ),
        migrations.AddField(
            model_name="worker",
            name="asked_by",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=200, verbose_name="asked by"
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="asked_to",
            field=models.CharField(
                blank=True,
                choices=[("DRAIN", "drain"), ("STOP", "stop")],
                db_default="",
                default="",
                max_length=16,
                verbose_name="asked to",
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="limits",
            field=models.JSONField(blank=True, null=True, verbose_name="limits"),
        ),
        migrations.AddField(
            model_name="worker",
            name="memory_bytes",
            field=models.BigIntegerField(blank=True, null=True, verbose_name="memory"),
        ),
        migrations.AddField(
            model_name="worker",
            name="supervisor",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=32, verbose_name="supervisor"
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="supervisor_pid",
            field=models.IntegerField(blank=True, null=True, verbose_name="supervisor's process"),
        ),
        migrations.AddField(
            model_name="worker",
            name="takes_requests",
            field=models.BooleanField(db_default=False, default=False, verbose_name="can be asked to end"),
        ),
    ]
