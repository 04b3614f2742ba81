"""The app's configuration: what Django must know, and what is hooked up once the apps are ready."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DjangoJobsConfig(AppConfig):
    name = "django_jobs"
    label = "django_jobs"
    verbose_name = _("Jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_jobs import checks
        from django_jobs.framework import IN_CORE

        checks.register()
        if not IN_CORE:  # there an app of its own registers it, which projects needn't install
            import django_tasks.checks  # noqa: F401
