"""How Sphinx builds the documentation: `tox -e docs`. Generated parts are written by `generate.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from django_jobs import __version__

project = "django_jobs"
author = "django_jobs contributors"
copyright = f"2026, {author}"  # noqa: A001  Sphinx's name
version = release = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {release}"
