"""`manage.py jobs`: look at jobs, workers and queues, and act on them."""

from __future__ import annotations

import getpass
import os
import socket
from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError, connections
from django.utils.translation import override

from django_jobs import conf
from django_jobs.checks import missing_tables
from django_jobs.dashboard.answering import told
from django_jobs.dashboard.explaining import explain
from django_jobs.dashboard.hurried import limited
from django_jobs.dashboard.surveying import survey
from django_jobs.discovery import discover
from django_jobs.exceptions import UnknownSetting, UnloadableTasks, suggestion
from django_jobs.management.operating import acting, surveying, telling
from django_jobs.management.operating.parsing import EPILOG, WISHES, Formatter, add_actions
from django_jobs.management.operating.printing import moment, number, plain, some, table, to_json
from django_jobs.models import Job
from django_jobs.operations import Operations
from django_jobs.store import stats
from django_jobs.store.steering import Verdict
from django_jobs.tasks import registry

NOTHING, USAGE, NO_DATABASE, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses; they are documented in `parsing.EPILOG`."""

STATUS_SECONDS = 30.0
"""How long one statement of a survey may take."""

DID = {
    "retry": ("would be retried", "sent round again"),
    "cancel": ("would be cancelled", "cancelled or asked to stop"),
    "run-now": ("would be made due", "made due"),
    "discard": ("would be deleted", "deleted"),
    "prune": ("would be deleted", "deleted"),
}


def operator() -> str:
    """Return who runs this command, and where."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):  # in a container a process may have a number and no name
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"


