"""The command line of `manage.py jobs`: its actions and options, and what is said of a wrong one."""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from datetime import datetime, timedelta
from typing import Any, NoReturn

from django.core.management.base import DjangoHelpFormatter
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_jobs.core.ids import id_of
from django_jobs.core.states import Wish
from django_jobs.exceptions import suggestion
from django_jobs.management.values import count, queue_name
from django_jobs.store.matching import LABELS

FINAL_LABELS = ("successful", "failed", "cancelled")

EPILOG = """\
exit status:
  0  done
  1  nothing matched, nothing was changed, or (health) something is wrong
  2  wrong command line
  3  the database can't be reached, or lacks the queue's tables
  130  interrupted; what was done until then stays done

examples:
  manage.py jobs status                                  what waits, runs and failed, and who works
  manage.py jobs show 42                                 one job with its history
  manage.py jobs explain 42                              why it isn't running
  manage.py jobs retry 42 43                             two jobs
  manage.py jobs retry --failed-since 2h --task 'shop.tasks.*'
  manage.py jobs cancel --queue mail --dry-run           what would be cancelled
  manage.py jobs discard --state cancelled --older-than 30d
  manage.py jobs pause mail --reason "SMTP is down"      until: manage.py jobs resume mail
  manage.py jobs drain-worker 7                          let it end what it runs, and be replaced
  manage.py jobs stop-worker 7 --all-processes           end its whole runjobs, as by SIGTERM
  manage.py jobs prune --older-than successful=7d
  manage.py jobs health                                  for monitoring: the exit status tells

Each action has a help of its own: manage.py jobs retry --help
"""

ACTIONS = {
    "status": "what waits, runs and failed; which workers live; what is wrong",
    "show": "everything about jobs: arguments, result, every run with its traceback",
    "explain": "why jobs aren't running, and what to do about it",
    "retry": "send failed and cancelled jobs round again, due at once",
    "cancel": "cancel waiting jobs, and ask running ones to stop",
    "run-now": "make scheduled and retrying jobs due at once",
    "discard": "delete jobs that aren't running, with their history",
    "pause": "stop claims from queues, until they are resumed",
    "resume": "let workers claim from queues again",
    "drain-worker": "ask workers to claim nothing more, and to end once what they run has ended",
    "stop-worker": "ask workers to end as after SIGTERM, and to hand back what doesn't end in time",
    "prune": "delete what is past its retention, or older than you say",
    "health": "exit with 1 unless workers live and every due job has one",
}

STATES_OF = {
    "retry": ("failed", "cancelled"),
    "cancel": ("ready", "scheduled", "retrying", "blocked", "running"),
    "run-now": ("scheduled", "retrying"),
    "discard": tuple(label for label in LABELS if label != "running"),
}
"""States on which an action can act."""

WISHES = {"drain-worker": Wish.DRAIN, "stop-worker": Wish.STOP}

GROUPS = {"waiting": ("ready", "scheduled", "retrying", "blocked")}

UNKNOWN_ACTION = re.compile(r"argument ACTION: invalid choice: '?([^'\s,]+)")
UNKNOWN_OPTION = re.compile(r"unrecognized arguments: (--[\w-]+)")


def explain(parser: ArgumentParser) -> None:
    """Have a parser say what could have been meant, where it says what is wrong."""
    complain = parser.error

    def error(message: str) -> NoReturn:
        if found := UNKNOWN_ACTION.search(message):
            message = f"there is no action {found[1]!r}.{suggestion(found[1], ACTIONS)}"
        elif found := UNKNOWN_OPTION.search(message):
            message = f"there is no option {found[1]} here.{suggestion(found[1], options_of(parser))}"
        complain(message)

    parser.error = error  # type: ignore[method-assign]  # an instance of its own


def options_of(parser: ArgumentParser) -> set[str]:
    """Return the options of a parser and of its actions."""
    known: set[str] = set()
    for action in parser._actions:
        known.update(name for name in action.option_strings if name.startswith("--"))
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                known |= options_of(inner)
    return known


