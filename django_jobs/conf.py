"""
The project's choices: the dict `DJANGO_JOBS` in Django's settings, as one frozen, typed object.

Read it with `current()` at the edges and hand plain values down. A wrong key or value is reported by
`manage.py check` (see `checks.py`) and raised as `UnknownSetting` where the settings are first used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.db import router

from django_jobs.core.backoff import DEFAULT, LONGEST, Policy, is_policy
from django_jobs.exceptions import UnknownSetting, suggestion

QUEUE_NAME_LENGTH = 128
"""Longest name of a queue, in characters."""

TASK_PATH_LENGTH = 500
"""Longest dotted path of a task, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a project may choose. Times without a unit in their name are `timedelta`s."""

    database: str | None = None
    """Alias of the database that holds the queue; `None` asks the database routers, as models do."""

    max_attempts: int | None = 5
    """Runs a job may have before it fails for good; `None` for no limit. With the default backoff, five
    span three to seven minutes: enough to outlive a restart, and a person hears of it soon."""

    backoff: Policy = DEFAULT
    """How long to wait before the next attempt."""

    timeout: timedelta | None = None
    """How long a body may run; `None` for no limit. A task's own `timeout` goes before its queue's."""

    queue_timeouts: Mapping[str, timedelta] = field(default_factory=dict)
    """Timeouts of single queues, by name; each goes before `timeout`."""

    transactional_timeout: timedelta = timedelta(seconds=60)
    """Limit of `transactional=True` bodies without one of their own, since they hold a transaction open."""

    keep_successful: timedelta | None = timedelta(days=1)
    """How long successful jobs stay; zero deletes them at once, `None` keeps them for ever."""

    keep_failed: timedelta | None = timedelta(days=14)
    """How long failed and cancelled jobs stay, to be looked at and retried."""

    keep_workers: timedelta = timedelta(days=14)
    """How long the rows of workers that ended stay, so that histories can name them."""

    unknown_task_after: timedelta = timedelta(hours=1)
    """How long a due job may wait for a worker that knows its task before it fails: the length of the
    slowest deployment."""

    max_argument_bytes: int = 4 * 1024 * 1024
    """Largest JSON of one job's arguments, and of a return value, in bytes."""

    max_error_chars: int = 32_768
    """Largest stored traceback; messages get an eighth of it. What is cut off is marked."""

    poll_seconds: float = 5.0
    """Longest wait for work when no notification comes; it is a safety net, so it may be slow."""

    notify: bool = True
    """Whether enqueueing sends a NOTIFY after its commit, and workers listen for it."""

    channel: str = "django_jobs"
    """Name of the notification channel; one for each set of queue tables in a database."""

    notify_per_second: float = 50.0
    """Notifications a process may send in a second; between two of them, what is committed is found
    because the earlier one asked workers to look again."""

    listen_database: str | None = None
    """Alias of a direct connection for the listener, where `database` goes through a pooler that can't
    carry LISTEN."""

    prepared_statements: bool = True
    """Whether a worker's own connection prepares its statements; off for poolers that can't carry them."""

    lock_class: int = 1_684_696_930
    """First key of the advisory locks that show that a worker lives ('djob' as a number); change it if
    your project uses the same."""

    heartbeat_seconds: float = 10.0
    """How often a worker renews its row."""

    dead_after_seconds: float = 30.0
    """How long after its last heartbeat the jobs of a worker that died without a sign run elsewhere."""

    rescue_seconds: float = 1.0
    """How often a worker looks for dead ones while others are about. Of more than five workers each looks
    less often, so that together they look about five times in this time."""

    prune_seconds: float = 60.0
    """How often a worker deletes what has expired."""

    prune_batch: int = 1_000
    """Rows deleted in one statement."""

    shutdown_seconds: float = 30.0
    """How long running jobs may go on after a stop was asked for, before they are handed back."""

    threads: int = 10
    """Slots for sync jobs in each worker process."""

    async_slots: int = 10
    """Slots for async jobs in each worker process."""

    startup_wait_seconds: float = 60.0
    """How long `runjobs` waits at its start for the database and its tables before it gives up."""

    capture_lines: int = 200
    """Log lines kept of one run, for tasks with the option `capture`: the first and the last half."""

    capture_bytes: int = 32_768
    """Largest log kept of one run, in bytes; no line may take more than a quarter."""

    capture_level: str = "DEBUG"
    """Lowest level that is kept of what the project's loggers let through."""

    sensitive_names: tuple[str, ...] = ("password", "secret", "token", "api_key", "authorization", "card")
    """Arguments whose name contains one of these are masked wherever they are shown."""

    log_arguments: bool = False
    """Whether log records carry the arguments of jobs."""


@cache
def current() -> Settings:
    """Return the settings in force. Raises UnknownSetting naming the first key or value that is wrong."""
    given = getattr(django_settings, "DJANGO_JOBS", {})
    problems = list(problems_of(given, "DJANGO_JOBS"))
    if problems:
        raise UnknownSetting(problems[0])
    return Settings(**given)


