"""
Settings of the `runjobs` processes that the scenarios start: only the queue and the scenarios' tasks.

SCENARIO_DATABASE names the database on the tests' server (a DATABASE_URL wins), SCENARIO_JOBS is JSON that
is added to `DJANGO_JOBS`.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta

from django.utils import timezone

from tests import settings as tests_settings

SECRET_KEY = "scenarios-only"
DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = [
    "django_jobs",
    "tests.scenarios",
    *filter(None, os.environ.get("SCENARIO_APPS", "").split(",")),
]

DATABASES = tests_settings.DATABASES
if os.environ.get("SCENARIO_DATABASE"):
    DATABASES["default"]["NAME"] = os.environ["SCENARIO_DATABASE"]
DATABASES["default"]["CONN_MAX_AGE"] = None
if os.environ.get("SCENARIO_PORT"):  # a proxy or a pooler on this machine; the server itself is `direct`
    DATABASES["direct"] = {**DATABASES["default"]}
    DATABASES["default"] |= {"HOST": "127.0.0.1", "PORT": os.environ["SCENARIO_PORT"]}
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True

if os.environ.get("SCENARIO_CLOCK"):  # seconds that this machine's clock is off
    off = float(os.environ["SCENARIO_CLOCK"])
    right, right_now = time.time, timezone.now
    time.time = lambda: right() + off
    timezone.now = lambda: right_now() + timedelta(seconds=off)

# Heartbeats every second, so that workers know of each other soon.
DJANGO_JOBS = {"heartbeat_seconds": 1, **json.loads(os.environ.get("SCENARIO_JOBS", "{}"))}