class Formatter(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Keep the lines of examples, and Django's order of options."""


def add_actions(parser: ArgumentParser) -> None:
    """Add all actions to the command's parser."""
    explain(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = {}
    for name, text in ACTIONS.items():
        made[name] = actions.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", formatter_class=Formatter
        )
        explain(made[name])
        add_common(made[name])
    for name in STATES_OF:
        add_filters(made[name], name)
    add = made["status"].add_argument
    add("--queue", action="append", type=queue_name, metavar="NAME", help="only this queue; repeat for more")
    add("--slow-after", type=age, default=timedelta(minutes=10), metavar="AGE", help="a run is long when it "
        "takes more than this (default: 10m)")  # fmt: skip
    add = made["show"].add_argument
    add("ids", nargs="+", type=job_id, metavar="ID", help="id of a job")
    add("--runs", type=count, default=20, metavar="N", help="latest runs to show (default: 20)")
    made["explain"].add_argument("ids", nargs="+", type=job_id, metavar="ID", help="id of a job")
    made["retry"].add_argument(
        "--keep-attempts",
        action="store_true",
        help="allow just one more attempt (default: all attempts anew)",
    )
    made["cancel"].add_argument("--reason", default="", metavar="TEXT", help="shown with the jobs")
    for name in ("pause", "resume"):
        made[name].add_argument("queues", nargs="+", type=queue_name, metavar="QUEUE", help="name of a queue")
    made["pause"].add_argument("--reason", default="", metavar="TEXT", help="shown with the queues")
    made["pause"].add_argument("--force", action="store_true", help="also a queue that nobody knows yet")
    for name in WISHES:
        made[name].add_argument("ids", nargs="+", type=worker_id, metavar="ID", help="id of a worker")
        made[name].add_argument(
            "--all-processes",
            action="store_true",
            help="all processes of its runjobs, which ends with them (default: the one, and where it has a "
            "supervisor, another takes its place)",
        )
    add_pruning(made["prune"])
    add = made["health"].add_argument
    add("--queue", action="append", type=queue_name, metavar="NAME", help="only this queue; repeat for more")
    add("--max-wait", type=age, metavar="AGE", help="also unhealthy when a job has been due for longer")


def add_common(parser: ArgumentParser) -> None:
    """Add what every action takes; Django's own options work before and after the action."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="how to write (default: text)"
    )
    parser.add_argument("--database", metavar="ALIAS", help="database of the queue (default: the setting)")
    for names in (("--settings",), ("--pythonpath",), ("-v", "--verbosity")):
        parser.add_argument(*names, default=SUPPRESS, help=SUPPRESS)
    for name in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        parser.add_argument(name, action="store_true", default=SUPPRESS, help=SUPPRESS)


def add_filters(parser: ArgumentParser, action: str) -> None:
    """Add the filters of an action on many jobs."""
    add = parser.add_argument_group("which jobs", "Ids, filters, or both; a job must match all.").add_argument
    add("ids", nargs="*", type=job_id, metavar="ID", help="id of a job")
    add("--queue", action="append", type=queue_name, metavar="NAME", help="in this queue; repeat for more")
    add(
        "--task",
        action="append",
        metavar="PATH",
        help="of this task, or of all that begin so: 'shop.tasks.*'; repeat for more",
    )
    add(
        "--state",
        action=States,
        type=state_of(action),
        metavar="STATE",
        help=f"in this state: {', '.join(STATES_OF[action])}; repeat for more (default: all of these)",
    )
    if action in ("retry", "discard"):
        add(
            "--failed-since",
            type=age_or_moment,
            metavar="WHEN",
            help="failed then or later: an age such as 90s, 15m, 2h, 7d, or a time such as 2026-01-31T08:00",
        )
    add(
        "--older-than",
        type=age_or_moment,
        metavar="WHEN",
        help="ended (or enqueued, if it hasn't) longer ago than this age, or before this time",
    )
    add("--all", action="store_true", dest="everything", help="every job that the action can act on")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be done")


def add_pruning(parser: ArgumentParser) -> None:
    """Add the options of `prune`."""
    parser.description = (
        "Delete what is past its retention, as workers do by themselves; or with --older-than, jobs that "
        "ended longer ago than that, whatever their retention. Works in small batches, each committed."
    )
    parser.add_argument(
        "--older-than",
        action="append",
        type=state_age,
        metavar="[STATE=]AGE",
        help="jobs that ended longer ago, such as 7d or failed=30d; repeat for more states",
    )
    parser.add_argument(
        "--batch",
        type=count,
        default=1000,
        metavar="N",
        help="jobs deleted in one transaction (default: 1000)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only count what would be deleted")


class States(Action):
    """Collects states, a group standing for all in it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        known = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*known, *GROUPS.get(values, (values,))])


AGE = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def age(text: str) -> timedelta:
    """Parse a length of time: `90s`, `15m`, `2h`, `7d`, or several as in `1d12h`."""
    found = AGE.fullmatch(text.strip().lower())
    if found is None or not any(found.groups()):
        raise ArgumentTypeError(f"{text!r} is no age such as 90s, 15m, 2h, 7d or 1d12h")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise ArgumentTypeError(f"{text!r} is longer than any job is old") from None


def age_or_moment(text: str) -> timedelta | datetime:
    """Parse an age, or a time in ISO 8601; one without a time zone is in the project's."""
    try:
        found = parse_datetime(text if len(text) > 10 else f"{text}T00:00") if "-" in text else None
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from None
    if found is None:
        try:
            return age(text)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(f"{error}, and no time such as 2026-01-31T08:00") from None
    return timezone.make_aware(found) if timezone.is_naive(found) else found


def state_age(text: str) -> tuple[str | None, timedelta]:
    """Parse `7d`, or `failed=7d`."""
    state, equals, length = text.rpartition("=")
    if not equals:
        return None, age(text)
    if state.lower() not in FINAL_LABELS:
        raise ArgumentTypeError(
            f"only jobs that ended can be pruned, not {state!r}.{suggestion(state.lower(), FINAL_LABELS)}"
        )
    return state.lower(), age(length)


def state_of(action: str) -> Any:
    """Return an argparse type for the states that `action` can act on."""
    allowed = STATES_OF[action]

    def state(text: str) -> str:
        found = text.lower()
        if found in GROUPS and action in ("cancel", "discard"):
            return found
        if found in LABELS and found not in allowed:
            raise ArgumentTypeError(f"{action} can't act on {found} jobs, only on: {', '.join(allowed)}")
        if found not in allowed:
            raise ArgumentTypeError(f"there is no state {text!r}.{suggestion(found, allowed)}")
        return found

    return state


def job_id(text: str, noun: str = "job") -> int:
    """Parse the id of a job; a leading # is no harm."""
    number = id_of(text.removeprefix("#"))
    if number is None:
        raise ArgumentTypeError(f"{text!r} is no {noun}'s id (a whole number)")
    return number


def worker_id(text: str) -> int:
    """Parse the id of a worker, as `status` shows it."""
    return job_id(text, "worker")
