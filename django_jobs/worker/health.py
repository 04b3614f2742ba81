"""
The health file: its age tells a container's health check whether `runjobs` makes progress.

Renewed by the command, which looks every second whether its workers are well.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import monotonic

from django_jobs.telemetry import logger

RENEW_SECONDS = 3.0
"""Age at which the health file is written anew."""


class HealthFile:
    """A file whose age and content tell a container's health check whether the worker makes progress."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.written_at = 0.0

    def write(self, healthy: bool) -> None:
        """Renew the file, if all is well: what isn't renewed grows old."""
        if self.path is None or not healthy or monotonic() - self.written_at < RENEW_SECONDS:
            return
        self.written_at = monotonic()
        fresh = self.path.with_name(f"{self.path.name}.new")
        try:
            fresh.write_text(json.dumps({"pid": os.getpid(), "healthy": True}), encoding="ascii")
            fresh.replace(self.path)
        except OSError as error:
            logger.warning("the health file can't be written: %s", error)

    def remove(self) -> None:
        """Delete the file when the worker ends."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
