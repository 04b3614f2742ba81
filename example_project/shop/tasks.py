"""
The shop's work: thumbnails, settlement, receipts, printing, webhooks, and a nightly report.

A job runs again when its worker dies or it fails, so each body can stand to be run twice: it overwrites a
file, writes in the job's own transaction, or sends a key by which the receiver knows what it has already.
"""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from smtplib import SMTPException
from typing import Any
from urllib.request import Request, urlopen

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.utils import timezone
from PIL import Image, ImageOps

from django_jobs import Cancel, Exponential, Fail, JobContext, JobTimeout, Snooze, task
from example_project.shop.models import Order, Paper, Partner, Payment, Photo
from example_project.shop.outside import BadAnswer, post

logger = logging.getLogger(__name__)

SOON = Exponential(base=timedelta(seconds=0.4), factor=2, cap=timedelta(seconds=5))
"""Short, so that nobody has to wait for the demo. A shop would leave the default, which starts at 10 s."""

LOOK_FOR_PAPER = timedelta(seconds=1)
"""How often to look whether paper has come in."""

THUMBNAIL_PIXELS = (480, 480)


class CorruptPhoto(Exception):
    """A photo's file can't be read to its end; another attempt would find the same file."""


@task(queue_name="images", fail_on=(CorruptPhoto,), timeout=timedelta(seconds=30))
def make_thumbnail(photo_id: int) -> str:
    """Write the small picture that pages show, and return its name."""
    photo = Photo.objects.filter(pk=photo_id).first()
    if photo is None:
        raise Cancel("the photo was deleted")
    with photo.image.open("rb") as file:
        content = small_picture(file.read())
    name = f"thumbnails/{photo.pk}.jpg"
    storage = photo.thumbnail.storage
    storage.delete(name)  # of an earlier run
    name = storage.save(name, ContentFile(content))
    Photo.objects.filter(pk=photo.pk).update(thumbnail=name)
    return name


def small_picture(content: bytes) -> bytes:
    """Return an image as a small JPEG, upright. Raises CorruptPhoto."""
    written = BytesIO()
    try:
        with Image.open(BytesIO(content)) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
            upright.thumbnail(THUMBNAIL_PIXELS)
            upright.save(written, "JPEG", quality=85)
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for broken files
        raise CorruptPhoto(str(error)) from error
    return written.getvalue()


@task(queue_name="orders", priority=10, transactional=True, backoff=SOON)
def settle_order(order_id: int) -> None:
    """
    Take the paper and the money, and enqueue what follows from it.

    All of it, and that this job is done, is committed together: no crash leaves paper taken twice, a
    payment without its receipt, or a job that would do it again.
    """
    order = Order.objects.select_for_update().get(pk=order_id)
    sheets = sum(order.lines.values_list("copies", flat=True))
    paper = Paper.objects.select_for_update().filter(size=order.size).first()
    if paper is None or paper.sheets < sheets:
        raise Snooze(LOOK_FOR_PAPER, f"no {order.get_size_display()} paper")
    paper.sheets -= sheets
    paper.save(update_fields=["sheets"])
    Payment.objects.create(order=order, amount_cents=order.price_cents)
    order.settled_at = timezone.now()
    order.save(update_fields=["settled_at"])

    send_receipt.using(about=order, meta=order.meta).enqueue(order.pk)
    print_order.using(about=order, meta=order.meta).enqueue(order.pk)
    partners = Partner.objects.filter(is_active=True).values_list("pk", flat=True)
    telling = tell_partner.using(about=order, meta=order.meta)
    telling.enqueue_many((order.pk, partner) for partner in partners)


