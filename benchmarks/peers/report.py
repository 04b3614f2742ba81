"""What was found, as a text for the terminal, Markdown for docs/performance.md, and JSON."""

from __future__ import annotations

import json
import os
from statistics import median
from typing import Any

from benchmarks.figures import summary
from benchmarks.peers.catalogue import OURS, Contender

COLUMNS = {
    "drain nothing 1": "no-op, 1 process, jobs/s",
    "drain nothing 2": "no-op, 2 processes, jobs/s",
    "drain query 1": "one query, 1 process, jobs/s",
    "drain query 2": "one query, 2 processes, jobs/s",
    "enqueue": "enqueue one by one, jobs/s",
    "p50": "pick-up p50, ms",
    "p95": "pick-up p95, ms",
    "p99": "pick-up p99, ms",
}
STORED = {
    f"stored {kind} {processes}": COLUMNS[f"drain {kind} {processes}"]
    for kind in ("nothing", "query")
    for processes in (1, 2)
}


class Report:
    """All figures of all repetitions."""

    def __init__(self, machine: dict[str, Any]) -> None:
        self.machine = machine
        self.contenders: dict[str, Contender] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self.values: dict[str, dict[str, list[Any]]] = {}
        self.reasons: dict[str, str] = {}
        self.loads: list[float] = []

    def introduce(self, contender: Contender, versions: dict[str, str]) -> None:
        """Note what is measured."""
        self.contenders[contender.name] = contender
        self.versions[contender.name] = versions

    def add(self, contender: Contender, figure: str, value: Any) -> None:
        """Note one value of one repetition."""
        self.values.setdefault(contender.name, {}).setdefault(figure, []).append(value)

    def cannot_run(self, contender: Contender, why: str) -> None:
        """Note why a contender has no figures, or no more of them."""
        self.reasons[contender.name] = " ".join(why.split())

    def load(self) -> None:
        """Note how busy the machine is before a contender's turn: with nothing else on it about 2 or less."""
        self.loads.append(os.getloadavg()[0])

    def version(self, name: str) -> str:
        """Return the version of a contender's own package."""
        return self.versions[name].get(self.contenders[name].package, "?")

    def ratio(self, name: str, figure: str) -> str:
        """Return how many times faster ours is: our rate over theirs, or their wait over ours."""
        theirs, ours = self.values[name].get(figure), self.values.get(OURS.name, {}).get(figure)
        if not theirs or not ours:
            return "—"
        one, other = median(ours), median(theirs)
        value = other / one if figure in ("p50", "p95", "p99") else one / other
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"

    def tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Return each table: its title, its head and its rows."""
        rows = [
            [name, *(summary(found[column]) if column in found else "—" for column in COLUMNS)]
            for name, found in self.values.items()
        ]
        stored = [
            [name, *(summary(found[column]) if column in found else "—" for column in STORED)]
            for name, found in self.values.items()
        ]
        ratios = [
            [name, *(self.ratio(name, column) for column in COLUMNS)]
            for name in self.values
            if self.contenders[name].package != OURS.package
        ]
        settings = [[name, self.version(name), contender.how] for name, contender in self.contenders.items()]
        heads = list(COLUMNS.values())
        tables = [
            ("Figures, median (smallest–largest)", ["queue", *heads], rows),
            ("How many times faster django_jobs was, by the medians of this run", ["queue", *heads], ratios),
            ("Drains until the queue itself shows all as finished", ["queue", *STORED.values()], stored),
            ("Versions and settings", ["queue", "version", "worker"], settings),
        ]
        if self.reasons:
            tables.append(("Could not run", ["queue", "why"], [list(pair) for pair in self.reasons.items()]))
        return tables

    def heading(self) -> str:
        """Return what the figures were found on, in a sentence."""
        about = self.machine
        redis = "no Redis" if "redis" not in about else f"Redis {about['redis'].split('v=')[-1].split()[0]}"
        loads = f"{min(self.loads, default=0):.1f} to {max(self.loads, default=0):.1f}"
        return (
            f"{about['cores']} cores ({about['processor']}), Python {about['python']}, "
            f"PostgreSQL {about['server']['server_version']}, {redis}; "
            f"{self.repetitions()} repetitions, "
            f"drains of about {about['options']['seconds']:g} s; load average before the turns {loads}."
        )

    def repetitions(self) -> str:
        """Return how many values the figures have, as a run may have been ended early."""
        counts = {len(values) for found in self.values.values() for values in found.values()} or {0}
        return "–".join(str(count) for count in sorted({min(counts), max(counts)}))

    def markdown(self) -> str:
        """Return the tables as docs/performance.md has them."""
        parts = [self.heading()]
        for title, head, rows in self.tables():
            lines = [f"**{title}**", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
            parts.append("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]))
        return "\n\n".join(parts)

    def text(self) -> str:
        """Return the tables for a terminal."""
        parts = [self.heading()]
        for title, head, rows in self.tables():
            widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
            lines = [
                "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
                for row in [head, *rows]
            ]
            parts.append("\n".join([title, *lines]))
        return "\n\n".join(parts)

    def json(self) -> str:
        """Return everything, with every value of every repetition."""
        return json.dumps(
            {
                "machine": self.machine | {"load before each turn": self.loads},
                "queues": {
                    name: {
                        "version": self.version(name),
                        "worker": contender.how,
                        "tuned": contender.tuned,
                        "packages": self.versions[name],
                        "figures": self.values.get(name, {}),
                        "ours/theirs": {column: self.ratio(name, column) for column in COLUMNS}
                        if name in self.values
                        else {},
                    }
                    for name, contender in self.contenders.items()
                },
                "could not run": self.reasons,
            },
            indent=2,
        )
