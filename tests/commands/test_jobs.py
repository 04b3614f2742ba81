"""`manage.py jobs`, called as an operator would."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone, translation

from django_jobs.management.commands.jobs import Command
from django_jobs.management.operating import acting
from django_jobs.models import Attempt, Capture, Job, Queue, Worker
from django_jobs.operations import Operations
from django_jobs.store import matching
from django_jobs.testing import drain, run_due
from tests import errands
from tests.rows import row, worker_row

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def jobs(*arguments: object) -> str:
    """Return what `manage.py jobs …` prints."""
    out = StringIO()
    call_command("jobs", *map(str, arguments), stdout=out, stderr=out)
    return out.getvalue()


def jobs_json(*arguments: object):
    out = StringIO()
    call_command("jobs", *map(str, arguments), "--format", "json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


def refused(*arguments: object) -> CommandError:
    """Return the error of a command that isn't done."""
    with pytest.raises(CommandError) as caught:
        jobs(*arguments)
    return caught.value


def states() -> dict[int, str]:
    return dict(Job.objects.values_list("pk", "state"))


@pytest.mark.django_db
class TestStatus:
    def test_an_empty_queue_says_so_and_how_to_start_a_worker(self):
        text = jobs("status")

        assert "0 due, 0 later, 0 running, 0 failed, 0 cancelled, 0 successful" in text
        assert "Workers: none. Start one with: manage.py runjobs" in text

    def test_jobs_are_counted_by_state_and_queue(self):
        row(queue_name="mail")
        row(queue_name="mail", run_after=timezone.now() + DAY)
        row("FAILED", queue_name="mail")
        row("CANCELLED")
        row("SUCCESSFUL")

        found = jobs_json("status")

        assert found["states"] == {
            name: {"count": count, "exact": True}
            for name, count in {
                "due": 1,
                "later": 1,
                "running": 0,
                "failed": 1,
                "cancelled": 1,
                "successful": 1,
            }.items()
        }
        mail = next(queue for queue in found["queues"] if queue["name"] == "mail")
        one = {"count": 1, "exact": True}
        assert (mail["due"], mail["later"], mail["failed"], mail["workers"]) == (one, one, one, 0)

    def test_more_than_is_counted_is_told_as_an_estimate(self, monkeypatch):
        monkeypatch.setattr("django_jobs.store.counting.COUNTED", 3)
        monkeypatch.setattr("django_jobs.store.counting.SAMPLED", 10**9)
        errands.add.enqueue_many([(n,) for n in range(5)])
        for _ in range(5):
            row("FAILED")

        found = jobs_json("status")["states"]

        assert found["due"] == {"count": 5, "exact": False}
        assert found["failed"] == {"count": 5, "exact": False}
        assert "about 5 failed" in jobs("status")

    def test_the_numbers_of_queues_end_below_each_other(self):
        errands.add.using(queue_name="a").enqueue_many([(n,) for n in range(1_200)])
        errands.add.using(queue_name="b").enqueue(1)

        [heading] = re.findall("^  queue +due", jobs("status"), re.MULTILINE)
        many, one = re.findall(r"^  [ab] +[\d,]+", jobs("status"), re.MULTILINE)

        assert many.endswith("1,200")
        assert len(many) == len(one) == len(heading)

    def test_live_workers_are_shown_with_their_heartbeat_and_what_they_run(self):
        worker = worker_row(name="web1:17", queues=["mail"], heartbeat_at=Now() - timedelta(seconds=4))
        job = row(
            "RUNNING", worker=worker.pk, queue_name="mail", last_attempted_at=Now() - timedelta(minutes=3)
        )
        worker_row(name="gone", state="STOPPED")

        text, found = jobs("status"), jobs_json("status")

        assert re.search(rf"#{worker.pk} web1:17: running, heartbeat [4-9]\.\d s ago", text)
        assert f"#{job.pk} {job.task_path}, attempt 1, for 3 min" in text
        [shown] = found["workers"]
        assert (shown["name"], shown["queues"], shown["stale"]) == ("web1:17", ["mail"], False)
        assert [run["id"] for run in shown["runs"]] == [job.pk]
        assert 4 <= shown["silent_seconds"] < 60

    def test_limits_memory_and_what_workers_were_asked_are_shown(self):
        worker = worker_row(
            queues=["mail", "x"],
            limits={"mail": 2},
            threads=8,
            memory_bytes=90 * 2**20,
            supervisor_pid=41,
            asked_to="DRAIN",
        )

        text, found = jobs("status"), jobs_json("status")

        assert f"#{worker.pk} w: running" in text
        assert "queues mail:2, x, 90 MB, asked to drain" in text
        [shown] = found["workers"]
        assert (shown["limits"], shown["supervisor_pid"]) == ({"mail": 2}, 41)
        assert (shown["memory_bytes"], shown["asked_to"]) == (90 * 2**20, "drain")
        slots = {queue["name"]: queue["slots"] for queue in found["queues"]}
        assert (slots["mail"], slots["x"]) == (2, 8)

    def test_a_queue_with_due_jobs_and_no_live_worker_is_named(self):
        worker_row(queues=["default"])
        row(queue_name="default")
        row(queue_name="mail")
        row(queue_name="later", run_after=timezone.now() + DAY)
        row(queue_name="paused")
        Queue.objects.create(name="paused", paused_at=Now(), paused_by="ann", pause_reason="SMTP is down")

        text, found = jobs("status"), jobs_json("status")

        assert found["unserved_queues"] == ["mail"]
        assert "! queue mail has due jobs, but no live worker serves it" in text
        assert "Paused: paused since" in text
        assert "by ann: SMTP is down" in text

    def test_silent_workers_and_long_runs_are_pointed_at(self):
        worker = worker_row(name="asleep", heartbeat_at=Now() - HOUR)
        job = row("RUNNING", worker=worker.pk, last_attempted_at=Now() - timedelta(minutes=20))

        text = jobs("status")

        assert "worker #" in text
        assert "asleep hasn't been heard of for 1 h 0 min" in text
        assert f"job #{job.pk} {job.task_path} has been running for 20 min" in text
        assert jobs_json("status", "--slow-after", "30m")["long_runs"] == []

    def test_what_has_been_due_for_longest_is_shown_and_whether_anyone_knows_its_task(self):
        worker_row(tasks=["known.task"])
        old = row(task_path="gone.task", run_after=Now() - DAY)
        row(task_path="known.task", queue_name="other", run_after=Now() - HOUR)

        found = jobs_json("status")["oldest_due"]

        assert [(job["id"] == old.pk, job["task_is_known"]) for job in found] == [
            (True, False),
            (False, True),
        ]
        assert "no live worker knows this task" in jobs("status")

    def test_paused_queues_are_not_waited_for_and_ten_are_enough(self):
        for number in range(12):
            row(queue_name=f"q{number}")
        row(queue_name="paused", run_after=Now() - DAY)
        Queue.objects.create(name="paused", paused_at=Now())

        found = jobs_json("status")["oldest_due"]

        assert len(found) == 10
        assert "paused" not in {job["queue_name"] for job in found}

    def test_long_runs_of_one_queue_are_found_among_many_of_others(self, monkeypatch):
        monkeypatch.setattr("django_jobs.store.overview.MOST", 3)
        worker = worker_row()
        for name in ("other", "other", "other", "mail"):
            row("RUNNING", queue_name=name, worker=worker.pk, last_attempted_at=Now() - HOUR)

        assert len(jobs_json("status", "--queue", "mail")["long_runs"]) == 1

    def test_one_queue_can_be_looked_at_alone(self):
        row(queue_name="mail")
        row(queue_name="default")

        found = jobs_json("status", "--queue", "mail")

        assert [queue["name"] for queue in found["queues"]] == ["mail"]
        assert "failed" not in found["states"]

    def test_it_asks_the_same_few_statements_however_much_there_is(self, django_assert_num_queries):
        for number in range(30):
            worker = worker_row(name=f"w{number}")
            row("RUNNING", worker=worker.pk)
            row(queue_name=f"q{number}")

        with django_assert_num_queries(7 + 4):  # and a savepoint and a limit, both taken back
            jobs("status")


