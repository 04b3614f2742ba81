"""How many jobs were enqueued: counted by their ids, about once a minute, by one worker of all."""

from __future__ import annotations

import threading
from datetime import timedelta
from math import gcd

import pytest
from django.db import connection, connections, transaction
from django.db.models import F
from django.utils import timezone

from django_jobs.models import Intake, Job, Stat
from django_jobs.store import statistics
from django_jobs.store.statistics import Tally
from tests.rows import row

pytestmark = pytest.mark.django_db


def count(**tallies):
    """Do what a worker does once a minute."""
    with connection.cursor() as cursor:
        cursor.execute(*statistics.add({(queue, "t"): tally for queue, tally in tallies.items()}))


def later(seconds=60):
    """Let time pass, as far as counting knows."""
    Intake.objects.update(at=F("at") - timedelta(seconds=seconds))


def intake(seconds=60) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for stat in Stat.objects.filter(seconds=seconds, enqueued__gt=0):
        key = (stat.queue_name, stat.task_path)
        found[key] = found.get(key, 0) + stat.enqueued
    return found


def enqueued(number, **columns):
    now = timezone.now()
    row_of = {"queue_name": "mail", "task_path": "a.b", "enqueued_at": now, "run_after": now}
    Job.objects.bulk_create(Job(**row_of | columns) for _ in range(number))


def test_what_was_there_before_the_first_count_is_not_counted():
    enqueued(3)
    for _ in range(3):
        count()
        later()

    assert intake() == {}


def test_new_jobs_are_counted_by_queue_and_task_once():
    count()
    enqueued(3)
    enqueued(2, queue_name="web")
    enqueued(1, queue_name="web", task_path="c.d", state="RUNNING", worker=1)
    for _ in range(4):
        later()
        count()

    assert intake() == {("mail", "a.b"): 3, ("web", "a.b"): 2, ("web", "c.d"): 1}
    assert intake(3600) == intake()


def test_they_stand_in_the_minute_and_hour_in_which_they_were_enqueued():
    count()
    now = timezone.now()
    for ago in (
        timedelta(0),
        timedelta(minutes=7),
        timedelta(hours=2, minutes=59),
        timedelta(hours=3, minutes=1),
    ):
        enqueued(1, enqueued_at=now - ago)
    for _ in range(2):
        later()
        count()

    minutes = sorted(Stat.objects.filter(seconds=60, enqueued=1).values_list("at", flat=True))
    assert [round((now - at).total_seconds() // 60) for at in minutes] == [179, 7, 0]
    assert sum(stat.enqueued for stat in Stat.objects.filter(seconds=3600)) == 3


def test_a_minute_is_counted_only_once_it_has_passed_by_whoever_comes_first():
    count()
    later()
    enqueued(2)
    for _ in range(5):  # as many workers
        count()
    assert intake() == {}

    later()
    for _ in range(5):
        count()
    assert intake() == {("mail", "a.b"): 2}


def test_what_ended_and_what_is_new_are_added_to_the_same_row():
    count()
    enqueued(2, queue_name="mail", task_path="t")
    later()
    count(mail=Tally(completed=5))
    later()
    count(mail=Tally(completed=7), web=Tally(failed=1))

    assert [(s.completed, s.enqueued) for s in Stat.objects.filter(seconds=3600, queue_name="mail")] == [
        (12, 2)
    ]
    assert sum(s.completed for s in Stat.objects.filter(seconds=60, queue_name="mail")) == 12
    assert Stat.objects.get(seconds=60, queue_name="web").failed == 1


def test_of_very_many_a_sample_is_looked_up(monkeypatch):
    monkeypatch.setattr(statistics, "LOOKS", 500)
    count()
    for _ in range(60):  # by turns, which a fixed step would mistake
        enqueued(50, queue_name="mail")
        enqueued(50, queue_name="web")
    later()
    count()
    later()
    count()

    found = intake()
    assert sum(found.values()) == pytest.approx(6000, rel=0.02)
    assert found["mail", "a.b"] == pytest.approx(3000, rel=0.15)
    assert gcd(*found.values()) >= 12


def test_ids_that_were_rolled_back_or_whose_jobs_are_gone_are_not_counted():
    count()
    with transaction.atomic():
        enqueued(5)
        transaction.set_rollback(True)
    enqueued(3)
    gone = Job.objects.first()
    assert gone is not None
    gone.delete()
    for _ in range(2):
        later()
        count()

    assert intake() == {("mail", "a.b"): 2}


def test_beyond_so_many_kinds_they_are_counted_without_a_name(monkeypatch):
    monkeypatch.setattr(statistics, "MOST_KINDS", 2)
    count()
    for number, queue in enumerate("abcd", 1):
        enqueued(number, queue_name=queue)
    for _ in range(2):
        later()
        count()

    assert intake() == {("d", "a.b"): 4, ("c", "a.b"): 3, ("", ""): 3}


def test_it_looks_no_further_than_the_new_ids():
    enqueued(300)
    count()
    later()
    enqueued(5)
    count()
    later()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off")
        cursor.execute(
            "SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off"
        )  # as a worker's session
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statistics.ADD}", statistics.add({})[1])
        [[[plan]]] = cursor.fetchall()

    looks = [node for node in nodes(plan["Plan"]) if node.get("Index Name") == "django_jobs_job_pkey"]
    assert sum(node["Actual Loops"] for node in looks) <= 5 + 3  # the ids, and the ends
    assert not [node for node in nodes(plan["Plan"]) if node["Node Type"] == "Seq Scan"
                and node["Relation Name"] == "django_jobs_job"]  # fmt: skip


def nodes(plan):
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


@pytest.mark.django_db(transaction=True)
class TestTwoAtOnce:
    def test_count_a_minute_once(self):
        count()
        later()
        enqueued(4)
        count()
        later()
        go = threading.Barrier(4)

        def work():
            go.wait()
            count()
            connections.close_all()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert intake() == {("mail", "a.b"): 4}

    def test_a_transaction_that_is_up_to_a_minute_late_is_counted(self):
        count()
        late = connections["default"].copy()
        late.set_autocommit(False)
        job = row()
        with late.cursor() as cursor:
            cursor.execute(
                "INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt,"
                " uncounted, meta, enqueued_at, run_after) SELECT 'late', 'a.b', args, kwargs, priority,"
                " state, attempt, uncounted, meta, now(), now() FROM django_jobs_job WHERE id = %s",
                [job.pk],
            )
        job.delete()
        enqueued(1)
        later()
        count()
        late.commit()
        late.close()
        later()
        count()

        assert intake() == {("late", "a.b"): 1, ("mail", "a.b"): 1}


def test_a_strangers_highest_id_there_can_be_stops_no_count():
    count()
    enqueued(1)
    row(id=2**63 - 1)  # which a stranger may write
    later()
    count()
    enqueued(1)
    later()
    count()

    [found] = Intake.objects.all()
    assert found.counted_to == 2**63 - 1
