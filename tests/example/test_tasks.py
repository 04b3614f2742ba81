"""What the shop's tasks do, called directly."""

from __future__ import annotations

import csv
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.core import mail
from django.utils import timezone
from PIL import Image

from django_jobs import Cancel, Fail, JobContext, Snooze
from django_jobs.models import Job
from example_project.shop import orders
from example_project.shop.models import Order, Paper, Partner, Payment, Size
from example_project.shop.outside import BadAnswer
from example_project.shop.tasks import (
    CorruptPhoto,
    make_thumbnail,
    nightly_report,
    print_order,
    send_receipt,
    settle_order,
    tell_partner,
)
from tests.example.conftest import picture

pytestmark = pytest.mark.django_db


@pytest.fixture
def order(photo, paper) -> Order:
    return orders.place(name="Ada", email="ada@customers.example", size=Size.POSTER, copies={photo: 2})


FIRST = JobContext(
    task_result=None,  # type: ignore[arg-type]  # no task here asks for it
    job_id=7,
    counted_attempt=1,
    deadline=None,
    cancel_asked=lambda: False,
)
"""The context of a first attempt."""


@pytest.fixture
def server():
    """An HTTP server that answers with `statuses` in turn, 200 from then on, and keeps what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listening.requests.append((self.path, dict(self.headers), body))
            self.answer(b"")

        def do_GET(self):
            listening.requests.append((self.path, dict(self.headers), b""))
            self.answer(listening.content)

        def answer(self, content):
            self.send_response(listening.statuses.pop(0) if listening.statuses else 200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    class Listening(ThreadingHTTPServer):
        statuses: list[int]
        requests: list[tuple[str, dict[str, str], bytes]]
        content: bytes

        @property
        def url(self) -> str:
            return f"http://127.0.0.1:{self.server_port}/"

    with Listening(("127.0.0.1", 0), Handler) as listening:
        listening.statuses, listening.requests, listening.content = [], [], b"{}"
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


class TestThumbnail:
    def test_it_is_a_small_jpeg_of_the_photo(self, add_photo, media):
        photo = add_photo(picture(1600, 800))

        name = make_thumbnail.call(photo.pk)

        photo.refresh_from_db()
        assert photo.thumbnail.name == name
        with Image.open(media / name) as image:
            assert (image.format, image.size) == ("JPEG", (480, 240))

    def test_a_second_run_overwrites_the_file_of_the_first(self, photo, media):
        assert make_thumbnail.call(photo.pk) == make_thumbnail.call(photo.pk)

        assert len(list((media / "thumbnails").iterdir())) == 1

    def test_a_file_that_is_cut_off_passes_the_upload_and_fails_for_good(self, client, add_photo):
        whole = picture()
        photo = add_photo(whole[: len(whole) // 2])

        with pytest.raises(CorruptPhoto):
            make_thumbnail.call(photo.pk)
        assert CorruptPhoto in make_thumbnail.fail_on

    def test_a_photo_that_was_deleted_needs_none(self):
        with pytest.raises(Cancel, match="deleted"):
            make_thumbnail.call(1)


class TestSettling:
    def test_it_takes_paper_and_money_and_enqueues_the_rest(self, order):
        Partner.objects.create(name="Frames", url="https://frames.example/hook")
        Partner.objects.create(name="Closed", url="https://closed.example/hook", is_active=False)
        Job.objects.all().delete()

        settle_order.call(order.pk)

        assert Paper.objects.get(size=Size.POSTER).sheets == 98
        assert Payment.objects.get(order=order).amount_cents == 1980
        assert Order.objects.get().state == "paid"
        jobs = Job.objects.order_by("pk")
        assert [job.task_path for job in jobs] == [
            send_receipt.module_path,
            print_order.module_path,
            tell_partner.module_path,
        ]
        about = f"shop.order/{order.pk}"
        assert all(job.meta == {"order": order.pk, "ordered_by": "Ada", "about": about} for job in jobs)

    def test_without_paper_it_waits_and_takes_nothing(self, order):
        Paper.objects.filter(size=Size.POSTER).update(sheets=1)

        with pytest.raises(Snooze, match="no 30 × 40 cm paper"):
            settle_order.call(order.pk)

        assert Paper.objects.get(size=Size.POSTER).sheets == 1
        assert not Payment.objects.exists()

    def test_its_writes_and_its_end_are_one_transaction(self):
        assert settle_order.transactional


class TestReceipt:
    def test_it_is_mailed_to_the_customer(self, order):
        send_receipt.call(order.pk)

        (message,) = mail.outbox
        assert message.to == ["ada@customers.example"]
        assert "2 × Cat, 30 × 40 cm" in message.body
        assert "19.80 €" in message.body
        assert Order.objects.get().receipt_mailed_at is not None

    def test_it_is_mailed_once_though_the_job_runs_twice(self, order):
        send_receipt.call(order.pk)
        send_receipt.call(order.pk)

        assert len(mail.outbox) == 1


# The async bodies use connections of their own threads, which see only what is committed.
@pytest.mark.django_db(transaction=True)
class TestPrinting:
    def test_the_printer_gets_each_photo_with_a_key(self, order, server, settings):
        settings.PRINTER_URL = server.url

        assert print_order.call(order.pk) == 2

        ((_, headers, body),) = server.requests
        assert headers["Idempotency-Key"] == f"order-{order.pk}-line-{order.lines.get().pk}"
        assert b'"copies": 2' in body
        assert Order.objects.get().state == "printed"

    def test_an_order_is_not_printed_when_the_printer_fails(self, order, server, settings):
        settings.PRINTER_URL = server.url
        server.statuses = [500]

        with pytest.raises(BadAnswer, match="HTTP 500"):
            print_order.call(order.pk)
        assert Order.objects.get().printed_at is None


@pytest.mark.django_db(transaction=True)
class TestWebhook:
    def test_a_partner_is_told_of_the_order(self, order, server):
        partner = Partner.objects.create(name="Frames", url=f"{server.url}hook?from=shop")

        tell_partner.call(FIRST, order.pk, partner.pk)

        ((path, headers, body),) = server.requests
        assert path == "/hook?from=shop"
        assert headers["X-Attempt"] == "1"
        assert b'"price_cents": 1980' in body

    def test_an_error_of_the_partner_is_an_error_of_the_job(self, order, server):
        partner = Partner.objects.create(name="Frames", url=server.url)
        server.statuses = [503]

        with pytest.raises(BadAnswer, match="HTTP 503 Service Unavailable"):
            tell_partner.call(FIRST, order.pk, partner.pk)

    def test_a_partner_who_is_gone_is_not_asked_again(self, order, server):
        partner = Partner.objects.create(name="Frames", url=server.url)
        server.statuses = [410]

        with pytest.raises(Fail, match="Frames is gone"):
            tell_partner.call(FIRST, order.pk, partner.pk)

    def test_nobody_listening_is_an_error_too(self, order):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        partner = Partner.objects.create(name="Frames", url=f"http://127.0.0.1:{port}/")

        with pytest.raises(ConnectionRefusedError):
            tell_partner.call(FIRST, order.pk, partner.pk)

    def test_a_partner_who_left_is_not_told(self, order):
        with pytest.raises(Cancel):
            tell_partner.call(FIRST, order.pk, 1)


class TestReport:
    def test_it_lists_the_paid_orders_in_all_currencies(self, order, server, settings, media):
        settings.RATES_URL = server.url
        server.content = b'{"USD": "1.25", "CHF": "0.95"}'
        settle_order.call(order.pk)

        found = nightly_report.call(FIRST, f"{timezone.now():%Y-%m-%d}")

        assert found["orders"] == 1
        with (media / found["file"]).open(newline="") as file:
            assert list(csv.reader(file)) == [
                ["order", "EUR", "CHF", "USD"],
                [str(order.pk), "19.80", "18.81", "24.75"],
            ]
        assert [file.suffix for file in (media / "reports").iterdir()] == [".csv"]

    def test_a_day_without_orders_has_an_empty_report(self, media):
        assert nightly_report.call(FIRST, "2001-01-01")["orders"] == 0
        assert (media / "reports" / "2001-01-01.csv").read_text().strip() == "order,EUR"
