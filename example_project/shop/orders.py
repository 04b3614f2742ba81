"""Placing an order: its rows and its job in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from example_project.shop.models import PRICE_CENTS, Line, Order, Photo, Size
from example_project.shop.tasks import settle_order


def place(*, name: str, email: str, size: Size, copies: Mapping[Photo, int]) -> Order:
    """Write the order and enqueue its settlement: both are there, or neither."""
    with transaction.atomic():
        order = Order.objects.create(
            name=name, email=email, size=size, price_cents=PRICE_CENTS[size] * sum(copies.values())
        )
        Line.objects.bulk_create(
            Line(order=order, photo=photo, copies=count) for photo, count in copies.items()
        )
        settle_order.using(about=order, meta=order.meta).enqueue(order.pk)
    return order
