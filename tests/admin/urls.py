"""Two admin sites at once: Django's own, and one of the project."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.models import User
from django.urls import path

from django_jobs.admin import register

ops = admin.AdminSite(name="ops")
register(ops)
ops.register(User)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("ops/", ops.urls),
]
