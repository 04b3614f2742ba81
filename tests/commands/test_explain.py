"""`manage.py jobs explain`: why a job is not running. All causes are in tests/admin/test_explaining.py."""

from __future__ import annotations

import pytest
from django.utils import timezone, translation

from django_jobs.models import Queue
from tests.commands.test_jobs import jobs, jobs_json, refused
from tests.rows import row

pytestmark = pytest.mark.django_db


def test_each_cause_stands_with_what_to_do():
    job = row(queue_name="mail")
    Queue.objects.create(name="mail", paused_at=timezone.now(), paused_by="ada", pause_reason="SMTP is down")

    lines = jobs("explain", job.pk).splitlines()

    assert lines[0] == f"#{job.pk} ready"
    assert lines[1].startswith("  The queue “mail” has been paused since")
    assert lines[1].endswith("by ada: SMTP is down")
    assert lines[2] == "    -> Resume the queue."
    assert lines[3] == "  No worker lives."


def test_json_has_stable_names():
    job = row()

    [found] = jobs_json("explain", job.pk)["jobs"]

    assert found["id"] == job.pk
    assert found["exists"] is True
    assert found["state"] == "ready"
    assert [reason["id"] for reason in found["reasons"]] == ["no-worker"]
    assert found["reasons"][0]["remedy"] == "Start one with: manage.py runjobs"


def test_a_job_that_is_not_there_is_an_exit_status():
    error = refused("explain", 2**62)

    assert error.returncode == 1
    assert f"There is no job #{2**62}." in str(error)


def test_it_speaks_english_as_all_commands_do():
    with translation.override("de"):
        assert "No worker lives." in jobs("explain", row().pk)


def test_a_terminal_takes_nothing_for_a_command():
    job = row("FAILED", reason="\x1b[2J")

    assert "\x1b" not in jobs("explain", job.pk)