@pytest.mark.django_db
class TestShow:
    def test_everything_about_a_job_is_shown_with_its_history(self):
        errands.seen.clear()
        result = errands.fail_twice.using(meta={"by": "ann"}).enqueue()
        drain()

        text = jobs("show", result.id)
        [found] = jobs_json("show", result.id)["jobs"]

        assert f"#{result.id} tests.errands.fail_twice" in text
        assert text.count("ValueError: not yet") == 2
        assert "error -> retry, due" in text
        assert "successful -> succeeded" in text
        assert '  return value   "done"' in text
        assert [run["result"] for run in found["runs"]] == ["error", "error", "successful"]
        assert (found["state"], found["attempts"], found["meta"]) == ("successful", 3, {"by": "ann"})
        assert found["runs"][0]["traceback"].startswith("Traceback")

    @pytest.mark.parametrize(
        ("state", "columns", "label"),
        [
            ("READY", {}, "ready"),
            ("READY", {"run_after": Now() + HOUR}, "scheduled"),
            ("READY", {"run_after": Now() + HOUR, "attempt": 1}, "retrying"),
            ("READY", {"run_after": Now() + HOUR, "attempt": 1, "uncounted": 1}, "scheduled"),
            ("RUNNING", {}, "running"),
            ("CANCELLED", {}, "cancelled"),
        ],
    )
    def test_the_label_is_the_same_in_every_language(self, state, columns, label):
        job = row(state, **columns)

        with translation.override("de"):
            [found] = jobs_json("show", job.pk)["jobs"]

        assert found["label"] == label
        assert job.is_ahead == (label in ("scheduled", "retrying"))

    def test_what_has_a_sensitive_name_is_masked(self):
        named = errands.post.using(meta={"api_key": "k-123"}).enqueue("ann", password="hunter2")
        positional = errands.post.enqueue("bob", "hunter2")

        text = jobs("show", named.id, positional.id)

        assert "hunter2" not in text + jobs("show", named.id, positional.id, "--format", "json")
        assert "k-123" not in text
        assert "ann" in text
        assert "bob" in text

    def test_arguments_of_a_task_that_is_not_known_here_are_masked(self):
        job = row(task_path="gone.away", args=["hunter2"])

        assert "hunter2" not in jobs("show", job.pk)
        assert "sensitive arguments can't be told" in jobs("show", job.pk)

    def test_what_was_captured_is_shown_under_its_run(self):
        job = row("SUCCESSFUL")
        lines = [
            [1_800_000_000.25, "INFO", "shop", "one\x1b[2J"],
            [1_800_000_001, "ERROR", "shop", "two\nmore"],
        ]
        Job.objects.filter(pk=job.pk).update(last_attempted_at=Now())
        Capture.objects.create(job=job, number=1, lines=lines, cut=7, cut_at=1, queries=3, query_seconds=0.5)

        text = jobs("show", job.pk)
        [found] = jobs_json("show", job.pk)["jobs"]

        assert "3 queries in 0.500 s" in text
        assert "INFO shop: one\\x1b[2J\n       … 7 lines cut …\n" in text
        assert "ERROR shop: two\n       more" in text
        captured = found["runs"][0]["captured"]
        assert [line["text"] for line in captured["log"]] == ["one\x1b[2J", "two\nmore"]
        assert (captured["cut"], captured["cut_at"], captured["queries"]) == (7, 1, 3)

    def test_only_the_latest_runs_of_many_are_shown(self):
        job = row("FAILED", attempt=5)
        for number in range(1, 6):
            Attempt.objects.create(
                job=job, number=number, kind="ERROR", decision="RETRY", message=f"no {number}"
            )

        text = jobs("show", job.pk, "--runs", "2")

        assert "3 earlier ones left out" in text
        assert "no 5" in text
        assert "no 3" not in text

    def test_what_a_job_says_can_not_command_the_terminal(self):
        job = row("FAILED", reason="\x1b[2Jgone", task_path="a\x07b")

        assert "\x1b" not in jobs("show", job.pk) + jobs("retry", job.pk, "--dry-run")
        assert "\\x1b[2Jgone" in jobs("show", job.pk)

    def test_an_id_that_no_job_has_is_an_error_with_the_others_shown(self):
        job = row()
        out = StringIO()

        with pytest.raises(CommandError, match="There is no job #999999999") as caught:
            call_command("jobs", "show", str(job.pk), "999999999", stdout=out)

        assert caught.value.returncode == 1
        assert f"#{job.pk}" in out.getvalue()


