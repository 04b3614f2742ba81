"""
Settings of the project. PROJECT_NAME names its database, PROJECT_LAYOUT how many there are:

one: all in `default`. Two: a second alias of our backend keeps its jobs in the database `second`. Replica:
models are read from `replica`, a session of the same database that refuses to write. Moving: beside the
queues of docs/how-to/migrate.md.
"""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

from tests import settings as tests_settings

LAYOUT = os.environ["PROJECT_LAYOUT"]
NAME = os.environ["PROJECT_NAME"]
BACKEND = "django_jobs.backend.JobsBackend"

SECRET_KEY = "project-only"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_jobs",
    "tests.contract.project.library",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = tests_settings.TEMPLATES
ROOT_URLCONF = "tests.contract.project.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = os.environ.get("PROJECT_AUTO_FIELD", "django.db.models.BigAutoField")
USE_TZ = True
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {
        name: {"handlers": ["console"], "level": "DEBUG", "propagate": False}
        for name in ("django.tasks", "django_tasks")
    },
}

DATABASES: dict[str, Any] = deepcopy(tests_settings.DATABASES)
DATABASES["default"] |= {"NAME": NAME, "TEST": {"NAME": f"{NAME}_test"}}
TASKS: dict[str, Any] = {"default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"]}}
if LAYOUT == "two":
    DATABASES["second"] = DATABASES["default"] | {
        "NAME": f"{NAME}_second",
        "TEST": {"NAME": f"{NAME}_test_second"},
    }
    TASKS["second"] = {"BACKEND": BACKEND, "QUEUES": ["reports"], "OPTIONS": {"database": "second"}}
if LAYOUT == "replica":
    options: Any = DATABASES["default"].get("OPTIONS", {})
    replica: dict[str, Any] = {
        "OPTIONS": {**options, "options": "-c default_transaction_read_only=on"},
        "TEST": {"MIRROR": "default"},
    }
    DATABASES["replica"] = DATABASES["default"] | replica
    DATABASE_ROUTERS = ["tests.contract.project.routers.ReadsFromReplica"]
if LAYOUT == "moving":
    INSTALLED_APPS += ["django_tasks_db", "django_q"]
    TASKS["old"] = {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": []}
    Q_CLUSTER = {"orm": "default"}
