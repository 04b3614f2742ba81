"""How much is measured, as the command line says it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of jobs, processes and seconds."""

    runs: int = 3
    """Repetitions of everything."""
    jobs: int = 20_000
    """Jobs of a drain; other measurements take a share of it."""
    bulk: tuple[int, ...] = (10_000, 100_000)
    """Jobs of one `enqueue_many`."""
    seconds: float = 5.0
    """Length of what is measured for a time."""
    idle_seconds: float = 60.0
    """How long an idle worker is watched."""
    processes: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Worker processes on one database."""
    clients: tuple[int, ...] = (1, 8, 32)
    """Processes that enqueue at once."""
    listeners: int = 50
    """Workers that listen at once."""
    minutes: float = 1.0
    """How long the queue works with and without a transaction held open."""
    finished: int = 10_000_000
    """Rows of the backlog of finished jobs."""
    scheduled: int = 2_000_000
    """Jobs scheduled ahead."""
    waiting: int = 2_000_000
    """Jobs that wait."""
    queues: int = 50
    """Queues that jobs wait in."""

    def as_options(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


QUICK = Sizes(
    runs=1,
    jobs=2_000,
    bulk=(1_000, 10_000),
    seconds=1.0,
    idle_seconds=10.0,
    processes=(1, 2),
    clients=(1, 4),
    listeners=4,
    minutes=0.1,
    finished=100_000,
    scheduled=20_000,
    waiting=20_000,
    queues=10,
)
"""For a first look: figures of such a run say little."""