@pytest.mark.django_db
class TestActing:
    def test_failed_jobs_are_retried_by_their_ids(self):
        failed, other = row("FAILED"), row("FAILED")

        assert "1 job sent round again." in jobs("retry", failed.pk)
        assert states() == {failed.pk: "READY", other.pk: "FAILED"}
        assert Job.objects.get(pk=failed.pk).counted_attempt == 0

    def test_a_retry_may_keep_the_attempts(self):
        job = row("FAILED", attempt=3, max_attempts=3)

        jobs("retry", f"#{job.pk}", "--keep-attempts")

        job.refresh_from_db()
        assert (job.counted_attempt, job.max_attempts) == (3, 4)

    def test_many_are_chosen_by_queue_task_state_and_time(self):
        def made(**columns):
            return row("FAILED", **{"finished_at": timezone.now() - HOUR} | columns).pk

        mail, old = made(queue_name="mail"), made(finished_at=timezone.now() - 3 * DAY)
        shop, shopping = made(task_path="shop.tasks.pay"), made(task_path="shopping.tasks.pay")
        cancelled = row("CANCELLED", finished_at=timezone.now()).pk

        def matched(*arguments):
            return sorted(jobs_json("retry", "--dry-run", *arguments)["ids"])

        assert matched("--queue", "mail") == [mail]
        assert matched("--queue", "mail", "--queue", "default", "--older-than", "1d") == [old]
        assert matched("--task", "shop.tasks.pay") == matched("--task", "shop.*") == [shop]
        assert matched("--task", "shop*") == [shop, shopping]
        assert matched("--state", "cancelled") == [cancelled]
        assert matched("--failed-since", "2h") == [mail, shop, shopping]
        assert matched("--failed-since", "2h", mail, cancelled) == [mail]
        assert matched("--failed-since", (timezone.now() - 2 * HOUR).isoformat()) == [mail, shop, shopping]
        assert matched("--older-than", timezone.now().date() - DAY) == [old]
        assert matched("--all") == [mail, old, shop, shopping, cancelled]
        assert set(states().values()) == {"FAILED", "CANCELLED"}

    def test_to_act_on_everything_one_has_to_say_so(self):
        row("FAILED")

        for arguments in (["retry"], ["cancel", "--dry-run"], ["discard"], ["run-now"]):
            error = refused(*arguments)
            assert error.returncode == 2
            assert "--all" in str(error)
        assert refused("retry", "--all", "--queue", "mail").returncode == 2

    def test_waiting_jobs_are_cancelled_and_running_ones_asked_to_stop(self):
        waiting, scheduled = row().pk, row(run_after=timezone.now() + DAY).pk
        running, done = row("RUNNING").pk, row("SUCCESSFUL").pk

        report = jobs_json("cancel", "--all", "--reason", "wrong price list")

        assert report["changed"] == 3
        assert report["by_state"] == {"ready": 1, "scheduled": 1, "running": 1}
        assert states() == {
            waiting: "CANCELLED",
            scheduled: "CANCELLED",
            running: "RUNNING",
            done: "SUCCESSFUL",
        }
        assert Job.objects.get(pk=waiting).reason == "wrong price list"
        assert Job.objects.get(pk=running).cancel_requested_at is not None

    def test_waiting_jobs_are_chosen_by_what_they_wait_for(self):
        later = timezone.now() + DAY
        retrying, scheduled, ready = row(run_after=later, attempt=2).pk, row(run_after=later).pk, row().pk

        assert jobs_json("cancel", "--dry-run", "--state", "retrying")["ids"] == [retrying]
        assert jobs_json("cancel", "--dry-run", "--state", "scheduled")["ids"] == [scheduled]
        assert jobs_json("cancel", "--dry-run", "--state", "waiting")["ids"] == [retrying, scheduled, ready]

    def test_scheduled_jobs_are_made_due(self):
        job = row(run_after=timezone.now() + DAY, task_path=errands.add.module_path, args=[1])

        jobs("run-now", job.pk)

        assert run_due().completed == 1

    def test_jobs_are_deleted_with_their_history_but_never_running_ones(self):
        failed, running = row("FAILED"), row("RUNNING")
        Attempt.objects.create(job=failed, number=1, kind="ERROR", decision="FAILED")

        assert "1 job deleted" in jobs("discard", "--all")
        assert list(states()) == [running.pk]
        assert not Attempt.objects.exists()

    def test_a_dry_run_changes_nothing_and_shows_what_would_be(self):
        job = row("FAILED", reason="ValueError: bad", queue_name="mail")

        text = jobs("discard", "--all", "--dry-run")

        assert "1 job would be deleted (1 failed)." in text
        assert re.search(rf"#{job.pk} +failed +mail .* ValueError: bad$", text, re.M)
        assert Job.objects.count() == 1

    def test_what_was_named_and_left_alone_is_told(self):
        failed, waiting = row("FAILED"), row()

        text = jobs("retry", failed.pk, waiting.pk, 999_999_999)

        assert f"Left alone: #{waiting.pk}, #999999999" in text
        assert jobs_json("retry", "--dry-run", waiting.pk, row("FAILED").pk)["missing"] == [waiting.pk]

    def test_nothing_matched_is_exit_status_1_with_a_hint(self):
        row("FAILED", queue_name="mail")

        error = refused("retry", "--queue", "mial")

        assert error.returncode == 1
        assert "No job matched. Queue 'mial' is not known. Did you mean 'mail'?" in str(error)
        assert "Task 'tests.errands.ad' is not known. Did you mean 'tests.errands.add'?" in str(
            refused("retry", "--task", "tests.errands.ad")
        )

    def test_more_jobs_than_a_page_and_a_batch_hold_are_all_met(self, monkeypatch):
        monkeypatch.setattr(matching, "PAGE_ROWS", 7)
        monkeypatch.setattr(acting, "batches", lambda ids, size=3: acting_batches(ids, 3))
        errands.add.enqueue_many([(n,) for n in range(40)])
        for _ in range(10):
            row("FAILED")

        assert jobs_json("cancel", "--all")["changed"] == 40
        assert jobs_json("retry", "--state", "failed")["changed"] == 10
        assert jobs_json("retry", "--state", "failed", "--state", "cancelled")["changed"] == 40

    def test_an_interruption_leaves_done_what_was_done(self, monkeypatch):
        monkeypatch.setattr(matching, "PAGE_ROWS", 2)
        for _ in range(6):
            row("FAILED")
        real = Operations.retry

        def retry(self, ids, **options):
            if Job.objects.filter(state="READY").count() >= 4:
                raise KeyboardInterrupt
            return real(self, ids, **options)

        monkeypatch.setattr(Operations, "retry", retry)

        error = refused("retry", "--all")

        assert error.returncode == 130
        assert Job.objects.filter(state="READY").count() == 4


