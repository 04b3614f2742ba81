"""
The board: which jobs have begun in this process, for whoever finds it dead.

A worker claims short jobs a little ahead. Those that hadn't begun when its process died needn't cost an
attempt, but the database can't tell which they were: a statement for each begin would cost more than many a
body. So each process keeps the ids of jobs that have begun and whose outcome isn't stored in a file that is
mapped into its memory. The file outlives the process, and a rescuer on the same machine reads it.

Whatever a rescuer can't be sure of has begun: there is no file on another machine, and none is believed
while a process, which may only have been stopped, holds its lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import stat
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Lock

from django_jobs.telemetry import logger

PLACES = 4096
"""Jobs that fit: many more than a process has in its hands."""

SIZE = 8 * (PLACES + 1)
"""Bytes: one number for each place, after one that isn't 0 once the places didn't suffice."""

OLD_SECONDS = 86_400
"""Age after which the file of a dead process is removed that nobody on this machine buried."""


class Board:
    """The ids of jobs that have begun here and whose outcome isn't stored. Used from several threads."""

    def __init__(self) -> None:
        self.memory: bytearray | mmap.mmap = bytearray(SIZE)
        self.numbers = memoryview(self.memory).cast("q")
        """The same, by place."""
        self.free = list(range(1, PLACES + 1))
        self.places: dict[int, int] = {}
        """Where the job of an id stands."""
        self.lock = Lock()
        self.path: Path | None = None
        self.descriptor = -1

    def begin(self, job_id: int) -> None:
        """Enter a job, before its body begins."""
        with self.lock:
            place = self.places[job_id] = self.free.pop() if self.free else 0
            self.numbers[place] = job_id

    def forget(self, job_ids: Iterable[int]) -> None:
        """Strike out jobs: their outcome is stored, or no longer ours to store."""
        with self.lock:
            for job_id in job_ids:
                if place := self.places.pop(job_id, 0):
                    self.numbers[place] = 0
                    self.free.append(place)

    def move_to(self, memory: bytearray | mmap.mmap) -> None:
        """Go on in other memory, which holds the same."""
        self.numbers.release()
        self.memory, self.numbers = memory, memoryview(memory).cast("q")

    def publish(self, path: Path) -> None:
        """Have the board outlive this process, in a file. Where none can be made, all counts as begun."""
        self.close()
        sweep(path.parent)
        try:
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self.path = path
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self.descriptor, SIZE)
            with self.lock:
                shared = mmap.mmap(self.descriptor, SIZE)
                shared[:] = bytes(self.memory)
                self.move_to(shared)
        except OSError as error:
            logger.debug("no board of begun jobs in %s: %s", path, error)
            self.close()

    def close(self) -> None:
        """Remove the file; the board stays."""
        with self.lock:
            if isinstance(self.memory, mmap.mmap):
                shared = self.memory
                self.move_to(bytearray(shared))
                shared.close()
            if self.path is not None:
                self.path.unlink(missing_ok=True)
                self.path = None
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1


def path_of(database: str, worker: int, started_at: datetime) -> Path:
    """Return where the board of a worker is, if it is on this machine."""
    name = hashlib.sha256(f"{database}|{worker}|{started_at.timestamp():.6f}".encode()).hexdigest()[:32]
    return Path(tempfile.gettempdir(), f"django_jobs-{name}.board")


def begun(path: Path) -> frozenset[int] | None:
    """
    Return the jobs that had begun in a dead process and whose outcome it hadn't stored.

    `None` when that can't be known: there is no such file of ours, or its process holds it still.
    """
    with suppress(OSError), locked(path) as descriptor:
        found = os.read(descriptor, SIZE)
        if len(found) == SIZE:
            full, *ids = struct.unpack(f"{PLACES + 1}q", found)
            return None if full else frozenset(ids) - {0}
    return None


def remove(path: Path) -> None:
    """Remove the board of a dead process, if there is one here."""
    with suppress(OSError), locked(path):
        path.unlink()


def sweep(folder: Path) -> None:
    """Remove old boards of processes that died and were buried on other machines."""
    for path in folder.glob("django_jobs-*.board"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > OLD_SECONDS:
                remove(path)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Open a file of ours that no process holds. Raises OSError when one does, or it isn't ours."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise PermissionError(f"{path} isn't a file of this user.")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)
