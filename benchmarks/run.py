"""
Measure what one machine does with django_jobs.

    python -m benchmarks run                          the groups that take minutes, 3 repetitions
    python -m benchmarks run drain pick-up --runs 5   these groups
    python -m benchmarks run --quick                  little of everything, to see that it works
    python -m benchmarks run --all --minutes 10       also the big backlogs: an hour and more

The server is the one that comes with the `demo` extra, with its ordinary settings (every commit is flushed to
disk), or DATABASE_URL. The measurements make databases of their own on it and drop them at the end. Workers
are real `manage.py runjobs` processes. Server, workers and this process share the machine, so only ratios
between figures of one run mean anything elsewhere. What is compared is measured in turns.

groups:
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from benchmarks import figures
from benchmarks.figures import Figures, Found
from benchmarks.ground import (
    NAME,
    Busy,
    Ground,
    benchmark_database,
    benchmark_ground,
    empty,
    one,
    url_of,
    wait_for,
    workers,
)
from benchmarks.sizes import QUICK, Sizes

__all__ = ["NAME", "benchmark_database", "empty", "main", "one", "url_of", "wait_for", "workers"]

Measure = Callable[[Ground, Sizes], Iterator[Found]]


@dataclass(frozen=True)
class Group:
    """Figures that are measured together."""

    about: str
    load: Callable[[], Measure]
    """Returns the function that yields the figures; Django is set up when it is called."""
    big: bool = False
    """Whether it is left out unless asked for."""
    repeats: bool = False
    """Whether it makes its repetitions itself, since what comes before them takes long."""


def from_module(module: str, function: str = "measure") -> Callable[[], Measure]:
    """Return what imports a module's function later: modules that import Django need its settings."""

    def load() -> Measure:
        from importlib import import_module

        found: Measure = getattr(import_module(f"benchmarks.{module}"), function)
        return found

    return load


def backlog(name: str) -> Callable[[], Measure]:
    def load() -> Measure:
        from benchmarks.scale import measure

        return measure(name)

    return load


GROUPS = {
    "enqueue": Group("one after another, beside a bare INSERT", from_module("enqueueing", "one_by_one")),
    "bulk": Group("enqueue_many, all in one transaction", from_module("enqueueing", "bulk")),
    "drain": Group("jobs that wait already, 1 and 2 processes", from_module("draining")),
    "limit": Group("pgbench with the same statements, and ratios to it", from_module("limit")),
    "pick-up": Group("from the commit to the body", from_module("latency", "pick_up")),
    "due": Group("from the due time to the body", from_module("latency", "due")),
    "idle": Group("statements, processor, memory of an idle worker", from_module("idling", "idle")),
    "start": Group("from the command to the first claim", from_module("idling", "start")),
    "clients": Group("many clients enqueue, with and without NOTIFY", from_module("enqueueing", "clients")),
    "listening": Group("many workers listen", from_module("latency", "listening")),
    "processes": Group("more and more worker processes", from_module("draining", "scaling")),
    "held": Group("a transaction is held open elsewhere", from_module("holding")),
    "steady": Group("jobs come one by one meanwhile", from_module("holding", "steady")),
    "finished": Group("beside millions of finished jobs", backlog("finished"), big=True, repeats=True),
    "scheduled": Group("beside jobs scheduled ahead", backlog("scheduled"), big=True, repeats=True),
    "scheduled-first": Group(
        "the same, all of the highest priority", backlog("scheduled-first"), big=True, repeats=True
    ),
    "waiting": Group("with many waiting", backlog("waiting"), big=True, repeats=True),
    "priorities": Group("with many waiting, priorities mixed", backlog("priorities"), big=True, repeats=True),
    "queues": Group("with many waiting in queues, one starving", backlog("queues"), big=True, repeats=True),
}