acting_batches = acting.batches


@pytest.mark.django_db
class TestQueues:
    def test_queues_are_paused_with_a_reason_and_resumed(self):
        row(queue_name="mail")

        assert "Queue mail paused." in jobs("pause", "mail", "--reason", "SMTP is down")
        queue = Queue.objects.get(name="mail")
        assert (queue.is_paused, queue.pause_reason) == (True, "SMTP is down")
        assert "@" in queue.paused_by
        assert jobs_json("resume", "mail") == {
            "action": "resume",
            "database": "default",
            "changed": ["mail"],
            "unchanged": [],
        }
        assert not Queue.objects.get(name="mail").is_paused

    def test_pausing_twice_changes_nothing_and_keeps_the_reason(self):
        row(queue_name="mail")
        jobs("pause", "mail", "--reason", "first")

        assert refused("pause", "mail", "--reason", "second").returncode == 1
        assert Queue.objects.get(name="mail").pause_reason == "first"
        error = refused("resume", "mial")
        assert error.returncode == 1
        assert "Did you mean 'mail'?" in str(error)

    @pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("No username"), ImportError])
    def test_a_container_may_run_it_as_any_user(self, monkeypatch, error):
        def unknown() -> str:
            raise error

        monkeypatch.setattr("getpass.getuser", unknown)
        row(queue_name="mail")
        jobs("pause", "mail")

        assert Queue.objects.get(name="mail").paused_by == f"uid {os.getuid()}@{socket.gethostname()}"

    def test_a_queue_that_nobody_knows_is_paused_only_by_force(self):
        error = refused("pause", "defualt")

        assert error.returncode == 2
        assert "Did you mean 'default'?" in str(error)
        assert not Queue.objects.exists()
        jobs("pause", "new", "--force")
        assert Queue.objects.get().is_paused


