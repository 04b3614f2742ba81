"""
Measure what one machine does with django_jobs.

    python -m benchmarks run [--runs 3] [--jobs 20000] [--json FILE]

The server is the one that comes with the `demo` extra, with its ordinary settings (every commit is flushed to
disk), or DATABASE_URL. The measurements make a database of their own on it and drop it at the end. Workers
are real `manage.py runjobs` processes. Server, workers and this process share the machine, so only ratios
between figures of one run mean anything elsewhere.

enqueue     one job after another, each its own commit
bulk        `enqueue_many`, all in one transaction
drain       jobs that wait already, from the first claim to the last stored outcome, by the database's clock
pick-up     from the return of `enqueue()`, so after the commit, to the begin of the body, in an idle worker
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psycopg

NAME = "django_jobs_benchmark"
PATIENCE = 120.0
"""Seconds that anything here may take."""


@contextmanager
def benchmark_database() -> Iterator[psycopg.Connection[Any]]:
    """Make a database for the measurements, give its address to Django and to children, and drop it again."""
    from example_project.embedded import database_url

    maintenance = database_url()
    address = psycopg.conninfo.conninfo_to_dict(maintenance)
    with psycopg.connect(maintenance, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {NAME}")
        try:
            os.environ["BENCHMARK_URL"] = url_of(address | {"dbname": NAME})
            os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
            import django
            from django.core.management import call_command
            from django.db import connections

            django.setup()
            call_command("migrate", verbosity=0)
            with psycopg.connect(os.environ["BENCHMARK_URL"], autocommit=True) as connection:
                yield connection
            connections.close_all()
        finally:
            admin.execute(f"DROP DATABASE {NAME} WITH (FORCE)")


def url_of(address: dict[str, Any]) -> str:
    """Return an address as the URL that the settings read; a socket's folder goes to the query."""
    from urllib.parse import quote, urlencode

    given = {key: str(value) for key, value in address.items() if value is not None}
    name = quote(given.pop("dbname"))
    return f"postgresql:///{name}?{urlencode(given, quote_via=quote)}"


@contextmanager
def workers(count: int, *options: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `count` workers, each a command of its own."""
    command = [sys.executable, "-m", "django", "runjobs", "--verbosity", "0", *options]
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield running
    finally:
        for worker in running:
            worker.terminate()
        for worker in running:
            worker.wait(PATIENCE)


def wait_for(fact: Callable[[], Any]) -> Any:
    """Wait until `fact` is true and return it. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := fact():
            return found
        time.sleep(0.02)
    raise TimeoutError(f"not within {PATIENCE:.0f} s")


def one(connection: psycopg.Connection[Any], query: str) -> Any:
    """Return the one value of a query."""
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def empty(connection: psycopg.Connection[Any]) -> None:
    """Start a measurement with empty tables."""
    connection.execute("TRUNCATE django_jobs_job, django_jobs_attempt, django_jobs_worker")
    connection.execute("CHECKPOINT")


def enqueue(connection: psycopg.Connection[Any], jobs: int) -> float:
    """Return jobs/s of one enqueue after another."""
    from benchmarks.tasks import nothing

    empty(connection)
    began = time.perf_counter()
    for number in range(jobs):
        nothing.enqueue(number)
    return jobs / (time.perf_counter() - began)


def bulk(connection: psycopg.Connection[Any], jobs: int) -> float:
    """Return jobs/s of one `enqueue_many`."""
    from benchmarks.tasks import nothing

    empty(connection)
    began = time.perf_counter()
    nothing.enqueue_many((number,) for number in range(jobs))
    return jobs / (time.perf_counter() - began)


def drain(connection: psycopg.Connection[Any], task: Any, jobs: int, processes: int) -> float:
    """Return jobs/s of workers that find `jobs` waiting."""
    empty(connection)
    task.enqueue_many((number,) for number in range(jobs))
    with workers(processes):
        wait_for(
            lambda: one(connection, "SELECT count(*) FROM django_jobs_job WHERE state = 'SUCCESSFUL'") == jobs
        )
    seconds = one(
        connection,
        "SELECT EXTRACT(epoch FROM max(finished_at) - min(last_attempted_at))::float8 FROM django_jobs_job",
    )
    return float(jobs / seconds)


def pick_up(connection: psycopg.Connection[Any], jobs: int) -> list[float]:
    """Return for each of `jobs` the milliseconds from its commit to its body, in an idle worker."""
    from benchmarks.tasks import clock
    from django_jobs.models import Job

    empty(connection)
    committed: dict[int, float] = {}
    with workers(1):
        wait_for(lambda: one(connection, "SELECT count(*) FROM django_jobs_worker WHERE holds_lock"))
        for number in range(jobs):
            result = clock.enqueue(number)
            committed[int(result.id)] = time.time()
            time.sleep(0.05)
        wait_for(lambda: Job.objects.filter(state="SUCCESSFUL").count() == jobs)
    return [(job.return_value - committed[job.pk]) * 1000 for job in Job.objects.all()]


def summary(figures: list[float]) -> str:
    """Return the median with the smallest and the largest."""
    return f"{median(figures):,.0f} ({min(figures):,.0f}–{max(figures):,.0f})"


def measure(runs: int, jobs: int) -> dict[str, list[float]]:
    """Return every figure of every run, the runs one after another so that each sees the same machine."""
    found: dict[str, list[float]] = {}
    with benchmark_database() as connection:
        from benchmarks.tasks import nothing, nothing_async

        for _ in range(runs):
            latencies = sorted(pick_up(connection, max(20, jobs // 200)))
            cuts = quantiles(latencies, n=100)
            for name, figure in (
                ("enqueue one by one, jobs/s", enqueue(connection, max(50, jobs // 40))),
                ("enqueue_many, jobs/s", bulk(connection, jobs)),
                ("drain, 1 process, threads, jobs/s", drain(connection, nothing, jobs, 1)),
                ("drain, 1 process, event loop, jobs/s", drain(connection, nothing_async, jobs, 1)),
                ("drain, 2 processes, threads, jobs/s", drain(connection, nothing, jobs, 2)),
                ("pick-up p50, µs", cuts[49] * 1000),
                ("pick-up p95, µs", cuts[94] * 1000),
                ("pick-up p99, µs", cuts[98] * 1000),
            ):
                found.setdefault(name, []).append(figure)
        found["PostgreSQL"] = [int(one(connection, "SHOW server_version_num")) // 10_000]
    return found


def main(arguments: list[str]) -> None:
    """Measure, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=3, help="repetitions of everything (default: 3)")
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs of a drain (default: 20000)")
    parser.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args(arguments)
    found = measure(options.runs, options.jobs)
    postgresql = int(found.pop("PostgreSQL")[0])
    import django

    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, Django {django.get_version()}, "
        f"psycopg {psycopg.__version__}, PostgreSQL {postgresql}; median (smallest–largest) of {options.runs}"
    )
    for name, figures in found.items():
        print(f"  {name:40} {summary(figures)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