def measure(
    names: Sequence[str],
    sizes: Sizes,
    told: Callable[[str], None],
    kept: Callable[[Figures], None] = lambda figures: None,
) -> Figures:
    """
    Return every figure of every repetition; those of different groups take turns.

    A group that can't be measured is left out with the reason. `kept` is called after each group.
    """
    found = Figures()
    with benchmark_ground() as ground:
        found.machine = figures.machine(ground.connection, sizes.as_options())
        for number in range(1, sizes.runs + 1):
            for name in names:
                group = GROUPS[name]
                if name in found.skipped or (group.repeats and number > 1):
                    continue
                which = "all repetitions" if group.repeats else f"repetition {number} of {sizes.runs}"
                began = time.monotonic()
                try:
                    for figure in group.load()(ground, sizes):
                        found.add(name, figure)
                except (TimeoutError, RuntimeError, psycopg.Error, OSError) as error:
                    found.skipped[name] = f"{type(error).__name__}: {error}"
                    told(f"{name}, {which}: {found.skipped[name]}")
                    continue
                told(f"{name}, {which}: {time.monotonic() - began:.0f} s")
                kept(found)
        ground.empty()
    return found


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    about = (__doc__ or "") + "\n".join(
        f"  {name:16} {group.about}{' (only when asked for, or with --all)' if group.big else ''}"
        for name, group in GROUPS.items()
    )
    made = argparse.ArgumentParser(prog="python -m benchmarks run", description=about)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("groups", nargs="*", metavar="GROUP", help="what to measure (default: all but the big)")
    made.add_argument("--all", action="store_true", help="the big backlogs too")
    made.add_argument("--quick", action="store_true", help="small sizes, one repetition")
    made.add_argument("--json", type=Path, metavar="FILE", help="file for all figures")
    made.add_argument("--markdown", action="store_true", help="print as docs/performance.md has it")
    normal = Sizes()
    for name, kind, about in (
        ("runs", int, "repetitions of everything"),
        ("jobs", int, "jobs of a drain"),
        ("bulk", numbers, "jobs of one enqueue_many"),
        ("seconds", float, "length of what is measured for a time"),
        ("idle-seconds", float, "how long an idle worker is watched"),
        ("processes", numbers, "worker processes on one database"),
        ("clients", numbers, "processes that enqueue at once"),
        ("listeners", int, "workers that listen at once"),
        ("minutes", float, "how long a transaction is held open"),
        ("finished", int, "rows of the backlog of finished jobs"),
        ("scheduled", int, "jobs scheduled ahead"),
        ("waiting", int, "jobs that wait"),
        ("queues", int, "queues that jobs wait in"),
    ):
        usual = getattr(normal, name.replace("-", "_"))
        shown = ",".join(map(str, usual)) if isinstance(usual, tuple) else f"{usual:g}"
        made.add_argument(f"--{name}", type=kind, metavar="N", help=f"{about} (default: {shown})")
    return made


def chosen_sizes(options: argparse.Namespace) -> Sizes:
    """Return the sizes: `--quick`'s or the usual ones, with what was given besides."""
    base = QUICK if options.quick else Sizes()
    given = {name: getattr(options, name) for name in base.as_options()}
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def main(arguments: list[str]) -> None:
    """Measure, print a table, and write JSON where asked."""
    made = parser()
    options = made.parse_args(arguments)
    if unknown := [name for name in options.groups if name not in GROUPS]:
        made.error(f"there is no group {unknown[0]!r}; the groups are: {', '.join(GROUPS)}")
    names = options.groups or [name for name, group in GROUPS.items() if options.all or not group.big]

    def keep(found: Figures) -> None:
        if options.json:
            options.json.write_text(found.as_json())

    try:
        found = measure(names, chosen_sizes(options), tell, keep)
    except Busy as error:
        sys.exit(str(error))
    print(found.as_markdown() if options.markdown else found.as_text())
    keep(found)
    if found.skipped:
        sys.exit(1)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
