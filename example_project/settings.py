"""Settings of the example project. For development only: the secret key is no secret, DEBUG is on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import django

from example_project import database, embedded

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(os.environ.get("EXAMPLE_VAR", BASE_DIR / "var"))  # whatever is written at run time

SECRET_KEY = "example-project-only"
DEBUG = True
ALLOWED_HOSTS = ["*"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_jobs",
    "example_project.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Without DATABASE_URL: the server that comes with the `demo` extra, started with the first connection.
DATABASES = {
    "default": database.from_url(os.environ["DATABASE_URL"])
    if os.environ.get("DATABASE_URL")
    else database.from_server(embedded.example()),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
MEDIA_URL = "media/"
MEDIA_ROOT = VAR_DIR / "media"

# The world outside the shop. `manage.py demo` starts servers for all of it and sets these variables; without
# them, mail is printed by the worker, nothing is really printed, and prices are in euros only.
PRINTER_URL = os.environ.get("PRINTER_URL", "")
RATES_URL = os.environ.get("RATES_URL", "")
DEFAULT_FROM_EMAIL = "Print shop <orders@prints.example>"

smtp: dict[str, Any] = {
    "host": os.environ.get("SMTP_HOST", ""),
    "port": int(os.environ.get("SMTP_PORT", "25")),
    "timeout": 10,
}
mail_backend = f"django.core.mail.backends.{'smtp' if smtp['host'] else 'console'}.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": mail_backend, "OPTIONS": smtp if smtp["host"] else {}}}
else:
    EMAIL_BACKEND = mail_backend
    EMAIL_HOST, EMAIL_PORT, EMAIL_TIMEOUT = smtp.values()
