"""What the shop knows: photos, orders of prints and their payments, paper in stock, partners to tell."""

from __future__ import annotations

from typing import Any

from django.core.validators import MinValueValidator
from django.db import models

from django_jobs.about import cancel_jobs_on_delete


class Size(models.TextChoices):
    """The sizes of paper that the shop prints on."""

    SMALL = "10x15", "10 × 15 cm"
    MEDIUM = "13x18", "13 × 18 cm"
    POSTER = "30x40", "30 × 40 cm"


PRICE_CENTS = {Size.SMALL: 29, Size.MEDIUM: 49, Size.POSTER: 990}
"""Price of one print, in euro cents."""


class Photo(models.Model):
    """An uploaded photo. Saving a new one enqueues its thumbnail: see `signals`."""

    title = models.CharField(max_length=80)
    image = models.ImageField(upload_to="photos/")
    thumbnail = models.ImageField(upload_to="thumbnails/", blank=True)
    uploaded_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.title


class Paper(models.Model):
    """Sheets of one size in stock."""

    size = models.CharField(max_length=8, choices=Size, primary_key=True)
    sheets = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name_plural = "paper"

    def __str__(self) -> str:
        return self.get_size_display()


@cancel_jobs_on_delete
class Order(models.Model):
    """Prints that someone ordered. The times tell how far it has got. Its waiting jobs go with it."""

    name = models.CharField(max_length=80)
    email = models.EmailField()
    size = models.CharField(max_length=8, choices=Size, default=Size.SMALL)
    price_cents = models.PositiveIntegerField()
    placed_at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    receipt_mailed_at = models.DateTimeField(null=True, blank=True)
    printed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"order {self.pk}"

    @property
    def state(self) -> str:
        """How far the order has got, in one word."""
        if self.printed_at:
            return "printed"
        return "paid" if self.settled_at else "placed"

    @property
    def price(self) -> str:
        return f"{self.price_cents / 100:.2f} €"

    @property
    def meta(self) -> dict[str, Any]:
        """What each job of this order carries along, to be found by in the admin."""
        return {"order": self.pk, "ordered_by": self.name}


class Line(models.Model):
    """Some prints of one photo."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    photo = models.ForeignKey(Photo, models.PROTECT, related_name="+")
    copies = models.PositiveSmallIntegerField(validators=[MinValueValidator(1)])

    def __str__(self) -> str:
        return f"{self.copies} × {self.photo}"


class Payment(models.Model):
    """The payment of an order; there can be only one."""

    order = models.OneToOneField(Order, models.CASCADE)
    amount_cents = models.PositiveIntegerField()
    made_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"payment of {self.order}"


class Partner(models.Model):
    """Someone who wants to hear of each paid order, by a webhook."""

    name = models.CharField(max_length=80, unique=True)
    url = models.URLField()
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
