"""Jobs about an object: how they are enqueued, found, told in the body, and cancelled with it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, models, transaction
from django.db.models.signals import post_delete
from django.test.utils import CaptureQueriesContext, isolate_apps
from django.utils import timezone

from django_jobs import JobContext, enqueue_on_commit, task
from django_jobs.about import cancel_jobs_on_delete, model_of, object_of, watched
from django_jobs.framework import InvalidTask
from django_jobs.models import Job, Overview, Queue, Stat
from django_jobs.operations import Operations
from django_jobs.signals import job_cancelled
from django_jobs.testing import run_due
from example_project.shop.models import Order, Paper, Partner, Payment, Size
from tests import jobs
from tests.rows import row

pytestmark = pytest.mark.django_db

seen: list[Any] = []


@task
def print_photo(photo: int) -> None:
    """Take no `about`."""


@task
def write_letter(about: str) -> None:
    """Take an `about` of its own."""
    seen.append(about)


@task(takes_context=True)
def look(context: JobContext) -> None:
    seen.append((context.about, context.get_about()))


@task(takes_context=True)
async def alook(context: JobContext) -> None:
    seen.append((context.about, await context.aget_about()))


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


@pytest.fixture
def order():
    return Order.objects.create(name="Ada", email="ada@example.com", price_cents=290)


@pytest.fixture
def partner():
    return Partner.objects.create(name="Ada", url="https://example.com")


@pytest.fixture
def cancels():
    """Have `cancel_jobs_on_delete` forget what it was told in a test."""
    told: list[type[models.Model]] = []

    def cancel(model):
        told.append(model)
        return cancel_jobs_on_delete(model)

    yield cancel
    for model in told:
        watched.discard(model._meta.concrete_model)
    for sender in [*told, Overview, *seen]:
        with suppress(TypeError):
            post_delete.disconnect(sender=sender, dispatch_uid="django_jobs.about")


class TestEnqueueing:
    def test_with_using_names_the_object_in_meta(self, order):
        print_photo.using(about=order, meta={"by": "ada"}).enqueue(1)

        job = Job.objects.get()
        assert job.about == f"shop.order/{order.pk}"
        assert job.meta == {"by": "ada", "about": job.about}
        assert job.kwargs == {}

    def test_an_argument_that_the_task_does_not_take_is_the_object(self, order):
        result = print_photo.enqueue(1, about=order)

        job = Job.objects.get()
        assert (job.args, job.kwargs, job.about) == ([1], {}, f"shop.order/{order.pk}")
        assert result.task == print_photo.using(about=order)
        assert print_photo.get_result(result.id).task == result.task

    def test_an_argument_that_the_task_does_take_stays_its_own(self, order):
        write_letter.enqueue(about="sails")
        write_letter.using(about=order).enqueue(about="sails")

        plain, about = Job.objects.order_by("pk")
        assert (plain.kwargs, plain.about) == ({"about": "sails"}, None)
        assert (about.kwargs, about.about) == ({"about": "sails"}, f"shop.order/{order.pk}")

    def test_many_are_about_one_object_or_each_about_its_own(self, order):
        other = Order.objects.create(name="Bo", email="bo@example.com", price_cents=1)
        print_photo.using(about=order).enqueue_many([(1,), (2,)])
        print_photo.enqueue_many([{"photo": 3, "about": order}, {"photo": 4, "about": other}, (5,)])

        assert [job.args or job.kwargs for job in Job.objects.about(order).order_by("pk")] == [
            [1],
            [2],
            {"photo": 3},
        ]
        assert [job.kwargs for job in Job.objects.about(other)] == [{"photo": 4}]

    def test_on_commit_keeps_it(self, order, django_capture_on_commit_callbacks):
        with django_capture_on_commit_callbacks(execute=True):
            enqueue_on_commit(print_photo, 1, about=order)

        assert Job.objects.get().about == f"shop.order/{order.pk}"

    def test_none_is_no_object(self):
        print_photo.using(about=None).enqueue(1)
        print_photo.enqueue(2, about=None)

        assert {job.about for job in Job.objects.all()} == {None}

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            (lambda: Order(name="Ada"), "must be saved first, but this shop.Order"),
            (lambda: Session(session_key="given"), "must be saved first"),
            (lambda: 17, "must be a saved object of a model, not 17"),
            (lambda: Order, "must be a saved object of a model"),
            (lambda: "shop.order/17", "must be a saved object of a model"),
        ],
        ids=["unsaved", "unsaved with a key", "number", "model", "text"],
    )
    def test_what_is_no_saved_object_is_refused_before_any_sql(self, wrong, says):
        about = wrong()
        for enqueue in (
            lambda: print_photo.using(about=about),
            lambda: print_photo.enqueue(1, about=about),
            lambda: print_photo.enqueue_many([(1,), {"photo": 2, "about": about}]),
        ):
            with CaptureQueriesContext(connection) as captured, pytest.raises(InvalidTask, match=says):
                enqueue()
            assert not captured.captured_queries

    def test_an_object_of_another_database_is_refused_unless_a_router_allows_it(self, order, settings):
        order._state.db = "elsewhere"
        with pytest.raises(InvalidTask, match="from the database 'elsewhere', but"):
            print_photo.enqueue(1, about=order)

        settings.DATABASE_ROUTERS = [Friendly()]
        print_photo.enqueue(1, about=order)
        assert Job.objects.get().about == f"shop.order/{order.pk}"

    def test_a_key_that_no_index_could_hold_is_refused(self):
        queue = Queue(name="q" * 400)
        queue._state.adding, queue._state.db = False, "default"

        with pytest.raises(InvalidTask, match=r"in 300 characters, but django_jobs\.queue/qqq"):
            print_photo.using(about=queue)

    def test_is_no_option_of_the_decorator(self):
        with pytest.raises(TypeError, match=r"task.using\(about=…\)"):
            task(about=1)  # type: ignore[call-overload]


def test_backends_for_tests_take_it_too(order, settings):
    settings.TASKS = {"default": {"BACKEND": "django_jobs.testing.DummyBackend"}}
    for result in (print_photo.enqueue(1, about=order), print_photo.using(about=order).enqueue(1)):
        assert getattr(result.task, "meta", None) == {"about": f"shop.order/{order.pk}"}
    assert not Job.objects.exists()


class Friendly:
    """A router that lets everything belong together."""

    def allow_relation(self, *objects: Any, **hints: Any) -> bool:
        return True


class TestFinding:
    def test_takes_the_object_or_its_name(self, order):
        print_photo.using(about=order).enqueue(1)
        print_photo.enqueue(2)

        [found] = Job.objects.about(order)
        assert found.args == [1]
        assert list(Job.objects.about(f"shop.order/{order.pk}")) == [found]
        assert not Job.objects.about("shop.order/0").exists()

    def test_is_done_by_the_index_in_the_order_of_ids(self, order):
        print_photo.enqueue_many((number,) for number in range(2000))
        print_photo.using(about=order).enqueue(1)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE django_jobs_job")

        plan = Job.objects.about(order).order_by("-pk")[:10].explain()

        assert "Index Scan Backward using django_jobs_about" in plan
        assert "Sort" not in plan

    def test_keys_of_any_kind_lead_back_to_their_object(self):
        paper = Paper.objects.get(size=Size.POSTER)
        user = User.objects.create(username="ada")

        for instance in (paper, user):
            print_photo.using(about=instance).enqueue(1)
            job = Job.objects.about(instance).get()
            assert object_of(job.about) == instance

    @pytest.mark.parametrize(
        "key", [None, "", "shop", "shop.order", "shop.order/x", "shop.gone/1", "a.b.c/1", "shop.order/0", "/"]
    )
    def test_a_name_that_leads_nowhere_is_no_object(self, key):
        assert object_of(key) is None

    def test_strangers_may_have_written_anything(self):
        metas: list[Any] = [[], {"about": 7}, {"about": None}, "about"]
        for meta in metas:
            job = row(meta=meta)
            assert job.about is None
            assert model_of(job.about) is None

    def test_a_copy_is_about_the_same(self, order):
        result = print_photo.enqueue(1, about=order)
        copy = Operations().copy(int(result.id))

        assert set(Job.objects.about(order).values_list("pk", flat=True)) == {int(result.id), copy}


class TestInTheBody:
    @pytest.mark.parametrize("looking", [look, alook], ids=["sync", "async"])
    def test_the_context_tells_it(self, looking, order):
        looking.using(about=order).enqueue()
        looking.enqueue()
        run_due(raise_errors=True)

        assert seen == [(f"shop.order/{order.pk}", order), (None, None)]

    def test_one_that_is_gone_is_none(self, order):
        key = f"shop.order/{order.pk}"
        look.using(about=order).enqueue()
        Order.objects.filter(pk=order.pk)._raw_delete("default")  # which tells no receiver
        run_due(raise_errors=True)

        assert seen == [(key, None)]


class TestDeletion:
    def test_leaves_jobs_alone_that_nobody_asked_to_cancel(self, partner):
        print_photo.enqueue(1, about=partner)
        partner.delete()

        assert Job.objects.get().state == "READY"

    def test_cancels_what_waits_and_nothing_else(self, partner, cancels):
        assert cancels(Partner) is Partner
        about = {"about": f"shop.partner/{partner.pk}"}
        waiting = [row(meta=about), row("BLOCKED", meta=about)]
        others = [row("RUNNING", meta=about), row("SUCCESSFUL", meta=about), row(), row(meta={"about": "x"})]
        before = [job.state for job in others]

        partner.delete()

        for job in (*waiting, *others):
            job.refresh_from_db()
        assert {job.state for job in waiting} == {"CANCELLED"}
        assert {job.reason for job in waiting} == {"the object that it was about was deleted"}
        assert all(job.finished_at and job.expires_at for job in waiting)
        assert [job.state for job in others] == before

    def test_of_a_queryset_or_by_a_cascade_does_too(self, cancels):
        cancels(Payment)  # the shop has asked for it itself for orders
        orders = [Order.objects.create(name=name, email="a@b.c", price_cents=1) for name in "ab"]
        payment = Payment.objects.create(order=orders[0], amount_cents=1)
        for instance in (*orders, payment):
            print_photo.enqueue(1, about=instance)

        Order.objects.all().delete()

        assert list(Job.objects.values_list("state", flat=True)) == ["CANCELLED"] * 3

    def test_that_is_rolled_back_has_cancelled_nothing(self, partner, cancels):
        cancels(Partner)
        print_photo.enqueue(1, about=partner)

        with suppress(ZeroDivisionError), transaction.atomic():
            partner.delete()
            assert Job.objects.get().state == "CANCELLED"
            raise ZeroDivisionError

        assert Job.objects.get().state == "READY"

    def test_tells_receivers_once_it_is_committed(self, partner, cancels, django_capture_on_commit_callbacks):
        cancels(Partner)
        result = print_photo.enqueue(1, about=partner)
        told = []

        def receive(job_ids, **kwargs):
            told.extend(job_ids)

        job_cancelled.connect(receive)
        try:
            with django_capture_on_commit_callbacks(execute=True):
                partner.delete()
                assert not told
        finally:
            job_cancelled.disconnect(receive)
        assert told == [int(result.id)]

    def test_of_an_object_that_was_never_read_does_too(self, partner, cancels):
        cancels(Partner)
        print_photo.enqueue(1, about=partner)

        Partner(pk=partner.pk).delete()

        assert not Partner.objects.exists()
        assert Job.objects.get().state == "CANCELLED"

    def test_by_a_proxy_does_too_whichever_was_defined_first(self, cancels):
        cancels(Stat)
        with isolate_apps("django_jobs"):

            class Later(Stat):
                class Meta:
                    app_label = "django_jobs"
                    proxy = True

            seen.append(Later)  # to be disconnected
        for proxy in (Overview, Later):
            figures = Stat.objects.create(seconds=60, at=timezone.now(), task_path=proxy.__name__)
            print_photo.enqueue(1, about=figures)
            proxy.objects.get(pk=figures.pk).delete()

        assert set(Job.objects.values_list("state", flat=True)) == {"CANCELLED"}

    def test_of_many_costs_one_statement_for_each(self, cancels):
        cancels(Paper)
        with CaptureQueriesContext(connection) as captured:
            Paper.objects.all().delete()

        cancelling = [q for q in captured.captured_queries if "'CANCELLED'" in q["sql"]]
        assert len(cancelling) == len(Size)

    def test_elsewhere_cancels_after_the_commit(self, partner, cancels, settings, monkeypatch):
        cancels(Partner)
        print_photo.enqueue(1, about=partner)
        done = []
        monkeypatch.setattr(
            "django_jobs.about.transaction.on_commit", lambda act, using: done.append((act, using))
        )

        post_delete.send(sender=Partner, instance=partner, using="elsewhere", origin=partner)
        assert Job.objects.get().state == "READY"
        [(act, using)] = done
        act()

        assert using == "elsewhere"
        assert Job.objects.get().state == "CANCELLED"


@pytest.mark.parametrize("about", ["x" * 301, 17, ["shop.order/17"]])
def test_what_the_index_could_not_hold_is_refused_before_it_is_sent(about):
    with pytest.raises(InvalidTask, match="about in meta names an object"):
        print_photo.using(meta={"about": about})

    print_photo.using(meta={"about": "x" * 300}).enqueue(1)


def test_a_job_without_one_takes_the_same_statements_as_one_with(order):
    counts = []
    for options in ({}, {"about": order}):
        with CaptureQueriesContext(connection) as captured:
            print_photo.using(**options).enqueue(1)
            print_photo.using(**options).enqueue_many([(1,), (2,)])
        counts.append(len(captured))

    assert counts[0] == counts[1] <= 4
    assert jobs.ok.using(meta={}).meta == {}
