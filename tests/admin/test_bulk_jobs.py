"""Actions on more jobs than a request should do: a job of its own works them off, and a page tells of it."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_jobs import working_off
from django_jobs.dashboard.bulk_asking import filters_of
from django_jobs.exceptions import Cancel, Snooze
from django_jobs.models import Attempt, BulkAction, Job, Queue
from django_jobs.operations import Operations
from django_jobs.store.matching import LABELS, look
from django_jobs.tasks import JobTask, registry
from django_jobs.working_off import PATH, ask_for, one_batch, stop, work_off
from tests.admin.conftest import JOBS, texts
from tests.admin.test_bulk import answer, choose
from tests.eventually import eventually
from tests.worker.workers import running

BULK = "/admin/django_jobs/bulkaction/"
AT_ONCE: Any = SimpleNamespace(is_cancelled=False)
CANCELLED: Any = SimpleNamespace(is_cancelled=True)

pytestmark = pytest.mark.django_db


@pytest.fixture
def few(monkeypatch):
    """Have a request do five jobs at the most."""
    for module in ("acting", "confirming", "bulk_asking"):
        monkeypatch.setattr(f"django_jobs.dashboard.{module}.MOST", 5)


@pytest.fixture
def make(make_job):
    """Create so many failed jobs, and return their ids."""

    def make(count, state="FAILED", **columns):
        return [make_job(state, **columns).pk for _ in range(count)]

    return make


def asked(action="retry", choice=None, user=None, per_second=10_000, **filters) -> BulkAction:
    if action == "retry":  # one part of a walk, where the test says nothing else
        filters.setdefault("labels", ["failed"])
    return ask_for(
        action, choice or {}, filters, alias="default", matching="x", per_second=per_second, total=7,
        is_estimate=False, user=user,
    )  # fmt: skip


def job_of(bulk: BulkAction) -> Job:
    assert bulk.job is not None
    return Job.objects.get(pk=bulk.job)


def states(ids=None) -> dict[str, int]:
    found: dict[str, int] = {}
    jobs = Job.objects.exclude(task_path=PATH)
    for state in (jobs if ids is None else jobs.filter(pk__in=ids)).values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found


class TestQuestion:
    def test_more_than_a_request_does_are_done_by_a_job(self, admin_client, make, few, monkeypatch):
        make(7)
        asked = choose(
            admin_client, "retry", [], f"{JOBS}?state=failed", select_across="1", _selected_action="0"
        )

        done = answer(admin_client, asked, f"{JOBS}?state=failed", attempts="one", per_second="50")

        bulk = BulkAction.objects.get()
        assert (bulk.action, bulk.choice, bulk.per_second) == ("retry", {"attempts": "one"}, 50)
        assert bulk.filters == {"labels": ["failed"]}
        assert (bulk.matching, bulk.asked_by) == ("state=failed", "admin")
        assert done.redirect_chain[-1][0] == f"{BULK}{bulk.pk}/change/"
        assert texts(done) == ["A job was enqueued that does it: here is how far it is."]
        assert states() == {"FAILED": 7}
        assert Job.objects.get(task_path=PATH).pk == bulk.job

    def test_it_says_how_many_by_an_estimate_and_that_a_job_does_it(
        self, admin_client, make, few, monkeypatch
    ):
        make(7)
        monkeypatch.setattr("django_jobs.dashboard.bulk_asking.estimated", lambda jobs: 123_456)

        page = choose(admin_client, "retry", [], select_across="1", _selected_action="0").content.decode()

        assert "and 123,446 more" in page
        assert "123,456 failed or cancelled jobs will wait in their queues again, due at once." in page
        assert "All in all about 123,456 jobs match, by the database’s estimate." in page
        assert "more than the 5 that are done at once: a job of its own does it" in page
        assert 'name="per_second" value="500"' in page
        assert 'name="how"' not in page

    def test_the_estimate_is_the_planners_and_scans_nothing(self, admin_client, make, few):
        make(30)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE django_jobs_job")
        address = f"{JOBS}?state=failed"

        with CaptureQueriesContext(connection) as captured:
            page = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")

        assert "All in all about 30 jobs match" in page.content.decode()
        [explain] = [query["sql"] for query in captured if "EXPLAIN" in query["sql"]]
        assert "ANALYZE" not in explain

    def test_the_page_that_asks_takes_so_many_statements_however_many_match(self, admin_client, make, few):
        counts = []
        for more in (6, 30):
            make(more)
            admin_client.get(f"{JOBS}retry-failed/")
            with CaptureQueriesContext(connection) as captured:
                admin_client.get(f"{JOBS}retry-failed/")
            counts.append(len(captured) - 2)

        # the list: depths, ended, choices, workers, exceptions, count; forecast; estimate; of the counts and
        # of the estimate a savepoint and a limit, both taken back, and twice those of the page; workers,
        # paused queues, who knows the task; examples
        assert counts == [8 + 2 * 4 + 2 * 4 + 3 + 1] * 2

    def test_few_are_done_at_once_and_without_a_choice(self, admin_client, make, few):
        make(3)

        page = choose(admin_client, "retry", [], select_across="1", _selected_action="0")

        assert 'name="per_second"' not in page.content.decode()
        assert texts(answer(admin_client, page)) == ["Retried 3 jobs."]
        assert not BulkAction.objects.exists()

    def test_many_are_offered_to_be_done_by_a_job(self, admin_client, make, few, monkeypatch):
        monkeypatch.setattr("django_jobs.dashboard.bulk_asking.LOGGED", 2)
        make(4)
        page = choose(admin_client, "delete", [], select_across="1", _selected_action="0")
        assert 'name="how"' in page.content.decode()

        answer(admin_client, page, how="job")

        bulk = BulkAction.objects.get()
        assert (bulk.action, bulk.total, bulk.is_estimate) == ("delete", 4, False)
        assert texts(answer(admin_client, page, how="now")) == ["Deleted 5 jobs."]  # its own job too

    def test_a_list_that_does_not_hold_all_offers_a_job_for_all(self, admin_client, make, monkeypatch):
        make(2, queue_name="mail")
        make(4)
        monkeypatch.setattr("django_jobs.dashboard.lists.REACH", 3)
        address = f"{JOBS}?queue=mail"

        page = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")
        answer(admin_client, page, address, how="job")

        work_off(AT_ONCE, BulkAction.objects.get().pk)
        assert states() == {"FAILED": 4, "READY": 2}

    def test_waiting_jobs_beyond_what_a_list_holds_are_done_by_a_job(self, admin_client, make, monkeypatch):
        for module in ("store.stats", "dashboard.bulk_asking"):
            monkeypatch.setattr(f"django_jobs.{module}.COUNTED", 3)
        make(5, "READY")
        address = f"{JOBS}?state=ready"

        page = choose(admin_client, "cancel", [], address, select_across="1", _selected_action="0")
        answer(admin_client, page, address, reason="no")

        work_off(AT_ONCE, BulkAction.objects.get().pk)
        assert states() == {"CANCELLED": 5}

    def test_all_failed_may_be_so_many_too(self, admin_client, make, few):
        make(7, queue_name="mail")
        make(2)

        admin_client.post(f"{JOBS}retry-failed/?queue=mail", {"confirmed": "yes"})

        work_off(AT_ONCE, BulkAction.objects.get().pk)
        assert states() == {"FAILED": 2, "READY": 7}

    def test_a_pace_that_is_none_is_refused(self, admin_client, make, few):
        make(7)
        page = choose(admin_client, "retry", [], select_across="1", _selected_action="0")

        again = answer(admin_client, page, per_second="0")

        assert "greater than or equal to 1" in again.content.decode()
        assert not BulkAction.objects.exists()

    def test_single_ids_are_done_as_far_as_a_request_goes(self, admin_client, make, few):
        address = f"{JOBS}?id__in={','.join(map(str, make(7)))}"

        page = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")
        done = answer(admin_client, page, address)

        assert "Do it again for the others." in texts(done)[0]
        assert not BulkAction.objects.exists()

    @pytest.mark.parametrize("query", ["value=order%3D7", "about=shop.order/7"])
    def test_by_a_value_or_an_object_the_number_goes_by_the_newest(self, admin_client, make, few, query):
        first = make(1)[0]
        make(9, kwargs={"order": 7}, meta={"about": "shop.order/7"})
        last = make(2)[-1]
        address = f"{JOBS}?{query}"

        page = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")

        about = round(6 * (last - first + 1) / (2 + 6))  # it looked at eight jobs, and six of these match
        assert f"All in all about {about} jobs match, if older ones do as often" in page.content.decode()

    def test_where_nothing_that_was_looked_at_matches_a_job_looks_on(self, admin_client, make, monkeypatch):
        ids = make(2, kwargs={"order": 7})
        make(4)
        monkeypatch.setattr("django_jobs.dashboard.lists.REACH", 3)
        address = f"{JOBS}?value=order%3D7"

        page = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")
        answer(admin_client, page, address)

        assert "Not all jobs can be looked through at once: a job of its own does it" in page.content.decode()
        work_off(AT_ONCE, BulkAction.objects.get().pk)
        assert states(ids) == {"READY": 2}
        assert states() == {"READY": 2, "FAILED": 4}

    def test_who_may_not_see_arguments_has_no_job_look_for_a_value(self, client_of, make, few, monkeypatch):
        make(7, kwargs={"order": 7})
        monkeypatch.setattr("django_jobs.dashboard.lists.REACH", 3)
        client = client_of("view_job", "retry_job")
        address = f"{JOBS}?value=order%3D7"

        page = choose(client, "retry", [], address, select_across="1", _selected_action="0")
        answer(client, page, address)

        assert not BulkAction.objects.exists()
        assert states() == {"FAILED": 7}

    def test_who_may_not_do_it_to_one_job_may_not_do_it_to_many(self, client_of, make, few):
        make(7)
        client = client_of("view_job", "cancel_job")
        data = {
            "action": "retry_jobs",
            "select_across": "1",
            "_selected_action": "0",
            "confirmed": "yes",
            "index": "0",
        }

        client.post(JOBS, data | {"how": "job"})
        client.post(f"{JOBS}retry-failed/", {"how": "job"})

        assert not BulkAction.objects.exists()


class TestFilters:
    """Each filter of the list means the same to the job."""

    @pytest.mark.parametrize(
        ("query", "columns"),
        [
            ("state=failed", {}),
            ("queue=mail", {"queue_name": "mail"}),
            ("task=a.b", {"task_path": "a.b"}),
            ("q=a.", {"task_path": "a.c"}),
            ("q=mail", {"queue_name": "mail"}),
            ("worker=77", {"worker": 77}),
            ("worker__exact=77", {"worker": 77}),
            ("level=high", {"priority": 5}),
            ("level=low", {"priority": -5}),
            ("tag=vip", {"meta": {"tags": ["vip", "x"]}}),
            ("about=shop.order/7", {"meta": {"about": "shop.order/7"}}),
            ("value=7", {"kwargs": {"order": 7}}),
            ("value=order%3D7", {"kwargs": {"order": 7}}),
            ("enqueued=1h", {}),
            ("finished=1h", {}),
        ],
    )
    def test_it_finds_what_the_list_finds(self, admin_client, make, few, query, columns):
        old = timezone.now() - timedelta(days=2)
        met = make(6, **columns)
        others: dict[str, Any] = {"priority": -1 if query == "level=high" else 0}
        if query.startswith("value"):
            others |= {"kwargs": {"customer": 77}}
        if query in ("enqueued=1h", "finished=1h"):
            others |= {"enqueued_at": old, "finished_at": old}
        if query == "state=failed":
            others |= {"state": "CANCELLED"}
        missed = [Job.objects.get(pk=pk) for pk in make(2)]
        for job in missed:
            Job.objects.filter(pk=job.pk).update(**others)
        address = f"{JOBS}?{query}"

        page = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")
        answer(admin_client, page, address)

        work_off(AT_ONCE, BulkAction.objects.get().pk)
        assert set(
            Job.objects.filter(state="READY").exclude(task_path=PATH).values_list("pk", flat=True)
        ) == set(met)

    @pytest.mark.parametrize("name", ["exception", "worker", "level", "enqueued", "finished"])
    def test_one_that_is_empty_and_means_none_is_not_taken_for_all(self, name):
        assert filters_of({name: ""}, "default") is None

    def test_of_two_that_must_both_be_met_neither_is_passed_over(self):
        assert filters_of({"worker": "1", "worker__exact": "2"}, "default") is None

    def test_a_masked_value_is_not_found(self, make):
        make(3, kwargs={"password": "k-1"})

        for value in ("k-1", "password=k-1"):
            work_off(AT_ONCE, asked(value=value).pk)

        assert states() == {"FAILED": 3}

    def test_jobs_about_an_object_are_met_by_their_index_a_page_at_a_time(self, make, monkeypatch):
        monkeypatch.setattr(working_off, "PAGE_ROWS", 2)
        ids = make(5, meta={"about": "shop.order/7"}) + make(2, "CANCELLED", meta={"about": "shop.order/7"})
        make(3, meta={"about": "shop.order/8"})

        work_off(AT_ONCE, asked(labels=["failed", "cancelled"], about="shop.order/7").pk)

        assert states(ids) == {"READY": 7}
        assert states() == {"READY": 7, "FAILED": 3}

    def test_an_exception_is_one_of_them(self, make):
        met, missed = make(2), make(2)
        for pk, name in zip([*met, *missed], ["a.B", "a.B", "a.C", "a.C"], strict=True):
            Attempt.objects.create(job_id=pk, number=1, exception_class=name, kind="ERROR", decision="FAILED")

        work_off(AT_ONCE, asked(exception="a.B").pk)

        assert states(met) == {"READY": 2}
        assert states(missed) == {"FAILED": 2}

    def test_a_filter_that_there_is_not_is_refused(self):
        with pytest.raises(TypeError):
            asked(where="1 = 1")


class TestWork:
    def test_each_action_takes_the_jobs_that_it_applies_to(self, make):
        ids = {
            state: make(2, state)
            for state in ("READY", "SCHEDULED", "FAILED", "CANCELLED", "SUCCESSFUL", "RUNNING")
        }

        for action in ("retry", "run", "cancel", "delete"):
            work_off(AT_ONCE, asked(action, {"reason": "no"}, labels=list(LABELS)).pk)

        # then eight waited, which were cancelled, and two asked to stop; all but these were deleted
        counts = {bulk.action: (bulk.done, bulk.skipped) for bulk in BulkAction.objects.all()}
        assert counts == {"retry": (4, 0), "run": (2, 0), "cancel": (10, 0), "delete": (10, 0)}
        assert list(Job.objects.exclude(task_path=PATH).values_list("pk", flat=True)) == ids["RUNNING"]
        assert Job.objects.filter(task_path=PATH).count() == 4

    def test_jobs_that_come_later_are_left(self, make):
        make(2)
        bulk = asked()
        old = timezone.now() - timedelta(days=1)
        later = make(2) + make(2, enqueued_at=old, finished_at=old)  # committed late, or copied

        work_off(AT_ONCE, bulk.pk)

        assert states(later) == {"FAILED": 4}
        assert BulkAction.objects.get().done == 2

    def test_a_job_that_fails_again_is_not_sent_round_again(self, make, monkeypatch):
        [job] = make(1)
        bulk = asked()
        Operations().retry([job])
        Job.objects.filter(pk=job).update(state="FAILED", finished_at=timezone.now())

        work_off(AT_ONCE, bulk.pk)

        assert states() == {"FAILED": 1}

    def test_a_batch_and_how_far_it_is_are_written_together(self, make, monkeypatch):
        make(25)
        bulk = asked(per_second=10)
        one_batch("default", bulk.pk, 5000)
        real, calls = Operations.retry, []

        def dies(self, ids, **options):
            calls.append(len(real(self, ids, **options)))
            raise KeyboardInterrupt

        monkeypatch.setattr(Operations, "retry", dies)
        with pytest.raises(KeyboardInterrupt):
            one_batch("default", bulk.pk, 5000)
        bulk.refresh_from_db()
        assert (calls, bulk.done, states()) == ([10], 10, {"READY": 10, "FAILED": 15})

        monkeypatch.setattr(Operations, "retry", real)
        for _ in range(2):
            one_batch("default", bulk.pk, 5000)
        bulk.refresh_from_db()
        assert (bulk.done, bulk.skipped, states()) == (25, 0, {"READY": 25})
        assert bulk.finished_at is not None

    def test_it_reads_a_bounded_number_of_rows_and_takes_so_many_statements_a_batch(self, make):
        make(30)
        bulk = asked(per_second=10)

        with CaptureQueriesContext(connection) as captured:
            one_batch("default", bulk.pk, 20)

        # the row, a page, the change, the row; in a transaction, here in savepoints
        assert len([query for query in captured if "SAVEPOINT" not in query["sql"]]) == 4
        bulk.refresh_from_db()
        assert bulk.done == 10

    def test_it_keeps_the_pace(self, make, monkeypatch):
        waits: list[float] = []
        monkeypatch.setattr(working_off, "Event", lambda: SimpleNamespace(wait=waits.append))
        make(25)

        work_off(AT_ONCE, asked(per_second=10).pk)

        assert [round(wait) for wait in waits] == [1, 1, 0][: len(waits)]
        assert sum(waits) > 1.5

    def test_after_a_while_it_ends_its_run_and_goes_on_in_the_next(self, make, monkeypatch):
        monkeypatch.setattr(working_off, "RUN_SECONDS", -1)
        make(5)
        bulk = asked(per_second=2)

        for _ in range(2):
            with pytest.raises(Snooze):
                work_off(AT_ONCE, bulk.pk)
        assert states() == {"READY": 4, "FAILED": 1}
        monkeypatch.undo()
        assert work_off(AT_ONCE, bulk.pk) == {"done": 5, "skipped": 0}

    def test_what_changed_since_is_counted_as_skipped(self, make, monkeypatch):
        ids = make(3)
        bulk = asked()
        real = look

        def look_and_lose(*arguments):
            found = real(*arguments)
            Operations().retry(ids[:1])
            return found

        monkeypatch.setattr(working_off, "look", look_and_lose)
        work_off(AT_ONCE, bulk.pk)

        bulk.refresh_from_db()
        assert (bulk.done, bulk.skipped) == (2, 1)

    def test_a_job_of_another_bulk_action_is_left(self, make):
        first = asked()

        work_off(AT_ONCE, asked("cancel").pk)

        assert job_of(first).state == "READY"

    def test_cancelling_its_job_ends_the_run_and_no_more(self, make):
        make(4)
        bulk = asked(per_second=2)

        with pytest.raises(Cancel):
            work_off(CANCELLED, bulk.pk)

        bulk.refresh_from_db()
        assert (bulk.done, bulk.finished_at) == (2, None)

    def test_old_ones_are_forgotten(self, make):
        old, new = asked(), asked()
        now = timezone.now()
        BulkAction.objects.filter(pk=old.pk).update(finished_at=now - timedelta(days=91))
        BulkAction.objects.filter(pk=new.pk).update(finished_at=now - timedelta(days=89))

        third = asked()

        assert {bulk.pk for bulk in BulkAction.objects.all()} == {new.pk, third.pk}


class TestQueueOfItsJob:
    @pytest.fixture(autouse=True)
    def knowing(self, make_worker):
        self.make_worker = lambda **columns: make_worker(tasks=[PATH], **columns)

    def queue(self):
        return job_of(asked()).queue_name

    def test_it_is_the_usual_one_where_a_worker_serves_that(self):
        self.make_worker(queues=None)

        assert self.queue() == "default"

    def test_otherwise_one_that_a_worker_serves_which_knows_the_task(self, make_worker):
        make_worker(queues=["old"], tasks=["a.b"])
        self.make_worker(queues=["silent"], silent=3600)
        self.make_worker(queues=["mail"])

        assert self.queue() == "mail"

    def test_a_paused_one_is_passed_over(self):
        Queue.objects.create(name="default", paused_at=timezone.now())
        self.make_worker(queues=["default", "mail"])

        assert self.queue() == "mail"

    def test_where_nobody_would_take_it_the_page_that_asks_says_so(self, admin_client, make, few):
        make(7)

        page = choose(admin_client, "retry", [], select_across="1", _selected_action="0").content.decode()

        assert "No live worker would take such a job now: it will wait in the queue “default”." in page
        self.make_worker(queues=None)
        page = choose(admin_client, "retry", [], select_across="1", _selected_action="0").content.decode()
        assert "No live worker would take" not in page


class TestPages:
    def test_the_page_tells_how_far_it_is(self, admin_client, make):
        make(30)
        bulk = asked(per_second=3)
        BulkAction.objects.update(total=12, is_estimate=True)
        one_batch("default", bulk.pk, 5000)

        answer = admin_client.get(f"{BULK}{bulk.pk}/change/")
        page = answer.content.decode()

        assert '<progress max="100" value="25" aria-label="Progress">' in page
        assert "3 done, 0 skipped, 12 expected. At its pace it takes another 3.0 s at the least." in page
        assert "about 12 (estimated)" in page
        assert 'data-dj-live="content-main"' in page
        [reason] = answer.context["reasons"]  # why nothing happens
        assert reason.key == "no-worker"
        assert reason.remedy in page

    def test_at_the_end_it_is_all(self, admin_client, make):
        make(3)
        bulk = asked()
        work_off(AT_ONCE, bulk.pk)

        page = admin_client.get(f"{BULK}{bulk.pk}/change/").content.decode()

        assert 'value="100"' in page
        assert "data-dj-live" not in page
        assert f"{BULK}stop/" not in page

    def test_the_list_has_the_latest_first(self, admin_client, make):
        first, second = asked(), asked("cancel")

        page = admin_client.get(BULK)

        assert [bulk.pk for bulk in page.context["cl"].result_list] == [second.pk, first.pk]
        assert "Cancel" in page.content.decode()

    def test_pages_take_so_many_statements_however_many_there_are(self, admin_client, make):
        counts = []
        for _ in range(2):
            for _ in range(5):
                bulk = asked()
            for page in (BULK, f"{BULK}{bulk.pk}/change/"):
                admin_client.get(page)
                with CaptureQueriesContext(connection) as captured:
                    admin_client.get(page)
                counts.append(len(captured) - 2)

        assert counts[:2] == counts[2:]
        assert counts[0] == 2 + 2 * 4  # count, rows; twice a savepoint and a limit, both taken back
        assert counts[1] <= 2 + 8 + 2 * 4  # the row, its job, and why that isn't running

    def test_stopping_ends_it_before_its_next_batch_and_cancels_its_job(self, admin_client, make):
        make(9)
        bulk = asked(per_second=3, user=User.objects.get(username="admin"))
        one_batch("default", bulk.pk, 5000)
        stop_page = f"{BULK}stop/{bulk.pk}/"
        assert stop_page in admin_client.get(f"{BULK}{bulk.pk}/change/").content.decode()
        assert "What is done stays done." in admin_client.get(stop_page).content.decode()

        done = admin_client.post(stop_page, {"confirmed": "yes"}, follow=True)

        assert texts(done) == ["Stopped it."]
        work_off(AT_ONCE, bulk.pk)
        assert states() == {"READY": 3, "FAILED": 6}
        bulk.refresh_from_db()
        assert bulk.stopped_by == "admin"
        assert job_of(bulk).state == "CANCELLED"
        assert LogEntry.objects.get().get_change_message() == "Stopped: 3 done, 0 skipped."
        again = admin_client.post(stop_page, {"confirmed": "yes"}, follow=True)
        assert texts(again) == ["Skipped: it was finished."]

    def test_one_whose_job_has_ended_before_its_time_can_go_on(self, admin_client, make):
        make(9)
        bulk = asked(per_second=3)
        one_batch("default", bulk.pk, 5000)
        change, go_on = f"{BULK}{bulk.pk}/change/", f"{BULK}go-on/{bulk.pk}/"
        assert go_on not in admin_client.get(change).content.decode()
        assert texts(admin_client.post(go_on, follow=True)) == ["Skipped: it is finished, or has a job."]
        job_of(bulk).cancel()

        page = admin_client.get(change).content.decode()
        assert go_on in page
        assert "Its job has ended before its time: cancelled." in page
        assert texts(admin_client.post(go_on, follow=True)) == ["A job was enqueued that goes on with it."]

        [entry] = LogEntry.objects.all()
        assert (entry.object_id, entry.user.username) == (str(bulk.pk), "admin")
        new = BulkAction.objects.get()
        assert new.job != bulk.job
        work_off(AT_ONCE, new.pk)
        assert states() == {"READY": 9}

    def test_stopping_takes_the_permission_of_the_action(self, client_of, make):
        bulk = asked("delete")
        others = client_of("view_job", "retry_job", "cancel_job", "run_job")

        for page in ("stop", "go-on"):
            assert f"{BULK}{page}/" not in others.get(f"{BULK}{bulk.pk}/change/").content.decode()
            assert others.post(f"{BULK}{page}/{bulk.pk}/", {"confirmed": "yes"}).status_code == 403
        assert client_of("view_worker").get(BULK).status_code == 403
        assert client_of("delete_job").post(f"{BULK}stop/{bulk.pk}/").status_code == 403
        assert BulkAction.objects.get().finished_at is None
        assert client_of("view_job", "delete_job").post(f"{BULK}stop/{bulk.pk}/").status_code == 302
        assert BulkAction.objects.get().finished_at is not None

    def test_the_log_tells_who_asked_and_what_came_of_it_in_their_language(self, admin_client, make, few):
        make(7)
        address = f"{JOBS}?state=failed"
        page = choose(admin_client, "retry", [], address, select_across="1", _selected_action="0")

        answer(admin_client, page, address)
        work_off(AT_ONCE, BulkAction.objects.get().pk)

        ended, begun = [entry.get_change_message() for entry in LogEntry.objects.order_by("-pk")]
        assert begun.startswith("Retried with all attempts anew. Asked for about ")
        assert begun.endswith(" jobs, by an estimate. Matching: state=failed.")
        assert ended == "Ended: 7 done, 0 skipped."
        assert {entry.user.username for entry in LogEntry.objects.all()} == {"admin"}

    def test_a_user_who_is_gone_leaves_no_entry_and_no_error(self, make):
        user = User.objects.create_user("gone")
        make(1)
        bulk = asked(user=user)
        user.delete()

        assert work_off(AT_ONCE, bulk.pk) == {"done": 1, "skipped": 0}
        assert not LogEntry.objects.exists()


def test_its_task_has_a_value_for_each_option_whatever_defaults_django_has():
    own: dict[str, JobTask] = {}
    working_off.register(own)

    [task] = own.values()
    assert MISSING not in [getattr(task, field.name) for field in fields(task)]
    assert (task.backend, task.run_after) == ("default", None)


@pytest.mark.django_db(transaction=True)
class TestWithAWorker:
    def test_a_worker_works_it_off_and_a_page_tells(self, admin_client, make, few, monkeypatch):
        working_off.register(registry)
        ids = make(40, queue_name="nobody")
        with running(queues=["default"]):
            page = choose(
                admin_client, "retry", [], f"{JOBS}?queue=nobody", select_across="1", _selected_action="0"
            )
            answer(admin_client, page, f"{JOBS}?queue=nobody", per_second="1000")
            eventually(lambda: BulkAction.objects.get().finished_at)

        bulk = BulkAction.objects.get()
        assert (bulk.done, bulk.skipped) == (40, 0)
        assert states(ids) == {"READY": 40}
        assert LogEntry.objects.count() == 2

    def test_a_stop_is_obeyed_while_it_runs(self, make):
        working_off.register(registry)
        make(500, queue_name="nobody")
        with running(queues=["default"]):
            bulk = asked(per_second=20, queues=["nobody"])
            eventually(lambda: BulkAction.objects.get().done)
            assert stop(bulk, by="ada")
            done = BulkAction.objects.get().done
            eventually(lambda: job_of(bulk).finished_at)

        assert BulkAction.objects.get().done == done < 500