def problems_of(given: Any, name: str, allowed: frozenset[str] | None = None) -> list[str]:
    """Return a sentence for each wrong key or value in `given`, a dict with the fields of `Settings`."""
    if not isinstance(given, Mapping):
        return [f"{name} must be a dict, not {given!r}."]
    known = allowed if allowed is not None else frozenset(RULES)
    problems = []
    for key, value in given.items():
        if key not in known:
            problems.append(f"{name} has no setting {key!r}.{suggestion(str(key), known)}")
        elif not RULES[key][0](value):
            problems.append(f"{name}[{key!r}] must be {RULES[key][1]}, not {value!r}.")
    return problems


def database() -> str:
    """Return the alias of the database that holds the queue tables."""
    chosen = current().database
    if chosen is not None:
        return chosen
    from django_jobs.models import Job  # not at import: settings are read before the models are loaded

    return router.db_for_write(Job)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_attempts(value: Any) -> bool:
    return is_count(value) and value <= MOST_ATTEMPTS


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_positive(value: Any) -> bool:
    return is_number(value) and 0 < value < float("inf")


def is_seconds(value: Any) -> bool:
    return is_positive(value) and value <= LONGEST.total_seconds()


def is_seconds_or_zero(value: Any) -> bool:
    return is_seconds(value) or (is_number(value) and value == 0)


def is_duration(value: Any) -> bool:
    return isinstance(value, timedelta) and timedelta(0) < value <= LONGEST


def is_retention(value: Any) -> bool:
    return value is None or (isinstance(value, timedelta) and timedelta(0) <= value <= LONGEST_KEPT)


def is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(is_text(name) for name in value)


def optional(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or rule(value)


TEXT = (is_text, "a text")
BOOL = (is_bool, "True or False")
COUNT = (is_count, "a whole number above 0")
MOST_ATTEMPTS = 2**31 - 1
"""PostgreSQL's integer holds no more."""

POSITIVE = (is_positive, "a number above 0")
SECONDS = (is_seconds, f"a number of seconds above 0, at most {LONGEST.days} days")
SECONDS_OR_ZERO = (is_seconds_or_zero, f"a number of seconds, 0 or more, at most {LONGEST.days} days")
LONGEST_KEPT = timedelta(days=36_500)
"""Later than that an expiry may be outside of the calendar."""

DURATION = (is_duration, f"a timedelta above zero, at most {LONGEST.days} days")
RETENTION = (
    is_retention,
    f"a timedelta (zero deletes at once) of at most {LONGEST_KEPT.days} days, or None (keep for ever)",
)

RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "database": (optional(is_text), "a database alias or None"),
    "max_attempts": (
        optional(is_attempts),
        f"a whole number from 1 to {MOST_ATTEMPTS:,}, or None for no limit",
    ),
    "backoff": (is_policy, "a policy such as Exponential(…), or a callable(attempt, exception)"),
    "timeout": (optional(is_duration), f"{DURATION[1]}, or None for no limit"),
    "queue_timeouts": (
        lambda value: (
            isinstance(value, Mapping) and all(is_text(k) and is_duration(v) for k, v in value.items())
        ),
        f"a dict from queue names to timedeltas above zero, at most {LONGEST.days} days",
    ),
    "transactional_timeout": DURATION,
    "keep_successful": RETENTION,
    "keep_failed": RETENTION,
    "keep_workers": DURATION,
    "unknown_task_after": DURATION,
    "max_argument_bytes": COUNT,
    "max_error_chars": (lambda value: is_count(value) and value >= 1000, "a whole number, 1000 or more"),
    "poll_seconds": SECONDS,
    "notify": BOOL,
    "channel": (
        lambda value: is_text(value) and "\0" not in value and len(value.encode(errors="replace")) < 64,
        "a text of less than 64 bytes, as PostgreSQL's names are",
    ),
    "notify_per_second": POSITIVE,
    "listen_database": (optional(is_text), "a database alias or None"),
    "prepared_statements": BOOL,
    "lock_class": (
        lambda value: type(value) is int and -(2**31) <= value < 2**31,
        "a whole number that fits PostgreSQL's integer",
    ),
    "heartbeat_seconds": SECONDS,
    "dead_after_seconds": SECONDS,
    "rescue_seconds": SECONDS,
    "prune_seconds": SECONDS,
    "prune_batch": COUNT,
    "shutdown_seconds": SECONDS_OR_ZERO,
    "threads": COUNT,
    "async_slots": COUNT,
    "startup_wait_seconds": SECONDS_OR_ZERO,
    "capture_lines": COUNT,
    "capture_bytes": (
        lambda value: is_count(value) and 1000 <= value <= 2**27,
        "a whole number from 1000 to 134,217,728",
    ),
    "capture_level": (
        lambda value: isinstance(value, str) and value in logging.getLevelNamesMapping(),
        "the name of a level of logging, such as 'INFO'",
    ),
    "sensitive_names": (is_names, "a list of texts"),
    "log_arguments": BOOL,
}
"""For each setting: what a value must satisfy, and how to say so."""

assert set(RULES) == {setting.name for setting in fields(Settings)}, "every setting needs its rule"


def forget(*, setting: str, **kwargs: Any) -> None:
    """Read the settings anew after `override_settings`."""
    if setting in {"DJANGO_JOBS", "DATABASE_ROUTERS"}:
        current.cache_clear()


setting_changed.connect(forget, dispatch_uid="django_jobs.conf.forget")
