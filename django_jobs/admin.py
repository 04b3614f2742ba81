"""
The queue in Django's admin: `django.contrib.admin` finds this module and has the pages on its default site.

A project with an admin site of its own puts them there with `register(site)`.
"""

from __future__ import annotations

from django.contrib import admin

from django_jobs.dashboard.site import register

__all__ = ["register"]

register(admin.site)
