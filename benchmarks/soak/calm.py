"""One worker that is left alone and runs as many jobs as it can: does anything grow?"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.soak import tasks
from tests.eventually import eventually
from tests.scenarios.harness import Processes

BATCH = 4000


@dataclass
class Sizes:
    """What a worker process has."""

    memory_mb: float
    threads: int
    files: int
    sessions: int
    zombies: int


def sizes(pid: int, connection: psycopg.Connection[tuple[int]]) -> Sizes:
    """Look at the process, and at its sessions on the server."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    ).fetchone()
    stats = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")]
    return Sizes(
        memory_mb=int(status["VmRSS"].split()[0]) / 1024,
        threads=int(status["Threads"]),
        files=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        sessions=0 if row is None else row[0] - 1,  # one is the load's
        zombies=sum(state == "Z" and int(parent) == pid for state, parent, *_ in stats),
    )


def run_calm(url: str, folder: Path, seconds: float) -> int:
    """Run the worker, compare, and return the exit status."""
    starter = Processes(folder, {"DATABASE_URL": url})
    worker = starter("--threads", "4", variables={"PYTHONWARNINGS": "default"})
    first: Sizes | None = None
    enqueued = 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TRIGGER soak_note ON django_jobs_job")
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            row = connection.execute("SELECT count(*) FROM django_jobs_job WHERE state = 'READY'").fetchone()
            if row is not None and row[0] < 2 * BATCH:
                tasks.nothing.enqueue_many((number,) for number in range(BATCH))
                tasks.nothing_async.enqueue_many((number,) for number in range(BATCH // 4))
                enqueued += BATCH + BATCH // 4
            else:
                time.sleep(0.05)
            if first is None and time.monotonic() - began > seconds / 4:
                first = sizes(worker.pid, connection)
                print(f"after a quarter, {enqueued} jobs: {first}", flush=True)
        eventually(lambda: connection.execute("SELECT count(*) FROM django_jobs_job").fetchone() == (0,), 120)
        last = sizes(worker.pid, connection)
    print(f"at the end, {enqueued} jobs:      {last}")
    worker.tell(signal.SIGTERM)
    status = worker.ends(30)
    starter.close()
    assert first is not None
    grown = [
        name
        for name in ("threads", "files", "sessions", "zombies")
        if getattr(last, name) > getattr(first, name)
    ]
    if last.memory_mb > 1.1 * first.memory_mb:
        grown.append("memory")
    print(f"{enqueued} jobs through one worker; grown: {', '.join(grown) or 'nothing'}; exit status {status}")
    return 1 if grown or status else 0
