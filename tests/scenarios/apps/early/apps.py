from __future__ import annotations

import warnings

from django.apps import AppConfig
from django.db import connection


class EarlyConfig(AppConfig):
    name = "tests.scenarios.apps.early"

    def ready(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Django discourages it
            with connection.cursor() as cursor:
                cursor.execute("SET application_name = 'early'")
