"""oban for Python, with jobs as functions."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from oban import Oban, job
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.marks import mark
from benchmarks.peers.plain import QUERY, key

URL = os.environ["BENCHMARK_URL"]
UNFINISHED = """
    SELECT count(*) FROM oban_jobs WHERE state IN ('available', 'executing', 'scheduled', 'retryable')
"""
pools: list[AsyncConnectionPool[Any]] = []
loop = asyncio.new_event_loop()


@job(queue="default")
async def nothing(number: int) -> None:
    mark(number)


@job(queue="default")
async def query(number: int) -> None:
    if not pools:
        pools.append(AsyncConnectionPool(URL, min_size=1, max_size=10, open=False))
        await pools[0].open()
    async with pools[0].connection() as connection:
        await (await connection.execute(QUERY + "%s", [key(number)])).fetchone()
    mark(number)


JOBS: dict[str, Any] = {"nothing": nothing, "query": query}
clients: list[Oban] = []


async def client() -> Oban:
    """Return an instance that only enqueues."""
    if not clients:
        pools.append(await Oban.create_pool(URL))
        clients.append(Oban(pool=pools[0]))
    return clients[0]


def prepare() -> None:
    async def make() -> None:
        await client()
        await install(pools[0])

    loop.run_until_complete(make())


def enqueue(kind: str, number: int) -> None:
    async def one() -> None:
        await (await client()).enqueue(JOBS[kind].new(number))

    loop.run_until_complete(one())


def enqueue_many(kind: str, numbers: range) -> None:
    async def many() -> None:
        await (await client()).enqueue_many([JOBS[kind].new(number) for number in numbers])

    loop.run_until_complete(many())


def unfinished() -> int:
    async def count() -> int:
        await client()
        async with pools[0].connection() as connection:
            cursor = await connection.execute(UNFINISHED)
            row = await cursor.fetchone()
        return int(row[0]) if row else 0

    return loop.run_until_complete(count())
