"""The shop as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "example_project.shop"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Print shop"

    def ready(self) -> None:
        """Connect the signals."""
        from example_project.shop import signals  # noqa: F401  importing it connects
