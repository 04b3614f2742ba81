"""
Settings of every process that uses Django here, in whichever environment, django_jobs' own included.

Connections stay open between jobs, as several of the queues advise. The catalogue adds the queue's app and
settings.
"""

from __future__ import annotations

import json
import os

from benchmarks.settings import DATABASES, LOGGING, SECRET_KEY, USE_TZ

__all__ = ["DATABASES", "INSTALLED_APPS", "LOGGING", "SECRET_KEY", "USE_TZ"]

given = json.loads(os.environ["PEERS_SETTINGS"])

INSTALLED_APPS = ["django.contrib.contenttypes", *given.pop("APPS"), "benchmarks.peers"]
DATABASES["default"]["CONN_MAX_AGE"] = None
globals().update(given)
