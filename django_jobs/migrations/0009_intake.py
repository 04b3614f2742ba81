"""Count what is enqueued: a column of figures, with a default for the previous release, and how far the count is."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_jobs", "0008_captures"),
    ]

    operations = [
        migrations.CreateModel(
            name="Intake",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("counted_to", models.BigIntegerField()),
                ("seen_to", models.BigIntegerField()),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="stat",
            name="enqueued",
            field=models.BigIntegerField(db_default=0, default=0, verbose_name="enqueued"),
        ),
    ]