@pytest.mark.django_db
class TestAskingWorkers:
    @pytest.mark.parametrize("action", ["drain", "stop"])
    def test_who_asked_is_kept_and_what_becomes_of_it_is_told(self, action):
        worker = worker_row(takes_requests=True, name="a\x1b[2J")

        text = jobs(f"{action}-worker", worker.pk)

        worker.refresh_from_db()
        assert (worker.asked_to, worker.asked_all) == (action.upper(), False)
        assert worker.asked_by.endswith(f"@{socket.gethostname()}")
        assert f"#{worker.pk} to {action}: " in text
        assert "\x1b" not in text

    def test_all_processes_of_a_runjobs_are_asked_only_on_demand(self):
        one, other = (worker_row(takes_requests=True, supervisor="a") for _ in range(2))

        assert jobs_json("stop-worker", one.pk)["asked"] == [one.pk]
        assert jobs_json("stop-worker", one.pk, "--all-processes")["asked"] == [one.pk, other.pk]

    def test_nobody_asked_is_an_exit_status_and_the_reason_is_told(self):
        old = worker_row(host="web-1", pid=42)

        out = StringIO()
        with pytest.raises(CommandError) as caught:
            call_command("jobs", "stop-worker", str(old.pk), str(2**62), stdout=out, stderr=out)

        assert caught.value.returncode == 1
        assert "can’t be asked. Send SIGTERM to process 42 on web-1." in out.getvalue()
        assert f"There is no worker #{2**62}." in out.getvalue()

    def test_json_has_a_verdict_for_each(self):
        worker, gone = worker_row(takes_requests=True), worker_row(state="STOPPED")

        found = jobs_json("drain-worker", worker.pk, gone.pk, 2**62)

        assert (found["action"], found["asked"], found["missing"]) == ("drain-worker", [worker.pk], [2**62])
        verdicts = {answer["worker"]: answer["verdict"] for answer in found["answers"]}
        assert verdicts == {worker.pk: "ASKED", gone.pk: "ENDED"}

    def test_an_id_is_a_whole_number(self):
        assert "'w1' is no worker's id (a whole number)" in str(refused("stop-worker", "w1"))


