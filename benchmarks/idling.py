"""What a worker costs that has nothing to do, what it weighs, and how soon it begins."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from benchmarks.figures import Found
from benchmarks.ground import Ground, another_ground, idle_workers, wait_for, workers
from benchmarks.processes import available, cpu_seconds, private_mb, resident_mb, tree
from benchmarks.sizes import Sizes

EXAMPLE = "benchmarks.example_settings"

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

TRANSACTIONS = """
    SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
"""

CLAIMED = "SELECT EXTRACT(epoch FROM max(started_at))::float8 FROM django_jobs_job"


def idle(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Watch one idle worker for a while; then have it run jobs in all its slots, and weigh it."""
    with example_ground() as example, logged(example) as log:
        environment = example.environment(DJANGO_SETTINGS_MODULE=EXAMPLE)
        with workers(1, environment=environment) as [worker]:
            idle_workers(example, 1)
            time.sleep(3)  # its first looks
            pids = [pid for (pid,) in example.execute(SESSIONS).fetchall()]
            began, cpu = time.monotonic(), sum(map(cpu_seconds, tree(worker.pid)))
            server_cpu = sum(map(cpu_seconds, pids))
            transactions = example.one(TRANSACTIONS)
            skipped = log.size() if log else 0
            time.sleep(sizes.idle_seconds)
            seconds = time.monotonic() - began
            if log:
                counts = log.statements(skipped, pids)
                yield Found("idle worker, statements", "a second", counts.total() / seconds)
                for name, count in counts.most_common():
                    yield Found(f"idle worker, {name}", "a minute", count / seconds * 60)
            else:  # ours, and autovacuum's, are among them
                more = example.one(TRANSACTIONS) - transactions
                yield Found("idle worker, transactions of the database", "a second", more / seconds)
            if available():
                cpu = sum(map(cpu_seconds, tree(worker.pid))) - cpu
                yield Found("idle worker, processor", "s a minute", cpu / seconds * 60)
                yield Found("idle worker, share of a core", "%", cpu / seconds * 100)
                used = sum(map(cpu_seconds, pids)) - server_cpu
                yield Found("its sessions in the server, processor", "s a minute", used / seconds * 60)
                yield Found("idle worker, memory in RAM", "MB", resident_mb(worker.pid))
                run_some(example)
                yield Found(
                    "worker after 1,000 jobs in 10 slots, memory in RAM", "MB", resident_mb(worker.pid)
                )
        if available():
            yield from weigh_tree(example)


def weigh_tree(ground: Ground) -> Iterator[Found]:
    """Weigh a supervisor with two workers."""
    environment = ground.environment(DJANGO_SETTINGS_MODULE=EXAMPLE)
    with workers(1, "--processes", "2", environment=environment) as [supervisor]:
        wait_for(lambda: ground.one("SELECT count(*) FROM django_jobs_worker WHERE state = 'RUNNING'") >= 2)
        idle_workers(ground, 2)
        run_some(ground)
        pids = tree(supervisor.pid)
        yield Found("2 processes and their supervisor, RAM that is theirs", "MB", sum(map(private_mb, pids)))


@contextmanager
def example_ground() -> Iterator[Ground]:
    """Make a database with the example project's tables, but the shop's."""
    with another_ground("example", EXAMPLE) as example:
        yield example


def run_some(ground: Ground, count: int = 1000) -> None:
    """Have jobs run that ask the database, so that each slot has a connection."""
    from benchmarks.backlog import insert_waiting

    first = ground.one("SELECT COALESCE(max(id), 0) FROM django_jobs_job")
    insert_waiting(ground, count, task="benchmarks.tasks.query")
    ground.execute("SELECT pg_notify('django_jobs', '')")
    done = "SELECT count(*) FROM django_jobs_job WHERE state = 'SUCCESSFUL' AND id > %s"
    wait_for(lambda: ground.one(done, [first]) >= count)


class Log:
    """The log of the embedded server, where it writes each statement of a database."""

    LINE = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \S+ \[(\d+)\] ", re.MULTILINE)
    STATEMENT = re.compile(r"LOG:\s+(?:statement|execute [^:]*): (.*)", re.DOTALL)

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        return self.path.stat().st_size

    def statements(self, skipped: int, pids: list[int]) -> Counter[str]:
        """Return how often each statement was logged after the first `skipped` bytes by these sessions."""
        with self.path.open("rb") as file:
            file.seek(skipped)
            text = file.read().decode(errors="replace")
        parts = self.LINE.split(text)  # text, pid, text, pid, text, …
        names = known_statements()
        found: Counter[str] = Counter()
        for pid, entry in zip(parts[1::2], parts[2::2], strict=True):
            if int(pid) in pids and (match := self.STATEMENT.match(entry)):
                shape = shape_of(match[1])
                found[names.get(shape, shape[:60])] += 1
        return found


@contextmanager
def logged(ground: Ground) -> Iterator[Log | None]:
    """Have each statement logged, when the server is the embedded one, whose log is at hand."""
    import os

    from example_project.embedded import example

    if os.environ.get("DATABASE_URL") and not os.environ.get("BENCHMARK_LOG"):
        yield None
        return
    path = Path(os.environ.get("BENCHMARK_LOG") or example().log)
    name = ground.one("SELECT quote_ident(current_database())")
    ground.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")
    yield Log(path)


def known_statements() -> dict[str, str]:
    """Return the names of the statements in `django_jobs.store`, by their shapes."""
    import pkgutil
    from importlib import import_module

    from django_jobs import store
    from django_jobs.store import claim

    names = {}
    for info in pkgutil.iter_modules(store.__path__):
        module: ModuleType = import_module(f"{store.__name__}.{info.name}")
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, str):
                names[shape_of(value)] = f"{info.name}.{name}"
    for name in ("CLAIM", "CLAIM_AFTER"):
        names[shape_of(claim.without_waiting(getattr(claim, name)))] = f"claim.{name}, early"
    return names


def shape_of(statement: str) -> str:
    """Return a statement without its parameters' names and its layout."""
    text = re.sub(r"%\(\w+\)s|\$\d+", "?", statement.replace("%%", "%"))
    return " ".join(text.split())


def start(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Start a worker on the example project, shop and all, where a job waits; see when it is claimed."""
    with another_ground("shop", "example_project.settings") as shop:
        for number in range(2):  # the first has Python compile what was never imported before
            shop.empty()
            from benchmarks.backlog import insert_waiting

            insert_waiting(shop, 1, task="example_project.shop.tasks.make_thumbnail", queue="images")
            environment = shop.environment(
                DJANGO_SETTINGS_MODULE="example_project.settings", DATABASE_URL=shop.url
            )
            began = time.time()
            command = [sys.executable, "manage.py", "runjobs", "--verbosity", "0"]
            quiet = subprocess.DEVNULL
            worker = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
            try:
                at = wait_for(lambda: shop.one(CLAIMED), pause=0.05)
            finally:
                worker.terminate()
                worker.wait()
            if number:
                yield Found("from the command to the first claim, example project", "s", at - began)
