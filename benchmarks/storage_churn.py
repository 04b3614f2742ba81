"""
What the storage benchmark runs against its tables: the statements, the clients, and the server's own figures.

`Churn` starts clients that enqueue, claim by the cursor of DESIGN §5 and finish; `Server` is one table in a
schema of its own, with what is asked about it. Used by `benchmarks.storage`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from statistics import median, quantiles
from typing import Any, NamedTuple, Self

import psycopg

from benchmarks.storage_tables import Plain, Split

BATCH = 100
BACKLOG = 10_000
PLAIN_CLAIM_SHARE = 20
"""After a plain claim the next one waits this many times as long: plain claims take under 5 % of the time."""

ENQUEUE = """
    INSERT INTO job (queue_name, task_path, args, kwargs, priority, state, run_after)
    SELECT 'default', 'shop.tasks.send_receipt', '[' || n || ', "someone@example.com"]', '{}',
           (n %% 2) * 10, 'ready', clock_timestamp()
      FROM generate_series(1, %(count)s) AS n
"""
CLAIM = """
    UPDATE {{live}}
       SET state = 'running', attempt = attempt + 1, worker = %(worker)s, last_attempted_at = now(),
           started_at = coalesce(started_at, now())
     WHERE id = ANY(ARRAY({}))
 RETURNING id, attempt, priority, run_after, args
"""
CLAIM_PLAIN = CLAIM.format("""
    SELECT id FROM {live}
     WHERE queue_name = 'default' AND state = 'ready' AND run_after <= now()
     ORDER BY priority DESC, run_after, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
""")
CLAIM_CURSOR = CLAIM.format("""
    SELECT next.id
      FROM unnest(%(priorities)s::smallint[], %(times)s::timestamptz[], %(ids)s::bigint[])
             AS point (priority, at, id)
     CROSS JOIN LATERAL (
           SELECT id FROM {live}
            WHERE queue_name = 'default' AND state = 'ready' AND priority = point.priority
              AND run_after <= now() AND (run_after, id) > (point.at, point.id)
            ORDER BY run_after, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED) AS next
     LIMIT %(limit)s
""")
FINISH = """
    UPDATE job
       SET state = 'successful', finished_at = clock_timestamp(), return_value = '{"sent": true}'
     WHERE id = ANY(%(ids)s::bigint[])
       AND attempt = (%(attempts)s::int[])[array_position(%(ids)s::bigint[], id)]
       AND worker = %(worker)s AND state = 'running'