@task(
    queue_name="mail",
    backoff=SOON,
    retry_on=(SMTPException, OSError),
    timeout=timedelta(seconds=30),
)
def send_receipt(order_id: int) -> None:
    """Mail the customer what was paid."""
    order = Order.objects.prefetch_related("lines__photo").get(pk=order_id)
    if order.receipt_mailed_at is not None:
        return
    EmailMessage(
        subject=f"Your receipt for order {order.pk}",
        body=render_to_string("shop/receipt.txt", {"order": order}),
        to=[order.email],
        headers={"Message-ID": f"<order-{order.pk}@prints.example>"},
    ).send()
    Order.objects.filter(pk=order.pk).update(receipt_mailed_at=timezone.now())


@task(queue_name="printing", backoff=SOON, timeout=timedelta(minutes=5), capture=True)
async def print_order(order_id: int) -> int:
    """Have the printer print each photo, wait until it has, and return the number of sheets."""
    order = await Order.objects.aget(pk=order_id)
    sheets = 0
    async for line in order.lines.select_related("photo").order_by("pk"):
        if settings.PRINTER_URL:
            await post(
                settings.PRINTER_URL,
                {"file": line.photo.image.name, "size": order.size, "copies": line.copies},
                # A second run sends the same key, and the printer doesn't print it again.
                headers={"Idempotency-Key": f"order-{order.pk}-line-{line.pk}"},
            )
        else:
            logger.warning(
                "PRINTER_URL is not set, so %s of order %s is only said to be printed", line, order
            )
        sheets += line.copies
    await Order.objects.filter(pk=order.pk).aupdate(printed_at=timezone.now())
    return sheets


@task(queue_name="webhooks", backoff=SOON, max_attempts=4, timeout=timedelta(seconds=10), takes_context=True)
async def tell_partner(context: JobContext, order_id: int, partner_id: int) -> None:
    """Tell a partner of a paid order. One who answers 410 Gone will never want to hear of it."""
    order = await Order.objects.aget(pk=order_id)
    partner = await Partner.objects.filter(pk=partner_id, is_active=True).afirst()
    if partner is None:
        raise Cancel("the partner wants no more webhooks")
    try:
        await post(
            partner.url,
            {"order": order.pk, "size": order.size, "price_cents": order.price_cents},
            headers={"Idempotency-Key": f"order-{order.pk}", "X-Attempt": str(context.attempt)},
        )
    except BadAnswer as error:
        if error.status == 410:
            raise Fail(f"{partner} is gone") from error
        raise


@task(backoff=SOON, timeout=timedelta(seconds=2), takes_context=True, capture=True)
def nightly_report(context: JobContext, day: str) -> dict[str, Any]:
    """
    Write the day's paid orders as CSV, with prices in other currencies; return the file and its length.

    The job's timeout is what guards it: the server with the rates now and then sends its answer byte by
    byte, in time for each timeout of the socket, and so for ever.
    """
    path = Path(settings.MEDIA_ROOT, "reports", f"{date.fromisoformat(day)}.csv")
    try:
        rates = exchange_rates(f"job-{context.job_id}")
    except JobTimeout:
        logger.warning("the exchange rates did not arrive in time, so %s is not written yet", path.name)
        raise
    payments = Payment.objects.filter(made_at__date=day).order_by("pk")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, orders = path.with_suffix(f".{context.job_id}.part"), 0
    try:
        with unfinished.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["order", "EUR", *rates])
            for payment in payments.iterator():
                euros = Decimal(payment.amount_cents).scaleb(-2)
                others = [round(euros * rate, 2) for rate in rates.values()]
                rows.writerow([payment.order_id, euros, *others])
                orders += 1
        unfinished.replace(path)  # whole, or not there
    finally:
        unfinished.unlink(missing_ok=True)
    return {"file": str(path.relative_to(settings.MEDIA_ROOT)), "orders": orders}


def exchange_rates(request_id: str) -> Mapping[str, Decimal]:
    """Return what a euro is worth in other currencies, by their codes."""
    if not settings.RATES_URL:
        return {}
    request = Request(settings.RATES_URL, headers={"X-Request-Id": request_id})
    with urlopen(request, timeout=5) as answer:
        found: dict[str, str] = json.load(answer)
    return {code: Decimal(rate) for code, rate in sorted(found.items())}
