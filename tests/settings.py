"""
Settings of the tests: those of the example project on a server of the run's own.

The run's name is handed to children through the environment, so that xdist's workers and the processes that
tests start come to the same server. Its data goes when the last of them has ended.
"""

from __future__ import annotations

import os
import secrets

import django

from example_project import database, embedded
from example_project.settings import *  # noqa: F403  (all of its settings, but for those below)

DEBUG = False

if not os.environ.get("DATABASE_URL"):
    run = os.environ.setdefault("DJANGO_JOBS_TEST_RUN", secrets.token_hex(3))
    DATABASES = {"default": database.from_server(embedded.for_tests(run))}

# No page may need a script or a style that stands within it, or that comes from elsewhere.
if django.VERSION >= (6, 0):
    MIDDLEWARE = ["django.middleware.csp.ContentSecurityPolicyMiddleware", *MIDDLEWARE]  # noqa: F405
    SECURE_CSP = {
        "default-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
