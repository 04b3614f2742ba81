"""
Who is measured, and how each is set up: as its own docs recommend, at its defaults with about ten slots.

A contender that is `tuned` takes a hundred jobs at a time, or has a hundred slots; only its drains are
measured. `pace` is about how many no-op jobs a second it drained on two cores with one and with two
processes: it decides how many jobs a drain has, so that each takes a few seconds, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Command = tuple[str, ...]
DJANGO = ("-m", "django")
POSTGRESQL = ("django>=6", "psycopg[binary]")
PGQUEUER = "import uvloop; from benchmarks.peers.pgqueuer import work; uvloop.run(work({batch_size}))"
CHANCY = "import uvloop; from benchmarks.peers.chancy import work; uvloop.run(work())"
SYNC_TASKS = "benchmarks.peers.framework"
"""The module of all queues that are backends of Django's Tasks framework and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contender:
    """One queue with one way to run it."""

    name: str
    package: str
    """The distribution whose version the report names."""
    how: str
    """How it is run, for the table of settings."""
    module: str
    requirements: tuple[str, ...]
    """What pip installs; nothing for django_jobs, which is this checkout in this environment."""
    workers: Callable[[int], list[Command]]
    """Python's arguments for each command of so many worker processes; `{url}` stands for the database."""
    pace: tuple[int, int]
    apps: tuple[str, ...] | None = None
    """Django apps of the queue, or None where its processes don't use Django."""
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    redis: bool = False
    tuned: bool = False
    drains_only: bool = False

    @property
    def identifier(self) -> str:
        """The name as part of a database's name or a folder's."""
        return "".join(letter if letter.isalnum() else "_" for letter in self.name.lower())


def each(*command: str) -> Callable[[int], list[Command]]:
    """Return how to run a worker whose processes are commands of their own."""
    return lambda processes: [command] * processes


def backend(path: str, **more: Any) -> dict[str, Any]:
    """Return the setting that makes `path` the backend of Django's Tasks framework."""
    return {"TASKS": {"default": {"BACKEND": path, "QUEUES": [], **more}}}


OURS = Contender(
    name="django_jobs",
    package="django-pg-jobs",
    how="`runjobs`, 10 threads (its default), sync jobs",
    module="benchmarks.peers.ours",
    requirements=(),
    workers=each(*DJANGO, "runjobs", "--verbosity", "0"),
    pace=(6000, 8000),
    apps=("django_jobs",),
)

