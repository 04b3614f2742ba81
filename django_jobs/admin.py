"""
The queue in Django's admin: `django.contrib.admin` finds this module and has the pages on its default site.

A project with an admin site of its own puts them there with `register(site)`. Its own models' pages show the
jobs about an object with `JobsAboutMixin`.
"""

from __future__ import annotations

from django.contrib import admin

from django_jobs.dashboard.about import JobsAboutMixin
from django_jobs.dashboard.site import register

__all__ = ["JobsAboutMixin", "register"]

register(admin.site)
