"""The shop's pages, and that what they write and enqueue is one transaction."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from django.db import transaction

from django_jobs.models import Job
from example_project.shop import orders
from example_project.shop.models import Order, Photo, Size
from example_project.shop.tasks import make_thumbnail, settle_order
from tests.example.conftest import picture, upload

pytestmark = pytest.mark.django_db


def ordered(photo, **changes):
    """Return what the order form sends for three prints of `photo`."""
    return {
        "name": "Ada",
        "email": "ada@customers.example",
        "size": "10x15",
        f"copies_{photo.pk}": "3",
    } | changes


class TestPhotos:
    def test_an_uploaded_photo_is_stored_under_a_name_of_ours_and_shown(self, client, media):
        answer = client.post("/", {"title": "Cat", "image": upload(name="My Cat (1).JPG")}, follow=True)

        photo = Photo.objects.get()
        assert "Cat is uploaded." in answer.content.decode()
        assert re.fullmatch(r"photos/[0-9a-f]{32}\.jpg", str(photo.image.name))
        assert (media / str(photo.image.name)).read_bytes()

    def test_an_upload_enqueues_its_thumbnail(self, client):
        client.post("/", {"title": "Cat", "image": upload()})

        job, photo = Job.objects.get(), Photo.objects.get()
        assert (job.task_path, job.args) == (make_thumbnail.module_path, [photo.pk])
        assert job.meta == {"photo": photo.pk, "title": "Cat", "about": f"shop.photo/{photo.pk}"}

    def test_a_photo_that_is_saved_again_gets_no_second_thumbnail(self, photo):
        photo.title = "Dog"
        photo.save()

        assert Job.objects.count() == 1

    def test_a_photo_that_is_rolled_back_leaves_no_job(self):
        with suppress(ZeroDivisionError), transaction.atomic():
            Photo.objects.create(title="Cat", image=upload())
            assert Job.objects.count() == 1
            raise ZeroDivisionError

        assert not Job.objects.exists()
        assert not Photo.objects.exists()

    @pytest.mark.parametrize(
        ("content", "name", "complaint"),
        [
            (b"no image", "cat.jpg", "Upload a valid image"),
            (picture(), "cat.exe", "not allowed"),
            (picture(100, 480), "cat.jpg", "100 × 480 pixels are too few"),
            (picture(format="GIF"), "cat.gif", "GIF is not taken"),
        ],
    )
    def test_what_can_not_be_printed_is_refused_with_its_reason(self, client, content, name, complaint):
        answer = client.post("/", {"title": "Cat", "image": upload(content, name)})

        assert answer.status_code == 400
        assert complaint in answer.content.decode()
        assert not Photo.objects.exists()
        assert not Job.objects.exists()

    def test_a_file_that_is_too_large_is_refused(self, client, monkeypatch):
        monkeypatch.setattr("example_project.shop.forms.MAX_BYTES", 1024)

        assert "larger than" in client.post("/", {"title": "Cat", "image": upload()}).content.decode()

    def test_titles_are_escaped(self, client):
        client.post("/", {"title": "<script>x</script>", "image": upload()})

        assert "<script>" not in client.get("/").content.decode()


class TestOrders:
    def test_an_order_is_stored_with_its_lines_price_and_job(self, client, photo):
        answer = client.post("/order/", ordered(photo))

        order = Order.objects.get()
        assert answer["Location"] == f"/orders/{order.pk}/"
        assert [(line.photo, line.copies) for line in order.lines.all()] == [(photo, 3)]
        assert order.price_cents == 3 * 29
        job = Job.objects.get(task_path=settle_order.module_path)
        assert job.args == [order.pk]
        about = f"shop.order/{order.pk}"
        assert job.meta == {"order": order.pk, "ordered_by": "Ada", "about": about}

    def test_an_order_that_is_rolled_back_leaves_no_job(self, photo):
        before = Job.objects.count()

        with suppress(ZeroDivisionError), transaction.atomic():
            orders.place(name="Ada", email="ada@customers.example", size=Size.SMALL, copies={photo: 1})
            assert Job.objects.count() == before + 1
            raise ZeroDivisionError

        assert Job.objects.count() == before
        assert not Order.objects.exists()

    def test_an_order_whose_job_can_not_be_enqueued_is_not_stored(self, client, photo, monkeypatch):
        def refuse(*args, **kwargs):
            raise ZeroDivisionError

        monkeypatch.setattr("django_jobs.backend.enqueue_one", refuse)

        with pytest.raises(ZeroDivisionError):
            client.post("/order/", ordered(photo))
        assert not Order.objects.exists()

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"email": "ada"}, "valid email"),
            ({"name": ""}, "required"),
            ({"size": "1x1"}, "valid choice"),
            ({"copies": "0"}, "Choose at least one print"),
            ({"copies": "-1"}, "greater than or equal to 0"),
            ({"copies": "100"}, "less than or equal to 99"),
        ],
    )
    def test_an_order_that_makes_no_sense_is_refused_with_its_reason(self, client, photo, changes, complaint):
        if "copies" in changes:
            changes = {f"copies_{photo.pk}": changes["copies"]}

        answer = client.post("/order/", ordered(photo, **changes))

        assert answer.status_code == 400
        assert complaint in answer.content.decode()
        assert not Order.objects.exists()

    def test_without_photos_the_order_page_says_what_to_do_first(self, client):
        assert "Upload a photo first" in client.get("/order/").content.decode()

    def test_the_list_shows_each_order_with_its_state(self, client, photo, django_assert_num_queries):
        for name in ("Ada", "Ben"):
            orders.place(name=name, email="x@customers.example", size=Size.SMALL, copies={photo: 2})
        Order.objects.filter(name="Ben").update(printed_at="2025-01-01T00:00Z")

        with django_assert_num_queries(2):
            page = client.get("/orders/").content.decode()

        assert page.index("Ben") < page.index("Ada")
        assert page.count("2 × 10 × 15 cm") == 2
        assert page.count(">printed<") == page.count(">placed<") == 1

    def test_the_page_of_an_order_shows_how_far_it_is(self, client, photo):
        order = orders.place(name="Ada", email="ada@customers.example", size=Size.POSTER, copies={photo: 2})

        page = client.get(f"/orders/{order.pk}/").content.decode()

        assert "19.80 €" in page
        assert page.count("not yet") == 3  # paid, mailed, printed
        assert client.get(f"/orders/{order.pk + 1}/").status_code == 404


@pytest.mark.parametrize("address", ["/", "/order/", "/orders/"])
def test_pages_have_no_inline_script_or_style(client, photo, address):
    page = client.get(address).content.decode()

    assert "<script" not in page
    assert "style=" not in page
    assert "<style" not in page
