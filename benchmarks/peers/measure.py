"""
What is measured of one contender, each time on a fresh copy of its prepared database and an empty Redis.

drain      the jobs wait already, then the workers start. Every body records when it ran, in the same way
           for all queues: a no-op when it began, a job with a query when that was answered. The clock runs
           from the first body to the last; with two processes from the first one of the process that began
           last. `stored` is the same until the queue itself shows nothing unfinished, with what it writes
           later in bulk.
pick-up    of jobs enqueued one by one with pauses, for an idle worker: from the return of the enqueue call,
           when the commit is done, to the begin of the body
enqueue    one call after another, each its own commit, no worker running
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import percentile
from benchmarks.ground import PATIENCE, wait_for
from benchmarks.peers.catalogue import Contender
from benchmarks.peers.environments import CHECKOUT
from benchmarks.peers.marks import FILE, Mark, Marks, marks_for
from benchmarks.peers.servers import NAME, Databases, Redis

GAP_SECONDS = 0.05
"""Mean pause between two jobs of an otherwise idle worker."""

WARM_UP = 5
"""Jobs before the first that counts: connections are open and code is loaded then."""


class Failed(RuntimeError):
    """A contender did not get through a measurement; the message says how far it came and what it printed."""


class TooShort(RuntimeError):
    """A drain was over before all processes had a fair part in it, so it has no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a contender runs on: its Python, its prepared database, the servers."""

    python: str
    template: str
    databases: Databases
    redis: Redis | None


class Client:
    """The process that enqueues, in the contender's environment."""

    def __init__(self, python: str, environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [python, "-m", "benchmarks.peers.client"],
                env=environment,
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Have it do something and return the answer. Raises Failed when it has ended."""
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            print(json.dumps([verb, *arguments]), file=self.process.stdin, flush=True)
        if not (line := self.process.stdout.readline()):
            raise Failed(f"{verb}: {end_of(self.log)}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        end([self.process])
        self.process.stdout.close()


class Session:
    """One measurement's database, environment and processes."""

    def __init__(self, contender: Contender, place: Place, url: str, marks: Path, folder: Path) -> None:
        self.contender, self.place, self.url = contender, place, url
        self.log = folder / "log"
        self.environment = environment(contender, url, place.redis) | {FILE: str(marks)}
        self.client = Client(place.python, self.environment, self.log)
        self.running: list[subprocess.Popen[Any]] = []

    @contextmanager
    def workers(self, processes: int) -> Iterator[None]:
        """Run the contender's own worker commands."""
        with self.log.open("ab") as log:
            for arguments in self.contender.workers(processes):
                command = [self.place.python, *(word.replace("{url}", self.url) for word in arguments)]
                self.running.append(
                    subprocess.Popen(
                        command,
                        env=self.environment,
                        cwd=CHECKOUT,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        try:
            yield
        finally:
            end(self.running)
            self.running = []

    def wait(self, marks: Marks, numbers: range) -> None:
        """Wait until the bodies of these jobs have run. Raises Failed, also as soon as a worker has ended."""

        def ran() -> bool:
            if any(worker.poll() is not None for worker in self.running):
                raise Failed(f"a worker ended by itself: {end_of(self.log)}")
            return all(marks.read(number) for number in numbers)

        try:
            wait_for(ran, pause=0.01)
        except TimeoutError:
            raise Failed(
                f"{len(marks.all())} of {marks.jobs} jobs within {PATIENCE:.0f} s: {end_of(self.log)}"
            ) from None


@contextmanager
def session(contender: Contender, place: Place, jobs: int) -> Iterator[tuple[Session, Marks]]:
    """Set up one measurement of so many jobs, and clear away after it."""
    if contender.redis and place.redis:
        place.redis.say("FLUSHALL")
    with (
        tempfile.TemporaryDirectory(prefix="django-jobs-peers-") as folder,
        marks_for(jobs) as (path, marks),
        place.databases.copy(place.template) as url,
    ):
        found = Session(contender, place, url, path, Path(folder))
        try:
            yield found, marks
        finally:
            found.client.close()


def prepare(contender: Contender, python: str, databases: Databases, redis: Redis | None) -> Place:
    """Have the contender make its tables in a template. Raises Failed."""
    template = f"{NAME}_{contender.identifier}"
    url = databases.new_template(template)
    with tempfile.TemporaryDirectory(prefix="django-jobs-peers-") as folder:
        client = Client(python, environment(contender, url, redis), Path(folder) / "log")
        try:
            client.ask("prepare")
        finally:
            client.close()
    return Place(python=python, template=template, databases=databases, redis=redis)


def drain(contender: Contender, place: Place, kind: str, jobs: int, processes: int) -> dict[str, float]:
    """Return the jobs/s of bodies, and of jobs that the queue shows as finished. Raises Failed."""
    with session(contender, place, jobs) as (found, marks):
        found.client.ask("many", kind, jobs)
        place.databases.settle(found.url)
        with found.workers(processes):
            # Jobs run nearly in order, so the last ones tell cheaply when to begin asking the queue.
            found.wait(marks, range(max(0, jobs - 20), jobs))
            wait_for(lambda: found.client.ask("unfinished") == 0, pause=0.01)
            stored_at = time.time()
            found.wait(marks, range(jobs))
        ran = marks.all()
    since, until, counted = window(ran)
    if (began := len({mark.process for mark in ran})) < processes or counted < jobs / 4:
        raise TooShort(
            f"{began} of {processes} processes had a part in {jobs} jobs, {counted} of them after all had "
            f"begun; a larger --seconds gives them more"
        )
    return {
        "bodies": counted / (until - since),
        "stored": counted / (stored_at - since),
        "jobs": jobs,
        "counted": counted,
        "repeated": sum(mark.runs - 1 for mark in ran),
    }


def window(ran: list[Mark]) -> tuple[float, float, int]:
    """
    Return when all processes had begun, the last body, and how many bodies began after the former.

    So a second worker that starts later than the first doesn't count as half a worker.
    """
    first: dict[int, float] = {}
    for mark in ran:
        first[mark.process] = min(mark.at, first.get(mark.process, mark.at))
    since, until = max(first.values()), max(mark.at for mark in ran)
    return since, until, sum(since < mark.at for mark in ran)


def pick_up(contender: Contender, place: Place, jobs: int) -> dict[str, float]:
    """Return percentiles of the milliseconds from commit to body in an idle worker. Raises Failed."""
    jobs += WARM_UP
    with session(contender, place, jobs) as (found, marks), found.workers(1):
        found.client.ask("spaced", 0, WARM_UP, GAP_SECONDS)
        found.wait(marks, range(WARM_UP))
        committed = found.client.ask("spaced", WARM_UP, jobs, GAP_SECONDS)
        found.wait(marks, range(jobs))
        began = [mark.at for mark in marks.all()][WARM_UP:]
    waits = [(body - commit) * 1000 for body, commit in zip(began, committed, strict=True)]
    return {f"p{percent}": percentile(waits, percent) for percent in (50, 95, 99)}


def enqueue(contender: Contender, place: Place, jobs: int) -> float:
    """Return the jobs/s of one enqueue after another. Raises Failed."""
    with session(contender, place, jobs) as (found, _):
        return float(found.client.ask("one_by_one", jobs))


def environment(contender: Contender, url: str, redis: Redis | None) -> dict[str, str]:
    """Return the environment of the contender's processes: nothing of ours but what they are to know."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "VIRTUAL_ENV")
    }
    found = inherited | {
        "BENCHMARK_URL": url,
        "PEERS_MODULE": contender.module,
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
    }
    found.pop("DJANGO_SETTINGS_MODULE", None)
    if contender.apps is not None:
        found["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.settings"
        found["PEERS_SETTINGS"] = json.dumps({"APPS": contender.apps, **contender.settings})
    if redis:
        found["PEERS_REDIS"] = redis.url
    return found | contender.environment


def end(running: list[subprocess.Popen[Any]]) -> None:
    """End processes that lead a session each, kindly first, and whatever they have started and left."""
    for process in running:
        process.terminate()
    for process in running:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def end_of(log: Path) -> str:
    """Return the last words of a log."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " / ".join(line.strip() for line in lines[-4:])[-600:] or "it printed nothing"
