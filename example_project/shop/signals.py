"""A new photo gets a thumbnail, however it came in: by the page, the admin or a script."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from example_project.shop.models import Photo
from example_project.shop.tasks import make_thumbnail


@receiver(post_save, sender=Photo, dispatch_uid="shop.thumbnail")
def enqueue_thumbnail(instance: Photo, created: bool, raw: bool = False, **kwargs: Any) -> None:
    """Enqueue the thumbnail in the transaction that saves the photo; `raw` is a fixture being loaded."""
    if created and not raw:
        meta = {"photo": instance.pk, "title": instance.title}
        make_thumbnail.using(about=instance, meta=meta).enqueue(instance.pk)
