"""
Measure django_jobs beside other queues, each in an environment of its own.

    python -m benchmarks peers [--runs 3] [--seconds 4] [--only NAME ...] [--markdown] [--json FILE]

The packages come from the registry that pip knows and are kept in --environments for the next time;
nothing else is fetched. PostgreSQL is the server that comes with the `demo` extra, or DATABASE_URL; a Redis
is started where a redis-server is installed. In each repetition every contender has its turn, django_jobs
last, so that all see the same machine. Only ratios between figures of one run mean anything elsewhere.
Ctrl-C or SIGTERM ends a run early, with the tables of what was found until then.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.ground import Busy, maintenance_url
from benchmarks.peers import measure
from benchmarks.peers.catalogue import CONTENDERS, OURS, Contender
from benchmarks.peers.environments import NotInstalled, default_folder, environment, versions
from benchmarks.peers.measure import Failed, Place, TooShort
from benchmarks.peers.report import Report
from benchmarks.peers.servers import Databases, Redis, redis

TURN = 0x646A7072
"""Key of the advisory lock that one run holds, since a second one would drop its databases."""

LARGEST_DRAIN = 40_000
SMALLEST_DRAIN = 200

QUERY_PACE = 600
"""A drain of jobs with a query has at most as many as for so many a second and process."""


def main(arguments: list[str]) -> None:
    """Measure, print the tables, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=3, help="repetitions of everything (default: 3)")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="about how long a drain takes on two cores (default: 4)"
    )
    parser.add_argument(
        "--latencies", type=int, default=100, help="jobs of a pick-up measurement (default: 100)"
    )
    parser.add_argument("--enqueues", type=int, default=300, help="jobs enqueued one by one (default: 300)")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=[contender.name for contender in CONTENDERS],
        help="only these contenders, beside django_jobs",
    )
    parser.add_argument(
        "--environments",
        type=Path,
        default=default_folder(),
        help="folder of the queues' environments (default: %(default)s)",
    )
    parser.add_argument("--remove", action="store_true", help="remove that folder at the end")
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/performance.md")
    parser.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = run(options)
    except Busy as error:
        sys.exit(str(error))
    print(report.markdown() if options.markdown else report.text())
    keep(report, options)
    if options.remove:
        shutil.rmtree(options.environments)


def run(options: argparse.Namespace) -> Report:
    """Measure every contender that can run, in turns. Raises Busy when another run is on this server."""
    server = maintenance_url()
    with ExitStack() as stack:
        databases = Databases(server)
        stack.callback(databases.close)
        if databases.admin.execute("SELECT pg_try_advisory_lock(%s)", [TURN]).fetchone() != (True,):
            raise Busy("Another run of the peers is under way on this server. Wait until it has ended.")
        broker = stack.enter_context(redis())
        report = Report(machine(databases.admin, server, options, broker))
        places: dict[Contender, Place] = {}
        for contender in CONTENDERS:
            if contender is not OURS and options.only and contender.name not in options.only:
                continue
            try:
                places[contender] = settle_in(contender, options.environments, databases, broker, report)
            except (Failed, NotInstalled) as error:
                report.cannot_run(contender, str(error))
        try:
            for repetition in range(options.runs):
                for contender, place in places.items():
                    progress(f"{repetition + 1} of {options.runs}: {contender.name}")
                    turn(contender, place, options, report)
                    keep(report, options)
        except KeyboardInterrupt:
            progress("stopped, with what was found until now")
        return report


def turn(contender: Contender, place: Place, options: argparse.Namespace, report: Report) -> None:
    """Give a contender its turn in a repetition, unless it failed in an earlier one."""
    if contender.name in report.reasons:
        return
    report.load()
    try:
        for figure, found in figures(contender, place, options):
            report.add(contender, figure, found)
    except (Failed, TimeoutError) as error:
        report.cannot_run(contender, str(error))


def keep(report: Report, options: argparse.Namespace) -> None:
    """Write the JSON where asked: after each turn, so that a run that is cut off leaves what it found."""
    if options.json:
        options.json.write_text(report.json())


def settle_in(
    contender: Contender, folder: Path, databases: Databases, broker: Redis | None, report: Report
) -> Place:
    """Install a contender and have it make its tables. Raises NotInstalled or Failed."""
    if contender.redis and broker is None:
        raise Failed("no redis-server is installed here")
    progress(f"prepare {contender.name}")
    python = Path(sys.executable)
    if contender.requirements:
        python = environment(folder, contender.package, contender.requirements)
    report.introduce(contender, versions(python))
    return measure.prepare(contender, str(python), databases, broker)


def figures(contender: Contender, place: Place, options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield everything that is measured of a contender in one repetition, by name. Raises Failed."""
    for kind in ("nothing", "query"):
        for processes in (1, 2):
            pace = contender.pace[processes - 1]
            if kind == "query":
                pace = min(pace, QUERY_PACE * processes)
            jobs = min(LARGEST_DRAIN, max(SMALLEST_DRAIN, int(pace * options.seconds)))
            try:
                rates = measure.drain(contender, place, kind, jobs, processes)
            except TooShort as error:
                progress(f"{contender.name}, left out: {error}")
                continue
            yield f"drain {kind} {processes}", rates["bodies"]
            yield f"stored {kind} {processes}", rates["stored"]
            yield f"run {kind} {processes}", rates
    if not contender.drains_only:
        yield from measure.pick_up(contender, place, options.latencies).items()
        yield "enqueue", measure.enqueue(contender, place, options.enqueues)


def machine(
    connection: psycopg.Connection[Any], server: str, options: argparse.Namespace, broker: Redis | None
) -> dict[str, Any]:
    """Return what the figures are found on and with."""
    os.environ["BENCHMARK_URL"] = server
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from benchmarks import figures

    asked = {
        name: value
        for name, value in vars(options).items()
        if name in ("runs", "seconds", "latencies", "enqueues")
    }
    about = figures.machine(connection, asked)
    if broker:
        about["redis"] = subprocess.run(
            ["redis-server", "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
    return about


def progress(what: str) -> None:
    """Tell on the standard error how far it is; the tables go to the standard output."""
    print(f"… {what}", file=sys.stderr, flush=True)