@pytest.mark.django_db
class TestPrune:
    def test_what_is_past_its_retention_goes_with_its_history_in_every_final_state(self):
        for state in ("SUCCESSFUL", "FAILED", "CANCELLED"):
            job = row(state, expires_at=Now() - HOUR)
            Attempt.objects.create(job=job, number=1, kind="ERROR", decision="RETRY")
        kept = [row(state, expires_at=Now() + HOUR).pk for state in ("SUCCESSFUL", "FAILED")]
        kept += [row("FAILED").pk, row().pk, row("RUNNING").pk, row(run_after=timezone.now() + DAY).pk]

        would, text = jobs_json("prune", "--dry-run"), jobs("prune")

        assert (would["matched"], would["changed"]) == (3, 0)
        assert would["by_state"] == {"successful": 1, "failed": 1, "cancelled": 1}
        assert "3 jobs deleted." in text
        assert sorted(states()) == kept
        assert not Attempt.objects.exists()

    def test_an_age_may_be_given_for_each_state(self):
        def aged(state, age):
            return row(state, finished_at=timezone.now() - age, expires_at=None).pk

        done, failed = aged("SUCCESSFUL", 2 * DAY), aged("FAILED", 2 * DAY)
        aged("CANCELLED", 9 * DAY)
        young = aged("SUCCESSFUL", HOUR)

        assert jobs_json("prune", "--older-than", "7d", "--older-than", "failed=30d")["changed"] == 1
        assert jobs_json("prune", "--older-than", "successful=1d", "--dry-run")["ids"] == [done]
        assert "1 job deleted" in jobs("prune", "--older-than", "successful=1d")
        assert sorted(states()) == [failed, young]

    def test_waiting_and_running_jobs_can_not_be_pruned(self):
        waiting, running = row(enqueued_at=Now() - 9 * DAY), row("RUNNING", enqueued_at=Now() - 9 * DAY)

        jobs("prune", "--older-than", "1s")

        assert sorted(states()) == [waiting.pk, running.pk]
        error = refused("prune", "--older-than", "ready=1d")
        assert "only jobs that ended can be pruned" in str(error)

    def test_nothing_to_prune_is_no_failure(self):
        assert "0 jobs deleted." in jobs("prune")

    def test_rows_of_workers_that_ended_long_ago_go_too(self):
        worker_row(state="STOPPED", stopped_at=Now() - 30 * DAY)
        worker_row(state="LOST", stopped_at=Now())

        jobs("prune")

        assert Worker.objects.count() == 1


