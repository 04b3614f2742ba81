"""What one worker process is to do: read from the command line or given by whoever embeds a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The choices for one worker. `None` means what the settings say."""

    queues: tuple[str, ...] | None = None
    """Queues to serve; `None` for all, also those that appear later."""

    excluded_queues: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    """How many jobs of a queue may be in this worker's hands at once."""

    threads: int | None = None
    async_slots: int | None = None
    poll_seconds: float | None = None
    listen: bool | None = None
    database: str | None = None
    name: str = ""
    """Shown in the admin; by default made of host and process."""

    max_jobs: int | None = None
    """Stop after so many jobs."""

    max_memory_bytes: int | None = None
    """Stop once the process is larger than this."""

    drain: bool = False
    """Stop when nothing is due and no retry is waiting."""

    dead_for_certain: tuple[int, ...] = ()
    """Ids of workers whose process is known to have died."""

    supervisor: str = ""
    """Key that all processes of one supervisor share."""

    supervisor_pid: int | None = None
    recyclable: bool = False
    """Whether someone starts another process when this one ends, so that it may end to get rid of stuck
    threads."""
