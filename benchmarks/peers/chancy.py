"""chancy, with jobs on its event loop and a worker as its docs' first example has it."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from chancy import Chancy, Queue, Worker, job
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.marks import mark
from benchmarks.peers.plain import QUERY, key

URL = os.environ["BENCHMARK_URL"]
log = logging.getLogger("chancy")
log.setLevel(logging.WARNING)
chancy = Chancy(URL, log=log)
pools: list[AsyncConnectionPool[Any]] = []


@job()
async def nothing(*, number: int) -> None:
    mark(number)


@job()
async def query(*, number: int) -> None:
    async with pools[0].connection() as connection:
        await (await connection.execute(QUERY + "%s", [key(number)])).fetchone()
    mark(number)


JOBS = {"nothing": nothing.job, "query": query.job}


def prepare() -> None:
    async def install() -> None:
        async with chancy:
            await chancy.migrate()
            await chancy.declare(
                Queue(
                    "default",
                    concurrency=int(os.environ["PEERS_SLOTS"]),
                    executor="chancy.executors.asyncex.AsyncExecutor",
                    eager_polling=True,
                )
            )

    asyncio.run(install())


def enqueue(kind: str, number: int) -> None:
    chancy.sync_push(JOBS[kind].with_kwargs(number=number))


def enqueue_many(kind: str, numbers: range) -> None:
    # It pushes a piece whenever it is asked for the next one's references.
    list(chancy.sync_push_many([JOBS[kind].with_kwargs(number=number) for number in numbers]))


def unfinished() -> int:
    with chancy.sync_pool.connection() as connection:
        row = connection.execute(
            "SELECT count(*) FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying')"
        ).fetchone()
    return int(row[0]) if row else 0


async def work() -> None:
    """Run the worker until it is told to end."""
    async with chancy, AsyncConnectionPool(URL, min_size=1, max_size=10) as pool:
        pools.append(pool)
        async with Worker(chancy) as worker:
            await worker.wait_for_shutdown()
