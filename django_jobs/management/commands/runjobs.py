"""`manage.py runjobs`: runs jobs until stopped."""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import platform
import signal
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections
from django.utils import autoreload

from django_jobs import conf
from django_jobs.checks import missing_tables
from django_jobs.discovery import discover
from django_jobs.exceptions import UnknownSetting, UnloadableTasks, suggestion
from django_jobs.management.telling import banner, report
from django_jobs.management.values import (
    count,
    queue_limit,
    queue_name,
    seconds,
    seconds_or_zero,
    worker_name,
)
from django_jobs.tasks import registry
from django_jobs.telemetry import logger
from django_jobs.worker.connections import close_all, open_transactions
from django_jobs.worker.foreground import EXIT_BROKEN, EXIT_OK, StopSignals, leave, run_worker
from django_jobs.worker.health import HealthFile
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker
from django_jobs.worker.reaping import reap_as_process_1
from django_jobs.worker.supervisor import LAST_SECONDS, Supervisor

EPILOG = """\
signals:
  SIGTERM, SIGINT   stop claiming, wait for running jobs, hand back what is left, exit
  a second one      hand back running jobs at once and exit
  without a shell on its machine: manage.py jobs drain-worker|stop-worker

exit status:
  0  stopped or drained, every job came home
  1  could not start (no database, tasks that can't be loaded), or a part of the worker broke
  2  wrong command line
  3  the grace time ended; unfinished jobs were handed back
  4  a drain met jobs that failed for good (they are listed)
  5  a drain ran out of time
  6  worker processes kept dying right after their start

examples:
  manage.py runjobs                                  all queues, one process, 10 threads
  manage.py runjobs --queue mail:4 --queue default   two queues, 4 mail jobs at once
  manage.py runjobs --processes 4 --threads 5        4 processes with 5 threads each
  manage.py runjobs --drain --timeout 60             run what is due, then exit (for cron and CI)
"""


