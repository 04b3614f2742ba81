"""
Settings of the example project with a plain module of tasks in place of the shop.

For what a worker process weighs: the shop's own tasks import an image library, a mailer and more.
"""

from __future__ import annotations

import os

from example_project import database
from example_project.settings import *  # noqa: F403  (all of its settings, but for those below)
from example_project.settings import INSTALLED_APPS as EXAMPLE_APPS

DEBUG = False  # as in production: with DEBUG on, Django keeps the last 9,000 statements of each connection
INSTALLED_APPS = [app for app in EXAMPLE_APPS if app != "example_project.shop"] + ["benchmarks"]
DATABASES = {"default": database.from_url(os.environ["BENCHMARK_URL"])}