@pytest.mark.django_db(transaction=True)
class TestPruningMany:
    COUNT = 30_000

    @pytest.fixture(autouse=True)
    def many(self):
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt, "
                "uncounted, meta, enqueued_at, run_after, finished_at, expires_at) "
                "SELECT 'default', 't', '[]', '{}', 0, 'SUCCESSFUL', 1, 0, '{}', now() - interval '9 days', "
                "now() - interval '9 days', now() - interval '8 days', now() - interval '7 days' "
                "FROM generate_series(1, %s)",
                [self.COUNT],
            )

    @pytest.mark.parametrize("arguments", [(), ("--older-than", "1d")])
    def test_it_makes_progress_under_a_short_statement_timeout(self, arguments):
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '1s'")
        try:
            report = jobs_json("prune", "--batch", "500", *arguments)
        finally:
            connection.close()

        assert report["changed"] == self.COUNT
        assert not Job.objects.exists()

    @pytest.mark.parametrize("arguments", [(), ("--older-than", "1d")])
    def test_an_interruption_keeps_what_was_committed(self, monkeypatch, arguments):
        calls = []

        def sleep(seconds):
            calls.append(seconds)
            if len(calls) == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(acting, "sleep", sleep)

        assert refused("prune", "--batch", "100", *arguments).returncode == 130
        assert Job.objects.count() == self.COUNT - 300


@pytest.mark.django_db
class TestHealth:
    def test_a_queue_with_a_live_worker_is_healthy(self):
        worker_row()
        row()

        assert jobs("health") == "healthy: 1 worker, 1 job due\n"
        assert jobs_json("health") == {"healthy": True, "database": "default", "problems": []}

    def test_no_live_worker_is_unhealthy(self):
        worker_row(state="STOPPED")
        worker_row(state="STOPPING")

        error = refused("health")

        assert error.returncode == 1
        assert "no live worker" in str(error)

    def test_a_silent_worker_is_unhealthy_though_another_lives(self):
        worker_row()
        worker_row(name="asleep", heartbeat_at=Now() - HOUR)

        assert "asleep hasn't been heard of for 1 h 0 min (limit 30 s)" in str(refused("health"))

    def test_due_jobs_that_no_worker_serves_are_unhealthy(self):
        worker_row(excluded_queues=["mail"])
        row(queue_name="mail")

        assert "queue mail has due jobs, but no live worker serves it" in str(refused("health"))
        assert "healthy" in jobs("health", "--queue", "default")

    def test_a_job_that_waits_too_long_is_unhealthy_where_that_is_asked_for(self):
        worker_row()
        row(run_after=Now() - HOUR)

        assert "healthy" in jobs("health")
        assert "has been due for 1 h 0 min" in str(refused("health", "--max-wait", "30m"))

    @pytest.mark.parametrize("choice", [(), ("--queue", "mail")], ids=["all queues", "one"])
    def test_however_many_queues_have_waited_for_longer_and_are_paused(self, choice):
        worker_row()
        for number in range(12):
            row(queue_name=f"q{number}", run_after=Now() - 5 * HOUR)
            Queue.objects.create(name=f"q{number}", paused_at=Now())
        row(queue_name="mail", run_after=Now() - 2 * HOUR)

        told = str(refused("health", "--max-wait", "1h", *choice))

        assert "in queue mail has been due for 2 h" in told
        assert "healthy" in jobs("health", "--max-wait", "3h", *choice)

    def test_however_many_other_queues_have_waited_for_longer(self):
        worker_row()
        for number in range(12):
            row(queue_name=f"q{number}", run_after=Now() - 5 * HOUR)
        row(queue_name="mail", run_after=Now() - 2 * HOUR)

        assert "in queue mail" in str(refused("health", "--max-wait", "1h", "--queue", "mail"))
        assert "healthy" in jobs("health", "--max-wait", "3h", "--queue", "mail")
        assert "in queue q" in str(refused("health", "--max-wait", "3h"))

    def test_however_many_priorities_have_waited_for_longer_elsewhere(self):
        worker_row()
        for number in range(12):
            row(queue_name="other", priority=number, run_after=Now() - 5 * HOUR)
        row(queue_name="mail", run_after=Now() - 2 * HOUR)

        assert "in queue mail" in str(refused("health", "--max-wait", "1h", "--queue", "mail"))

    def test_problems_have_stable_names_for_monitoring(self):
        row(queue_name="mail")
        out = StringIO()

        with pytest.raises(CommandError):
            call_command("jobs", "health", "--format", "json", stdout=out)

        found = json.loads(out.getvalue())
        assert not found["healthy"]
        assert [problem["id"] for problem in found["problems"]] == ["no_worker", "unserved_queue"]

    def test_missing_tables_are_named(self):
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE django_jobs_queue")

        assert "The table django_jobs_queue is missing" in str(refused("health"))

    def test_a_missing_table_is_exit_status_3_for_what_needs_it(self):
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_jobs_queue RENAME TO elsewhere")

        error = refused("pause", "default", "--force")

        assert error.returncode == 3