"""


class Claimer:
    """Claims by the keyset cursor of DESIGN §5, or, with `cursor=False`, only by plain claims."""

    def __init__(self, connection: psycopg.Connection, worker: int, live: str, *, cursor: bool) -> None:
        self.connection, self.worker, self.cursor = connection, worker, cursor
        self.plain_claim, self.cursor_claim = CLAIM_PLAIN.format(live=live), CLAIM_CURSOR.format(live=live)
        self.points: dict[int, tuple[Any, int]] = {}
        self.next_plain = 0.0

    def claim(self) -> list[tuple[Any, ...]]:
        started = time.perf_counter()
        plain = not self.cursor or started >= self.next_plain
        by_priority = sorted(self.points, reverse=True)
        jobs = self.connection.execute(
            self.plain_claim if plain else self.cursor_claim,
            {
                "worker": self.worker,
                "limit": BATCH,
                "priorities": by_priority,
                "times": [self.points[priority][0] for priority in by_priority],
                "ids": [self.points[priority][1] for priority in by_priority],
            },
        ).fetchall()
        if plain:
            ended = time.perf_counter()
            self.next_plain = ended + PLAIN_CLAIM_SHARE * (ended - started)
        for job_id, _, priority, run_after, _ in jobs:
            here = (run_after, job_id)
            self.points[priority] = max(self.points.get(priority, here), here)
        return jobs


class Batch(NamedTuple):
    """When a batch was finished (seconds from the window's start), its jobs, its statements' milliseconds."""

    at: float
    jobs: int
    enqueue: float
    claim: float
    finish: float


class Churn:
    """While entered, clients enqueue, claim and finish; `report()` afterwards tells what came of it."""

    def __init__(self, server: Server, *, clients: int, cursor: bool = True, jobs: int | None = None) -> None:
        self.server, self.cursor, self.jobs = server, cursor, jobs
        self.stop = threading.Event()
        self.batches: list[Batch] = []
        self.errors: list[Exception] = []
        self.moved = 0
        self.threads = [threading.Thread(target=self.client, args=[n + 1]) for n in range(clients)]

    def __enter__(self) -> Self:
        self.before, self.started = self.server.sizes(), time.perf_counter()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.jobs is None:
            self.stop.set()
        for thread in self.threads:
            thread.join()
        self.seconds, self.after = time.perf_counter() - self.started, self.server.sizes()
        if self.errors:
            raise self.errors[0]

    def client(self, worker: int) -> None:
        try:
            with self.server.connect() as connection:
                claimer = Claimer(connection, worker, self.server.table.live, cursor=self.cursor)
                while not self.stop.is_set() and not self.is_complete():
                    marks = [time.perf_counter()]
                    connection.execute(ENQUEUE, {"count": BATCH})
                    marks.append(time.perf_counter())
                    try:
                        jobs = claimer.claim()
                    except psycopg.errors.SerializationFailure:  # "already moved to another partition"
                        self.moved += 1
                        continue
                    marks.append(time.perf_counter())
                    ids, attempts = [job[0] for job in jobs], [job[1] for job in jobs]
                    parameters = {"ids": ids, "attempts": attempts, "worker": worker}
                    written = connection.execute(FINISH, parameters).rowcount
                    marks.append(time.perf_counter())
                    if written != len(jobs):
                        raise AssertionError(f"claimed {len(jobs)} jobs and finished {written}")
                    lengths = [1000 * (end - start) for start, end in pairwise(marks)]
                    self.batches.append(Batch(marks[-1] - self.started, written, *lengths))
        except Exception as error:  # noqa: BLE001 - raised again by __exit__, in the main thread
            self.errors.append(error)

    def is_complete(self) -> bool:
        return self.jobs is not None and sum(batch.jobs for batch in self.batches) >= self.jobs

    def rate(self, start: float, end: float) -> int:
        """Return the jobs per second between two moments, in seconds from the window's start."""
        return round(sum(batch.jobs for batch in self.batches if start <= batch.at < end) / (end - start))

    def halves(self, of: Callable[[Batch], float]) -> list[float]:
        """Return the median of a figure in the first and in the second half of the window."""
        middle = self.seconds / 2
        first = [of(batch) for batch in self.batches if batch.at < middle]
        second = [of(batch) for batch in self.batches if batch.at >= middle]
        return [round(median(half), 2) for half in (first, second)]

    def report(self) -> dict[str, Any]:
        jobs = sum(batch.jobs for batch in self.batches)
        claim = [batch.claim for batch in self.batches]
        cuts = quantiles(claim, n=100)
        grown = {key: self.after[key] - self.before[key] for key in self.before}
        return {
            "table": self.server.table.name,
            "jobs": jobs,
            "jobs/s": round(jobs / self.seconds),
            "halves jobs/s": [self.rate(0, self.seconds / 2), self.rate(self.seconds / 2, self.seconds)],
            "claim p50 ms": round(cuts[49], 2),
            "claim p99 ms": round(cuts[98], 2),
            "claim max ms": round(max(claim), 1),
            "halves claim p50": self.halves(lambda batch: batch.claim),
            "enqueue p50 ms": round(median(batch.enqueue for batch in self.batches), 2),
            "finish p50 ms": round(median(batch.finish for batch in self.batches), 2),
            "halves finish p50": self.halves(lambda batch: batch.finish),
            "finish max ms": round(max(batch.finish for batch in self.batches), 1),
            "claims failed (moved)": self.moved,
            "WAL B/job": round(grown["wal"] / jobs),
            "table MB": round(self.after["table"] / 1e6),
            "index MB": round(self.after["index"] / 1e6),
            "ready index MB": round(self.after["ready"] / 1e6, 1),
            "ready rows": self.after["ready_rows"],
            "autovacuums": grown["vacuums"],
            "autovacuum s": round(grown["vacuum_ms"] / 1000, 1),
        }


class Server:
    """A table in its own schema of the measured server."""

    def __init__(self, url: str, table: Plain | Split) -> None:
        self.url, self.table, self.schema = url, table, f"bench_storage_{table.name}"
        self.own = self.connect()

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, options=f"-c search_path={self.schema}")

    def load(self, finished: int) -> float:
        """Create the schema anew with `finished` rows of history and return how many seconds it took."""
        started = time.perf_counter()
        self.own.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
        self.own.execute(f"CREATE SCHEMA {self.schema}")
        self.own.execute("SET maintenance_work_mem = '512MB'")
        self.table.create(self.own, finished)
        self.own.execute("RESET maintenance_work_mem")
        self.own.execute(ENQUEUE, {"count": BACKLOG})
        with suppress(psycopg.errors.InsufficientPrivilege):
            self.own.execute("CHECKPOINT")  # or the first window would pay for the load
        return time.perf_counter() - started

    def sizes(self) -> dict[str, int]:
        """Return the WAL position, bytes, ready rows, and autovacuum's counters (its time from 18 on)."""
        row = self.own.execute(
            """SELECT pg_current_wal_insert_lsn() - '0/0',
                      sum(pg_relation_size(oid)) FILTER (WHERE relkind = 'r'),
                      sum(pg_relation_size(oid)) FILTER (WHERE relkind = 'i'),
                      sum(pg_relation_size(oid)) FILTER (WHERE relname = 'job_ready'),
                      (SELECT count(*) FROM job WHERE state = 'ready'),
                      (SELECT sum(autovacuum_count) FROM pg_stat_all_tables WHERE schemaname = %(schema)s),
                      (SELECT sum(coalesce((to_jsonb(s) ->> 'total_autovacuum_time')::float8, 0))
                         FROM pg_stat_all_tables s WHERE schemaname = %(schema)s)
                 FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'i')""",
            {"schema": self.schema},
        ).fetchone()
        names = ("wal", "table", "index", "ready", "ready_rows", "vacuums", "vacuum_ms")
        return dict(zip(names, (int(value) for value in row or ()), strict=True))

    @contextmanager
    def autovacuum(self) -> Iterator[None]:
        """Switch autovacuum of the live rows on; at the end, let it finish what it began."""
        switch = f"ALTER TABLE {self.table.live} SET (autovacuum_enabled = {{}})"
        self.own.execute(switch.format("on"))
        yield
        eventually(lambda: self.value("SELECT NOT EXISTS (SELECT FROM pg_stat_progress_vacuum)"), seconds=60)
        self.own.execute(switch.format("off"))

    @contextmanager
    def report_open(self) -> Iterator[None]:
        """Hold a REPEATABLE READ transaction that has locked all partitions as a dump does."""
        with self.connect() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            connection.execute("LOCK TABLE job IN ACCESS SHARE MODE")
            connection.execute("SELECT FROM job LIMIT 1")
            yield

    def value(self, query: str) -> Any:
        row = self.own.execute(query).fetchone()
        return row[0] if row else None

    def claim_buffers(self) -> int:
        """Return how many buffers a plain claim of a hundred jobs visits, a figure without noise."""
        with self.connect() as connection, connection.transaction(force_rollback=True):
            plan = connection.execute(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)" + CLAIM_PLAIN.format(live=self.table.live),
                {"worker": 0, "limit": BATCH},
            ).fetchone()
        found = next(part for part in plan[0][0]["Plan"]["Plans"] if "Subplan Name" in part) if plan else {}
        return int(found["Shared Hit Blocks"] + found["Shared Read Blocks"])

    def vacuum(self, options: str = "VERBOSE") -> tuple[float, int]:
        """Vacuum the tables that the churn writes to; return the seconds and the passes over indexes."""
        notices: list[str] = []
        started = time.perf_counter()
        with self.connect() as connection:
            connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
            for table in self.table.hot_tables:
                connection.execute(f"VACUUM ({options}) {table}")
        passes = sum(int(found) for found in re.findall(r"index scans: (\d+)", "\n".join(notices)))
        return time.perf_counter() - started, passes


def eventually(is_so: Callable[[], Any], *, seconds: float) -> None:
    deadline = time.perf_counter() + seconds
    while not is_so() and time.perf_counter() < deadline:
        time.sleep(0.2)
