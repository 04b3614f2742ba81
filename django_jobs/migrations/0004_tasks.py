"""Give the page of tasks its place and its permissions; no table changes."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_jobs", "0003_figures"),
    ]

    operations = [
        migrations.CreateModel(
            name="KnownTask",
            fields=[],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "permissions": [("run_task", "Can enqueue tasks by hand")],
                "proxy": True,
                "default_permissions": ("view",),
                "indexes": [],
                "constraints": [],
            },
            bases=("django_jobs.stat",),
        ),
    ]
