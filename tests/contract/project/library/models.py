"""Books."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Book(models.Model):
    title = models.CharField(max_length=100)
    objects: ClassVar[models.Manager[Book]] = models.Manager()

    def __str__(self) -> str:
        return self.title
