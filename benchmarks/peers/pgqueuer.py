"""pgqueuer on asyncpg, the driver its docs begin with."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.marks import mark
from benchmarks.peers.plain import QUERY, key

URL = os.environ["BENCHMARK_URL"]


async def main() -> PgQueuer:
    """Make the worker's application; `pgq run` would call it, but 1.6.0's doesn't start with typer 0.29."""
    app = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))
    pool = await asyncpg.create_pool(URL, min_size=1, max_size=10)

    @app.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        mark(int(job.payload or b""))

    @app.entrypoint("query")
    async def query(job: Job) -> None:
        number = int(job.payload or b"")
        await pool.fetchrow(QUERY + "$1", key(number))
        mark(number)

    return app


async def work(batch_size: int) -> None:
    """Run the worker until it is told to end."""
    app = await main()
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, app.shutdown.set)
    await app.run(batch_size=batch_size)


loop = asyncio.new_event_loop()
opened: list[Any] = []


def queries() -> Queries:
    """Return the queue on the one connection of this client."""
    if not opened:
        opened.append(Queries(AsyncpgDriver(loop.run_until_complete(asyncpg.connect(URL, loop=loop)))))
    found: Queries = opened[0]
    return found


def prepare() -> None:
    loop.run_until_complete(queries().install())


def enqueue(kind: str, number: int) -> None:
    loop.run_until_complete(queries().enqueue(kind, b"%d" % number))


def enqueue_many(kind: str, numbers: range) -> None:
    payloads: list[bytes | None] = [b"%d" % number for number in numbers]
    loop.run_until_complete(queries().enqueue([kind] * len(payloads), payloads, [0] * len(payloads)))


def unfinished() -> int:
    return sum(waiting.count for waiting in loop.run_until_complete(queries().queue_size()))