class Command(BaseCommand):
    help = "Look at jobs, workers and queues, and act on them."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=Formatter, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_actions(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            conf.current()
        except UnknownSetting as error:
            raise CommandError(str(error), returncode=USAGE) from error
        alias = options["database"] or conf.database()
        if alias not in connections:
            raise CommandError(
                f"There is no database {alias!r} in DATABASES.{suggestion(alias, list(connections))}",
                returncode=USAGE,
            )
        try:
            discover()
        except UnloadableTasks as error:
            raise CommandError(str(error)) from error
        try:
            getattr(self, options["action"].replace("-", "_"))(options, alias)
        except acting.UnclearWish as wish:
            raise CommandError(str(wish), returncode=USAGE) from wish
        except (DatabaseError, InterfaceError) as error:
            raise CommandError(problem_of(error, alias), returncode=NO_DATABASE) from error

    # What one looks at

    def status(self, options: dict[str, Any], alias: str) -> None:
        """Write what goes on."""
        with limited(alias, STATUS_SECONDS):
            found = survey(alias, options["queue"], options["slow_after"])
        self.write(options, surveying.as_json(found), surveying.as_text(found))

    def show(self, options: dict[str, Any], alias: str) -> None:
        """Write all about some jobs."""
        ids = list(dict.fromkeys(options["ids"]))
        jobs = Job.objects.using(alias).in_bulk(ids)
        found = [telling.told(jobs[key], options["runs"]) for key in ids if key in jobs]
        if found or options["format"] == "json":
            self.write(options, {"jobs": found}, "\n\n".join(telling.as_text(job) for job in found))
        if missing := [f"#{key}" for key in ids if key not in jobs]:
            raise CommandError(f"There is no job {', '.join(missing)}.", returncode=NOTHING)

    def explain(self, options: dict[str, Any], alias: str) -> None:
        """Write why jobs aren't running."""
        with override("en"):
            found = {key: explain(alias, key) for key in dict.fromkeys(options["ids"])}
        self.write(options, telling.explained_json(found), telling.explained_text(found))
        if missing := [f"#{key}" for key, explanation in found.items() if not explanation.exists]:
            raise CommandError(f"There is no job {', '.join(missing)}.", returncode=NOTHING)

    def health(self, options: dict[str, Any], alias: str) -> None:
        """Tell whether all is well."""
        problems: list[dict[str, str]] = []
        summary = ""
        try:
            problems = [{"id": "tables", "message": text} for text in missing_tables(alias)]
            if not problems:
                with limited(alias, STATUS_SECONDS):
                    found = survey(alias, options["queue"], timedelta.max)
                problems = surveying.problems_of(found, options["max_wait"])
                summary = f"{some(len(found.workers), 'worker')}, {some(found.states['due'], 'job')} due"
        except (DatabaseError, InterfaceError) as error:
            problems = [{"id": "database", "message": problem_of(error, alias)}]
        if options["format"] == "json":
            self.stdout.write(to_json({"healthy": not problems, "database": alias, "problems": problems}))
        elif not problems:
            self.stdout.write(f"healthy: {summary}")
        if problems:
            lines = "\n  ".join(plain(problem["message"]) for problem in problems)
            raise CommandError(f"unhealthy:\n  {lines}", returncode=NOTHING)

    # What one does to jobs

    def retry(self, options: dict[str, Any], alias: str) -> None:
        """Act on jobs and tell what was done."""
        self.report(options, acting.act(options, alias), alias)

    cancel = run_now = discard = retry

    def prune(self, options: dict[str, Any], alias: str) -> None:
        """Delete old jobs and tell how many."""

        def tell(deleted: int) -> None:
            if options["verbosity"] > 1:
                self.stderr.write(f"{number(deleted)} deleted so far")

        report = acting.prune_jobs(options, alias, tell)
        self.report(options, report, alias, may_be_empty=True)

    def report(
        self, options: dict[str, Any], report: acting.Report, alias: str, *, may_be_empty: bool = False
    ) -> None:
        """Write what was done to jobs, and end with the status that says so."""
        would, did = DID[report.action]
        states = ", ".join(f"{number(count)} {state}" for state, count in report.by_state.items())
        if report.dry_run:
            text = f"{some(report.matched, 'job')} {would}" + (f" ({states})." if states else ".")
            rows = [
                (f"#{job.id}", job.label, job.queue_name, job.task_path, moment(job.at), job.reason or "")
                for job in report.sample
            ]
            if rows:
                text += "\n" + table(("job", "state", "queue", "task", "ended or due", "reason"), rows)
            if report.matched > len(rows):
                text += f"\n  and {number(report.matched - len(rows))} more"
        else:
            text = f"{some(report.changed, 'job')} {did}."
            if report.matched > report.changed:
                left = number(report.matched - report.changed)
                text += f" {left} had changed meanwhile and were left alone."
        self.write(options, acting.as_json(report), text)
        if report.interrupted:
            raise CommandError("Interrupted: what was done until then stays done.", returncode=INTERRUPTED)
        done = report.matched if report.dry_run else report.changed
        if not done and not may_be_empty:
            raise CommandError(self.nothing(options, report, alias), returncode=NOTHING)
        if report.missing:
            left = ", ".join(f"#{key}" for key in report.missing[:20])
            self.stderr.write(f"Left alone: {left} (no such job, or not in a state or filter that matches).")

    def nothing(self, options: dict[str, Any], report: acting.Report, alias: str) -> str:
        """Return why nothing may have matched."""
        known = self.known(alias)
        hints = [
            f" Task {path!r} is not known.{suggestion(path, known.tasks)}"
            for path in options.get("task") or ()
            if not any(is_meant(task, path) for task in known.tasks)
        ]
        return f"No job matched.{self.unknown_queues(options['queue'] or (), alias)}{''.join(hints)}"

    def known(self, alias: str) -> stats.Choices:
        """Return the queues and tasks that are about."""
        with connections[alias].cursor() as cursor:
            return stats.choices(cursor, {task.queue_name for task in registry.values()}, registry)

    def unknown_queues(self, names: Iterable[str], alias: str) -> str:
        """Return what to say of queues that nobody knows."""
        known = self.known(alias).queues
        return "".join(
            f" Queue {name!r} is not known.{suggestion(name, known)}" for name in names if name not in known
        )

    # What one does to queues

    def pause(self, options: dict[str, Any], alias: str) -> None:
        """Pause queues."""
        if not options["force"]:
            unknown = self.unknown_queues(options["queues"], alias)
            if unknown:
                raise CommandError(f"{unknown.strip()} Pause it all the same with --force.", returncode=USAGE)
        operations, by = Operations(alias), operator()
        done = {name: operations.pause(name, by=by, reason=options["reason"]) for name in options["queues"]}
        self.queues_told(options, alias, done, "paused", "was paused already")

    def resume(self, options: dict[str, Any], alias: str) -> None:
        """Resume queues."""
        operations = Operations(alias)
        done = {name: operations.resume(name) for name in options["queues"]}
        self.queues_told(options, alias, done, "resumed", "was not paused")

    def queues_told(
        self, options: dict[str, Any], alias: str, done: dict[str, bool], did: str, already: str
    ) -> None:
        """Write what was done to queues."""
        found = {
            "action": options["action"],
            "database": alias,
            "changed": [name for name, changed in done.items() if changed],
            "unchanged": [name for name, changed in done.items() if not changed],
        }
        lines = [f"Queue {plain(name)} {did if changed else already}." for name, changed in done.items()]
        self.write(options, found, "\n".join(lines))
        if not found["changed"]:
            raise CommandError(f"Nothing was changed.{self.unknown_queues(done, alias)}", returncode=NOTHING)

    # What one asks of workers

    def drain_worker(self, options: dict[str, Any], alias: str) -> None:
        """Ask workers to end, and tell what became of it."""
        operations, by, wish = Operations(alias), operator(), WISHES[options["action"]]
        ids = dict.fromkeys(options["ids"])
        answers = [
            answer
            for key in ids
            for answer in operations.ask(key, wish, by=by, all_processes=options["all_processes"])
        ]
        asked = list(dict.fromkeys(one.worker for one in answers if one.verdict == Verdict.ASKED))
        missing = [key for key in ids if not any(one.worker == key for one in answers)]
        found = {
            "action": options["action"],
            "database": alias,
            "asked": asked,
            "answers": answers,
            "missing": missing,
        }
        with override("en"):
            self.write(options, found, "\n".join(plain(told(answer, wish)) for answer in answers))
        if missing:
            self.stderr.write(f"There is no worker {', '.join(f'#{key}' for key in missing)}.")
        if not asked:
            raise CommandError("No worker was asked.", returncode=NOTHING)

    stop_worker = drain_worker

    def write(self, options: dict[str, Any], data: Any, text: str) -> None:
        """Write a result in the format that was asked for."""
        self.stdout.write(to_json(data) if options["format"] == "json" else text)


def is_meant(task: str, path: str) -> bool:
    """Whether `--task path` means this task."""
    return task.startswith(path.removesuffix("*")) if path.endswith("*") else task == path


def problem_of(error: Exception, alias: str) -> str:
    """Return in one sentence why the database didn't do what it was asked to."""
    try:
        missing = missing_tables(alias)
    except (DatabaseError, InterfaceError):
        missing = []
    if missing:
        return f"{missing[0]} Run: manage.py migrate --database {alias}"
    return f"Database {alias!r}: {' '.join(str(error).split())}"
