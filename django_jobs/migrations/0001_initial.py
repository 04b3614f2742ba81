"""Make the tables of the queue."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import django_jobs.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Queue",
            fields=[
                (
                    "name",
                    models.CharField(max_length=128, primary_key=True, serialize=False, verbose_name="name"),
                ),
                ("paused_at", models.DateTimeField(blank=True, null=True, verbose_name="paused")),
                (
                    "paused_by",
                    models.CharField(blank=True, default="", max_length=200, verbose_name="paused by"),
                ),
                ("pause_reason", models.TextField(blank=True, default="", verbose_name="reason")),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "permissions": [("pause_queue", "Can pause and resume queues")],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
                ("name", models.CharField(max_length=200, verbose_name="name")),
                ("host", models.CharField(max_length=255, verbose_name="host")),
                ("pid", models.IntegerField(verbose_name="process")),
                ("queues", models.JSONField(blank=True, null=True, verbose_name="queues")),
                (
                    "excluded_queues",
                    models.JSONField(blank=True, default=list, verbose_name="excluded queues"),
                ),
                ("tasks", models.JSONField(blank=True, default=list, verbose_name="tasks it knows")),
                ("threads", models.IntegerField(default=0, verbose_name="threads")),
                ("async_slots", models.IntegerField(default=0, verbose_name="async slots")),
                ("versions", models.JSONField(blank=True, default=dict, verbose_name="versions")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("RUNNING", "running"),
                            ("STOPPING", "stopping"),
                            ("STOPPED", "stopped"),
                            ("LOST", "lost"),
                        ],
                        default="RUNNING",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("holds_lock", models.BooleanField(default=False, verbose_name="holds its lock")),
                (
                    "started_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="started"
                    ),
                ),
                (
                    "heartbeat_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="heartbeat"
                    ),
                ),
                ("stopped_at", models.DateTimeField(blank=True, null=True, verbose_name="stopped")),
                ("ending", models.TextField(blank=True, default="", verbose_name="how it ended")),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
                ("queue_name", models.CharField(max_length=128, verbose_name="queue")),
                ("task_path", models.CharField(max_length=500, verbose_name="task")),
                ("args", django_jobs.fields.JSONText(default=list, verbose_name="arguments")),
                ("kwargs", django_jobs.fields.JSONText(default=dict, verbose_name="keyword arguments")),
                ("priority", models.SmallIntegerField(default=0, verbose_name="priority")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("BLOCKED", "blocked"),
                            ("READY", "ready"),
                            ("RUNNING", "running"),
                            ("SUCCESSFUL", "successful"),
                            ("FAILED", "failed"),
                            ("CANCELLED", "cancelled"),
                        ],
                        default="READY",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                (
                    "run_after",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="due"
                    ),
                ),
                ("attempt", models.IntegerField(default=0, verbose_name="claims")),
                ("uncounted", models.IntegerField(default=0, verbose_name="claims that don't count")),
                ("max_attempts", models.IntegerField(blank=True, null=True, verbose_name="attempts allowed")),
                ("worker", models.BigIntegerField(blank=True, null=True, verbose_name="worker")),
                (
                    "enqueued_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="enqueued"
                    ),
                ),
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="first started")),
                (
                    "last_attempted_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="last started"),
                ),
                ("finished_at", models.DateTimeField(blank=True, null=True, verbose_name="finished")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="kept until")),
                (
                    "return_value",
                    django_jobs.fields.JSONText(blank=True, null=True, verbose_name="return value"),
                ),
                ("reason", models.TextField(blank=True, null=True, verbose_name="reason")),
                (
                    "cancel_requested_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="cancel requested"),
                ),
                ("meta", models.JSONField(blank=True, default=dict, verbose_name="meta")),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "permissions": [
                    ("retry_job", "Can retry jobs"),
                    ("cancel_job", "Can cancel jobs"),
                    ("run_job", "Can make jobs due at once"),
                    ("view_arguments", "Can see the arguments and results of jobs"),
                ],
                "indexes": [
                    models.Index(
                        models.F("queue_name"),
                        models.OrderBy(models.F("priority"), descending=True),
                        models.F("run_after"),
                        models.F("id"),
                        condition=models.Q(("state", "READY")),
                        name="django_jobs_ready",
                    ),
                    models.Index(
                        condition=models.Q(("state", "RUNNING")),
                        fields=["worker"],
                        name="django_jobs_running",
                    ),
                    models.Index(
                        condition=models.Q(("expires_at__isnull", False)),
                        fields=["expires_at"],
                        name="django_jobs_expiry",
                    ),
                    models.Index(
                        condition=models.Q(("state__in", ["FAILED", "CANCELLED"])),
                        fields=["state", "id"],
                        name="django_jobs_dead",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                ["BLOCKED", "READY", "RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"],
                            )
                        ),
                        name="django_jobs_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", False),
                                ("state__in", ["CANCELLED", "FAILED", "SUCCESSFUL"]),
                            ),
                            models.Q(
                                models.Q(("state__in", ["CANCELLED", "FAILED", "SUCCESSFUL"]), _negated=True),
                                ("finished_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="django_jobs_finished",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "RUNNING"), _negated=True),
                            ("worker__isnull", False),
                            _connector="OR",
                        ),
                        name="django_jobs_running_has_worker",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
                ("number", models.IntegerField(verbose_name="number")),
                ("worker", models.BigIntegerField(blank=True, null=True, verbose_name="worker")),
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="started")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("ERROR", "error"),
                            ("TIMEOUT", "timed out"),
                            ("LOST", "worker lost"),
                            ("SNOOZED", "snoozed"),
                            ("CANCELLED", "cancelled"),
                            ("RELEASED", "handed back"),
                            ("UNKNOWN_TASK", "unknown task"),
                        ],
                        max_length=16,
                        verbose_name="result",
                    ),
                ),
                ("exception_class", models.TextField(blank=True, default="", verbose_name="exception")),
                ("message", models.TextField(blank=True, default="", verbose_name="message")),
                ("traceback", models.TextField(blank=True, default="", verbose_name="traceback")),
                (
                    "decision",
                    models.CharField(
                        choices=[
                            ("SUCCEEDED", "done"),
                            ("RETRY", "retry"),
                            ("FAILED", "failed for good"),
                            ("SNOOZE", "run again later"),
                            ("CANCELLED", "cancelled"),
                            ("RELEASED", "back in the queue"),
                        ],
                        max_length=16,
                        verbose_name="decision",
                    ),
                ),
                ("next_run_after", models.DateTimeField(blank=True, null=True, verbose_name="next due")),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="django_jobs.job",
                        verbose_name="job",
                    ),
                ),
            ],
            options={
                "verbose_name": "attempt",
                "verbose_name_plural": "attempts",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("job", "number"), name="django_jobs_attempt_number")
                ],
            },
        ),
    ]