class Command(BaseCommand):
    help = "Run background jobs until stopped."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        settings = conf.Settings()
        add = parser.add_argument
        add(
            "--queue",
            action="append",
            type=queue_limit,
            metavar="NAME[:LIMIT]",
            help="serve this queue, at most LIMIT of its jobs at once in each process; repeat for more "
            "(default: all queues)",
        )
        add(
            "--exclude-queue",
            action="append",
            type=queue_name,
            default=[],
            metavar="NAME",
            help="don't serve this queue; repeat for more",
        )
        add("--processes", type=count, default=1, metavar="N", help="worker processes (default: 1)")
        add(
            "--threads",
            "--concurrency",
            type=count,
            metavar="N",
            help=f"threads for sync jobs in each process (default: the setting, {settings.threads})",
        )
        add(
            "--async-slots",
            type=count,
            metavar="N",
            help=f"async jobs at once in each process (default: the setting, {settings.async_slots})",
        )
        add(
            "--poll-interval",
            type=seconds,
            metavar="SECONDS",
            help="longest wait for work that no notification announced "
            f"(default: the setting, {settings.poll_seconds:g})",
        )
        add("--no-listen", action="store_true", help="only poll; for poolers that can't carry LISTEN")
        add("--drain", action="store_true", help="run what is due and its retries, print counts, exit")
        add("--timeout", type=seconds, metavar="SECONDS", help="longest time for --drain (default: none)")
        add("--max-jobs", type=count, metavar="N", help="replace a process after N jobs, between jobs")
        add("--max-memory", type=count, metavar="MB", help="replace a process over MB, between jobs")
        add(
            "--shutdown-timeout",
            type=seconds_or_zero,
            metavar="SECONDS",
            help="how long running jobs may go on after a stop was asked for "
            f"(default: the setting, {settings.shutdown_seconds:g})",
        )
        add(
            "--database", metavar="ALIAS", help="database of the queue (default: as settings and routers say)"
        )
        add(
            "--worker-name",
            type=worker_name,
            default="",
            metavar="NAME",
            help="name shown in the admin (default: host:pid)",
        )
        add("--reload", action="store_true", help="restart when code changes; for development")
        add(
            "--health-file",
            type=Path,
            metavar="PATH",
            help="file that is written every few seconds while the worker can make progress",
        )
        add(
            "--start-method",
            choices=multiprocessing.get_all_start_methods(),
            default="fork" if platform.system() == "Linux" else "spawn",
            help="how processes are made (default: fork on Linux, spawn elsewhere)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["drain"] and options["processes"] > 1:
            raise CommandError("--drain works in one process: leave out --processes.", returncode=2)
        if options["timeout"] is not None and not options["drain"]:
            raise CommandError("--timeout is the limit of --drain: add --drain.", returncode=2)
        if options["health_file"] is not None and not os.access(options["health_file"].parent, os.W_OK):
            raise CommandError(
                f"--health-file: can't write to {options['health_file'].parent}.", returncode=2
            )
        log_to_console(options["verbosity"], explicit=options["verbosity"] != 1)
        if options["reload"]:
            autoreload.run_with_reloader(self.run, options)
        else:
            self.run(options)

    def run(self, options: dict[str, Any]) -> None:
        """Check what was asked for, then run the worker, and end the process with its status."""
        try:
            settings = conf.current()
        except UnknownSetting as error:
            raise CommandError(str(error)) from error
        alias = options["database"] or conf.database()
        if alias not in connections:
            raise CommandError(
                f"There is no database {alias!r} in DATABASES.{suggestion(alias, list(connections))}",
                returncode=2,
            )
        if inside := open_transactions():
            raise CommandError(
                f"runjobs was called inside a transaction on {inside[0]!r}. Its worker has connections of "
                "its own, which would see nothing of it: call it outside of atomic(), or in a test use "
                "django_jobs.testing.run_due().",
                returncode=EXIT_BROKEN,
            )
        stop = StopSignals()
        stop.install({signal.SIGTERM: stop.ask, signal.SIGINT: stop.ask})
        if is_main_process(self) and not options["reload"]:
            reap_as_process_1()
        try:
            discover()
        except UnloadableTasks as error:
            raise CommandError(str(error), returncode=EXIT_BROKEN) from error
        self.check_queues([name for name, _ in options["queue"] or ()] + options["exclude_queue"])
        self.wait_for_tables(alias, settings.startup_wait_seconds, stop)
        chosen = worker_options(options, alias)
        grace = options["shutdown_timeout"]
        if grace is None:  # who changes code wants it to run now
            grace = 0.0 if options["reload"] else settings.shutdown_seconds
        health = HealthFile(options["health_file"])
        recycling = chosen.max_jobs is not None or chosen.max_memory_bytes is not None
        try:
            if stop.count:
                status = EXIT_OK
            elif options["processes"] > 1 or (recycling and not chosen.drain):
                status = self.supervise(chosen, options, grace, health, stop)
            else:
                status = self.run_in_place(chosen, options, grace, health, stop)
        finally:
            health.remove()
        self.stdout.flush()
        self.stderr.flush()
        if options["reload"] or not is_main_process(self):
            if status:
                raise CommandError("", returncode=status)
            return
        leave(status)

    def supervise(
        self,
        chosen: WorkerOptions,
        options: dict[str, Any],
        grace: float,
        health: HealthFile,
        stop: StopSignals,
    ) -> int:
        """Run workers in processes of their own."""
        self.say(banner(chosen, options["processes"]), options)
        return Supervisor(
            chosen,
            processes=options["processes"],
            start_method=options["start_method"],
            shutdown_seconds=grace,
            look=health.write,
            stop=stop,
        ).run()

    def run_in_place(
        self,
        chosen: WorkerOptions,
        options: dict[str, Any],
        grace: float,
        health: HealthFile,
        stop: StopSignals,
    ) -> int:
        """Run one worker in this process."""
        over = threading.Event()
        if options["reload"]:  # the reloader ends the process from another thread

            def leave_in_order() -> None:
                stop.ask()
                over.wait(grace + LAST_SECONDS)

            atexit.register(leave_in_order)
        workers: list[Worker] = []

        def started(worker: Worker) -> None:
            workers.append(worker)
            if not chosen.drain:
                self.say(banner(chosen, options["processes"]), options)

        began = monotonic()
        try:
            status = run_worker(
                chosen,
                stop=stop,
                shutdown_seconds=grace,
                look=lambda worker: health.write(worker.is_healthy),
                started=started,
                timeout=options["timeout"],
            )
        finally:
            over.set()
        if chosen.drain:
            self.stdout.write(report(workers[0], monotonic() - began))
        return status

    def say(self, text: str, options: dict[str, Any]) -> None:
        """Print at once what `-v 0` leaves out."""
        if options["verbosity"] >= 1:
            self.stdout.write(text)
            self.stdout.flush()

    def check_queues(self, names: Sequence[str]) -> None:
        """
        Refuse queues that the project's backends don't have; mention those that no known task is sent to.

        With no QUEUES declared any name may be in use: `using(queue_name=…)` takes every one.
        """
        backends = [task.get_backend() for task in registry.values()]
        declared = set[str]().union(*(backend.queues for backend in backends))
        used = {task.queue_name for task in registry.values()}
        for name in names:
            if backends and all(backend.queues for backend in backends) and name not in declared:
                raise CommandError(
                    f"No backend in TASKS has a queue {name!r}.{suggestion(name, declared)}", returncode=2
                )
            if name not in used:
                self.stderr.write(f"No task is sent to the queue {name!r} by itself.{suggestion(name, used)}")

    def wait_for_tables(self, alias: str, patience: float, stop: StopSignals) -> None:
        """
        Wait until the database answers and has its tables, or a stop is asked for.

        Raises CommandError after `patience` seconds.
        """
        deadline = monotonic() + patience
        told = ""
        while True:
            try:
                problems = missing_tables(alias)
                problem = problems[0] if problems else ""
                hint = f" Run: manage.py migrate --database {alias}"
            except DatabaseError as error:
                problem, hint = f"Database {alias!r}: {' '.join(str(error).split())}", ""
            finally:
                close_all()
            if not problem or stop.count:
                return
            if monotonic() >= deadline:
                raise CommandError(f"{problem}{hint}", returncode=EXIT_BROKEN)
            if problem != told:
                self.stderr.write(f"{problem}{hint} (waiting for up to {patience:.0f} s)")
                told = problem
            stop.wait(0.5)


def worker_options(options: dict[str, Any], alias: str) -> WorkerOptions:
    """Return what the command line asks of each worker process."""
    queues = options["queue"]
    memory = options["max_memory"]
    return WorkerOptions(
        queues=None if queues is None else tuple(dict.fromkeys(name for name, _ in queues)),
        excluded_queues=tuple(options["exclude_queue"]),
        limits={name: limit for name, limit in queues or () if limit is not None},
        threads=options["threads"],
        async_slots=options["async_slots"],
        poll_seconds=options["poll_interval"],
        listen=False if options["no_listen"] else None,
        database=alias,
        name=options["worker_name"],
        max_jobs=options["max_jobs"],
        max_memory_bytes=None if memory is None else memory * 2**20,
        drain=options["drain"],
    )


def log_to_console(verbosity: int, *, explicit: bool) -> None:
    """
    Write log lines to the console where --verbosity asks for it and the project's LOGGING doesn't.

    Nothing that the project configured is changed.
    """
    if explicit and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel({0: logging.ERROR, 2: logging.INFO}.get(verbosity, logging.DEBUG))


def is_main_process(command: BaseCommand) -> bool:
    """Whether the command was run from a command line, and not by `call_command`."""
    return bool(getattr(command, "_called_from_command_line", False))
