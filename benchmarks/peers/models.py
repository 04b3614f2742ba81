"""The table that the job with one query reads."""

from __future__ import annotations

from django.db import models

ROWS = 100


class Thing(models.Model):
    """A row of the project; the runner makes the table, as not every queue has Django's migrations."""

    name = models.TextField()

    class Meta:
        managed = False
        db_table = "benchmark_thing"

    def __str__(self) -> str:
        return self.name


def look_up(number: int) -> str:
    """Read the row for this job, the one ORM query of a body."""
    return Thing.objects.get(pk=number % ROWS + 1).name


async def look_up_async(number: int) -> str:
    """Read the row for this job, from a coroutine."""
    return (await Thing.objects.aget(pk=number % ROWS + 1)).name
