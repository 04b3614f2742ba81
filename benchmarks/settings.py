"""
Settings of the processes that are measured: django_jobs and one module of tasks, as a small project has it.

The parent process (`benchmarks.run`) keeps the server alive and names the database in BENCHMARK_URL;
BENCHMARK_NOTIFY=0 switches notifications off, BENCHMARK_KEEP_CONNECTIONS=1 leaves connections of slots open.
"""

from __future__ import annotations

import os

from example_project import database

SECRET_KEY = "benchmarks-only"
INSTALLED_APPS = ["django.contrib.contenttypes", "django_jobs", "benchmarks"]
DATABASES = {"default": database.from_url(os.environ["BENCHMARK_URL"])}
if os.environ.get("BENCHMARK_KEEP_CONNECTIONS"):
    DATABASES["default"]["CONN_MAX_AGE"] = None
USE_TZ = True
DJANGO_JOBS = {"notify": os.environ.get("BENCHMARK_NOTIFY") != "0"}
# Django logs each task at INFO; like every peer that is measured, this project asks for warnings only.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {"django.tasks": {"level": "WARNING"}, "django_tasks": {"level": "WARNING"}},
}
