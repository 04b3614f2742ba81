"""Make the table that workers write figures to, once a minute: nothing is written for a single job."""

from __future__ import annotations

from django.db import migrations, models

import django_jobs.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_jobs", "0002_autovacuum"),
    ]

    operations = [
        migrations.CreateModel(
            name="Stat",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
                ("seconds", models.IntegerField(verbose_name="length")),
                ("at", models.DateTimeField(verbose_name="beginning")),
                ("queue_name", models.CharField(max_length=128, verbose_name="queue")),
                ("task_path", models.CharField(max_length=500, verbose_name="task")),
                ("completed", models.BigIntegerField(default=0, verbose_name="completed")),
                ("failed", models.BigIntegerField(default=0, verbose_name="failed")),
                ("retried", models.BigIntegerField(default=0, verbose_name="retried")),
                ("cancelled", models.BigIntegerField(default=0, verbose_name="cancelled")),
                ("waits", django_jobs.fields.Numbers(default=list, verbose_name="waiting times")),
                ("runs", django_jobs.fields.Numbers(default=list, verbose_name="run times")),
            ],
            options={
                "verbose_name": "figures",
                "verbose_name_plural": "figures",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("seconds", "at", "queue_name", "task_path"), name="django_jobs_stat_place"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Overview",
            fields=[],
            options={
                "verbose_name": "overview",
                "verbose_name_plural": "overview",
                "proxy": True,
                "default_permissions": ("view",),
                "indexes": [],
                "constraints": [],
            },
            bases=("django_jobs.stat",),
        ),
    ]
