"""
What was found: figures with their units, and how they are printed and kept.

Each repetition gives one value to each figure; a table shows the median with the smallest and the largest.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psycopg

JOBS_PER_SECOND = "jobs/s"
MILLISECONDS = "ms"
RATIO = "×"

SERVER_SETTINGS = (
    "server_version",
    "shared_buffers",
    "max_wal_size",
    "max_connections",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "autovacuum",
)


@dataclass(frozen=True, slots=True)
class Found:
    """One value of one figure."""

    name: str
    unit: str
    value: float


@dataclass
class Figures:
    """All values of all figures, by group and name, in the order in which they were first found."""

    machine: dict[str, Any] = field(default_factory=dict)
    values: dict[str, dict[tuple[str, str], list[float]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a group has no figures."""

    def add(self, group: str, found: Found) -> None:
        self.values.setdefault(group, {}).setdefault((found.name, found.unit), []).append(found.value)

    def as_json(self) -> str:
        """Return everything, with each figure's unit, median and all values."""
        groups = {
            group: {
                name: {"unit": unit, "median": median(values), "values": values}
                for (name, unit), values in figures.items()
            }
            for group, figures in self.values.items()
        }
        return json.dumps({"machine": self.machine, "figures": groups, "skipped": self.skipped}, indent=2)

    def as_text(self) -> str:
        """Return the table that is printed."""
        lines = [self.heading(), ""]
        for group, figures in self.values.items():
            lines.append(group)
            lines += [f"  {name:62} {summary(values)} {unit}" for (name, unit), values in figures.items()]
        lines += [f"{group}: left out, {why}" for group, why in self.skipped.items()]
        return "\n".join(lines)

    def as_markdown(self) -> str:
        """Return the tables as docs/performance.md has them."""
        parts = [self.heading()]
        for group, figures in self.values.items():
            lines = [f"| {group} | median (smallest–largest) |", "| --- | --- |"]
            lines += [f"| {name}, {unit} | {summary(values)} |" for (name, unit), values in figures.items()]
            parts.append("\n".join(lines))
        return "\n\n".join(parts)

    def heading(self) -> str:
        machine = self.machine
        return (
            f"{machine['cores']} cores, Python {machine['python']}, Django {machine['django']}, "
            f"psycopg {machine['psycopg']}, PostgreSQL {machine['server']['server_version']}; "
            f"median (smallest–largest) of {machine['options']['runs']}"
        )


def machine(connection: psycopg.Connection[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return what the figures were found on and with."""
    import django

    import django_jobs
    from django_jobs import conf

    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)", [list(SERVER_SETTINGS)]
    ).fetchall()
    settings = conf.current()
    return {
        "platform": platform.platform(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "load before": os.getloadavg()[0],
        "python": platform.python_version(),
        "django": django.get_version(),
        "django_jobs": django_jobs.__version__,
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "orjson": has_orjson(),
        "server": dict(sorted(rows)),
        "settings": {"threads": settings.threads, "async_slots": settings.async_slots},
        "options": options,
    }


def processor() -> str:
    """Return the processor's name, where the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def has_orjson() -> bool:
    from importlib.util import find_spec

    return find_spec("orjson") is not None


def summary(values: Sequence[float]) -> str:
    """Return the median with the smallest and the largest."""
    middle = median(values)
    digits = 0 if abs(middle) >= 100 else 1 if abs(middle) >= 10 else 2 if abs(middle) >= 1 else 3
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile, also of a few values."""
    if len(values) < 2:
        return values[0]
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def percentiles(name: str, values: Sequence[float], percents: Sequence[int] = (50, 95, 99)) -> list[Found]:
    """Return a figure for each percentile of some milliseconds."""
    return [Found(f"{name} p{percent}", MILLISECONDS, percentile(values, percent)) for percent in percents]
