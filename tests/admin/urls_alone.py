"""A project whose only admin site is its own."""

from __future__ import annotations

from django.urls import path

from tests.admin.urls import ops

urlpatterns = [path("ops/", ops.urls)]