class TestCommandLine:
    def test_a_database_that_can_not_be_reached_is_told_in_a_line(self, tmp_path):
        ended = run_manage("jobs", "health", url="postgresql://nobody@127.0.0.1:9/nothing")

        assert ended.returncode == 1
        assert "Database 'default':" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert run_manage("jobs", "status", url="postgresql://nobody@127.0.0.1:9/n").returncode == 3

    def test_a_wrong_command_line_is_exit_status_2_with_a_suggestion(self):
        ended = run_manage("jobs", "stauts")

        assert ended.returncode == 2
        assert "there is no action 'stauts'. Did you mean 'status'?" in ended.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["retry", "--queu", "mail", "--quee"],
                "there is no option --quee here. Did you mean '--queue'?",
            ),
            (["retry", "--state", "faild"], "there is no state 'faild'. Did you mean 'failed'?"),
            (["retry", "--state", "running"], "retry can't act on running jobs, only on: failed, cancelled"),
            (["retry", "abc"], "'abc' is no job's id"),
            (["retry", "99999999999999999999"], "is no job's id"),
            (["retry", "--failed-since", "soon"], "'soon' is no age such as 90s"),
            (["retry", "--older-than", "2026-13-01"], "'2026-13-01'"),
            (["retry", "--older-than", "9999999999d"], "longer than any job is old"),
            (["prune", "--older-than", "successful"], "'successful' is no age"),
            (["prune", "--older-than", "done=1d"], "only jobs that ended can be pruned, not 'done'"),
            (["pause", ""], "is not the name of a queue"),
            (["pause", "a\udcff"], "is not the name of a queue"),
            (["status", "--queue", "x" * 200], "is not the name of a queue"),
            (["show", "9" * 5_000], "is no job's id"),
            (["show"], "the following arguments are required: ID"),
            ([], "the following arguments are required: ACTION"),
            (["status", "--format", "xml"], "invalid choice: 'xml'"),
            (["status", "--database", "defualt"], "Did you mean 'default'?"),
        ],
    )
    def test_what_is_wrong_is_named(self, arguments, message):
        assert message in str(refused(*arguments))

    @pytest.mark.parametrize("action", ["", "status", "retry", "cancel", "discard", "prune", "health"])
    def test_help_says_what_an_action_does(self, action, capsys):
        with pytest.raises(SystemExit) as ended:
            jobs(*filter(None, [action]), "--help")

        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert ("exit status:" in text) if not action else ("--format" in text)

    def test_every_action_and_option_is_in_the_reference(self):
        page = Path(__file__).parents[2].joinpath("docs/reference/jobs-command.md").read_text("utf-8")
        parser = Command().create_parser("manage.py", "jobs")
        [actions] = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
        options = {name for inner in actions.values() for name in inner._option_string_actions}
        hidden = {"--settings", "--pythonpath", "--traceback", "--no-color", "--force-color", "--skip-checks"}

        assert [name for name in actions if f"`{name}" not in page] == []
        assert {name for name in options - hidden if name.startswith("--") and name not in page} == {
            "--verbosity"
        }

    @pytest.mark.django_db
    def test_djangos_own_options_may_stand_after_the_action(self):
        assert jobs("status", "--no-color", "-v", "2").startswith("Jobs:")


def run_manage(*arguments: str, url: str = "postgresql://nobody@127.0.0.1:9/nothing"):
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"DATABASE_URL": url, "PATH": "/usr/bin:/bin"},
        check=False,
    )