CONTENDERS: tuple[Contender, ...] = (
    Contender(
        name="procrastinate",
        package="procrastinate",
        how="Django integration, `procrastinate worker --concurrency 10`, async jobs",
        module="benchmarks.peers.procrastinate",
        requirements=("procrastinate[django]", *POSTGRESQL),
        workers=each(*DJANGO, "procrastinate", "worker", "--concurrency", "10"),
        pace=(210, 290),
        apps=("procrastinate.contrib.django",),
    ),
    Contender(
        name="pgqueuer",
        package="pgqueuer",
        how="asyncpg, uvloop, `run()` with its batches of 10 and no limit of concurrency (its defaults)",
        module="benchmarks.peers.pgqueuer",
        requirements=("pgqueuer[asyncpg]", "uvloop"),
        workers=each("-c", PGQUEUER.format(batch_size=10)),
        pace=(1700, 2900),
    ),
    Contender(
        name="pgqueuer, tuned",
        package="pgqueuer",
        how="the same with `batch_size=100`",
        module="benchmarks.peers.pgqueuer",
        requirements=("pgqueuer[asyncpg]", "uvloop"),
        workers=each("-c", PGQUEUER.format(batch_size=100)),
        pace=(5600, 9700),
        tuned=True,
        drains_only=True,
    ),
    Contender(
        name="chancy",
        package="chancy",
        how="`Worker` on uvloop, a queue with AsyncExecutor, concurrency 10, `eager_polling` on",
        module="benchmarks.peers.chancy",
        requirements=("chancy", "uvloop", "psycopg[binary]"),
        workers=each("-c", CHANCY),
        pace=(850, 1500),
        environment={"PEERS_SLOTS": "10"},
    ),
    Contender(
        name="chancy, tuned",
        package="chancy",
        how="the same with concurrency 100",
        module="benchmarks.peers.chancy",
        requirements=("chancy", "uvloop", "psycopg[binary]"),
        workers=each("-c", CHANCY),
        pace=(2500, 4500),
        environment={"PEERS_SLOTS": "100"},
        tuned=True,
        drains_only=True,
    ),
    Contender(
        name="oban",
        package="oban",
        how="`oban start --queues default:10`, async jobs",
        module="benchmarks.peers.oban",
        requirements=("oban",),
        workers=each(
            *("-m", "oban", "start", "--dsn", "{url}", "--queues", "default:10", "--log-level", "warning")
        ),
        pace=(1200, 1900),
    ),
    Contender(
        name="oban, tuned",
        package="oban",
        how="the same with `default:100`",
        module="benchmarks.peers.oban",
        requirements=("oban",),
        workers=each(
            *("-m", "oban", "start", "--dsn", "{url}", "--queues", "default:100", "--log-level", "warning")
        ),
        pace=(1850, 3300),
        tuned=True,
        drains_only=True,
    ),
    Contender(
        name="django-tasks-db",
        package="django-tasks-db",
        how="`db_worker`, its poll of 1 s, one job at a time by design",
        module=SYNC_TASKS,
        requirements=("django-tasks-db", *POSTGRESQL),
        workers=each(*DJANGO, "db_worker", "--no-startup-delay", "--verbosity", "0"),
        pace=(90, 220),
        apps=("django_tasks_db",),
        settings=backend("django_tasks_db.DatabaseBackend", QUEUES=["default"]),
        environment={"PEERS_MODEL": "django_tasks_database.DBTaskResult"},
    ),
    Contender(
        name="dj-queue",
        package="dj-queue",
        how="`dj_queue` in its fork mode, a worker with 10 threads",
        module=SYNC_TASKS,
        requirements=("dj-queue[postgres]", *POSTGRESQL),
        workers=each(*DJANGO, "dj_queue", "--verbosity", "0"),
        pace=(320, 440),
        apps=("dj_queue",),
        settings=backend("dj_queue.backend.DjQueueBackend", OPTIONS={"workers": [{"threads": 10}]})
        | {"DATABASE_ROUTERS": ["dj_queue.routers.DjQueueRouter"]},
        environment={"PEERS_MODEL": "dj_queue.Job"},
    ),
    Contender(
        name="django-ox",
        package="django-ox",
        how="`ox_worker --concurrency 10`, its poll of 1 s",
        module=SYNC_TASKS,
        requirements=("django-ox", *POSTGRESQL),
        workers=each(*DJANGO, "ox_worker", "--concurrency", "10", "--verbosity", "0"),
        pace=(150, 250),
        apps=("django_ox",),
        settings=backend("django_ox.backend.OxBackend"),
        environment={"PEERS_MODEL": "django_ox.OxTask"},
    ),
    Contender(
        name="django-vtasks",
        package="django-vtasks",
        how="database backend, `runworker --concurrency 10`, async jobs",
        module="benchmarks.peers.vtasks",
        # Without pyzstd its database backend does not import on Python 3.13.
        requirements=("django-vtasks", "pyzstd", *POSTGRESQL),
        workers=each(*DJANGO, "runworker", "--concurrency", "10", "--verbosity", "0"),
        pace=(80, 140),
        apps=("django_vtasks", "django_vtasks.db"),
        settings=backend("django_vtasks.backends.db.DatabaseTaskBackend"),
        environment={"PEERS_QUEUE": "default"},
    ),
    Contender(
        name="django-vtasks, tuned",
        package="django-vtasks",
        how="its batch queue, count 100: one call of the body gets 100 jobs, which is another contract",
        module="benchmarks.peers.vtasks_batch",
        requirements=("django-vtasks", "pyzstd", *POSTGRESQL),
        workers=each(*DJANGO, "runworker", "--verbosity", "0"),
        pace=(4000, 5900),
        apps=("django_vtasks", "django_vtasks.db"),
        settings=backend("django_vtasks.backends.db.DatabaseTaskBackend")
        | {"VTASKS_QUEUES": {"batch": {"batch": {"count": 100, "timeout": 1.0}}}},
        environment={"PEERS_QUEUE": "batch"},
        tuned=True,
        drains_only=True,
    ),
    Contender(
        name="celery on Redis",
        package="celery",
        how="its default pool of processes, `-c 1`, and for two processes `-c 2`; no results",
        module="benchmarks.peers.celery",
        requirements=("celery[redis]", *POSTGRESQL),
        workers=lambda processes: [
            ("-m", "celery", "-A", "benchmarks.peers.celery", "worker", "-l", "WARNING", "-c", str(processes))
        ],
        pace=(390, 370),
        apps=(),
        redis=True,
    ),
    Contender(
        name="celery on Redis, threads",
        package="celery",
        how="`--pool threads -c 10`, and for two processes two of them; no results",
        module="benchmarks.peers.celery",
        requirements=("celery[redis]", *POSTGRESQL),
        workers=lambda processes: [
            (
                *("-m", "celery", "-A", "benchmarks.peers.celery", "worker", "-l", "WARNING"),
                *("--pool", "threads", "-c", "10", "-n", f"worker{number}@%h"),
            )
            for number in range(processes)
        ],
        pace=(440, 760),
        apps=(),
        redis=True,
    ),
    Contender(
        name="dramatiq on Redis",
        package="dramatiq",
        how="1 and 2 processes with its default of 8 threads",
        module="benchmarks.peers.dramatiq",
        requirements=("dramatiq[redis]", *POSTGRESQL),
        workers=lambda processes: [
            ("-m", "dramatiq", "benchmarks.peers.dramatiq", "--processes", str(processes))
        ],
        pace=(1600, 2200),
        apps=(),
        redis=True,
    ),
    Contender(
        name="huey on Redis",
        package="huey",
        how="`huey_consumer -w 10 -k thread`, and for two processes two of them; no results",
        module="benchmarks.peers.huey",
        requirements=("huey", "redis", *POSTGRESQL),
        workers=each(
            *("-m", "huey.bin.huey_consumer", "benchmarks.peers.huey.huey", "-w", "10", "-k", "thread", "-q")
        ),
        pace=(1080, 2360),
        apps=(),
        redis=True,
    ),
    Contender(
        name="django_jobs, async jobs",
        package="django-pg-jobs",
        how="`runjobs`, 10 places on its event loop (its default), async jobs",
        module="benchmarks.peers.ours_async",
        requirements=(),
        workers=OURS.workers,
        pace=(4000, 6000),
        apps=("django_jobs",),
        drains_only=True,
    ),
    OURS,
)
