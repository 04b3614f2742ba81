"""Enqueueing: one by one beside a bare INSERT, in bulk, and from many clients at once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

from benchmarks.figures import JOBS_PER_SECOND, MILLISECONDS, RATIO, Found
from benchmarks.ground import PATIENCE, Ground
from benchmarks.sizes import Sizes

SLICES = 10
"""Turns that two things to compare take, so that both see the same disk."""

BARE = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, max_attempts, meta,
        enqueued_at, run_after)
    VALUES (%s, %s, %s, %s, %s, %s, 0, 0, %s, %s, now(), now()) RETURNING id
"""


def one_by_one(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """
    Enqueue one job after another, each its own commit, in turns with the bare INSERT of the same row: as
    psycopg sends it, prepared after some times; not prepared; and by Django's cursor. That prepares nothing
    unless its settings say so, and both are measured.
    """
    from django.db import connection as djangos

    from benchmarks.tasks import nothing

    ground.empty()
    row = ("default", nothing.module_path, "[1]", "{}", 0, "READY", 5, "{}")
    rounds = max(5, sizes.jobs // 40 // SLICES)
    ours: list[float] = []
    bare: list[float] = []
    unprepared: list[float] = []
    by_django: list[float] = []
    preparing: list[float] = []

    def by_djangos_cursor(number: int) -> None:
        with djangos.cursor() as cursor:
            cursor.execute(BARE, row)
            cursor.fetchone()

    with psycopg.connect(ground.url, autocommit=True) as connection:
        for _ in range(SLICES):
            bare += timed(rounds, lambda _: connection.execute(BARE, row).fetchone())
            unprepared += timed(rounds, lambda _: connection.execute(BARE, row, prepare=False).fetchone())
            by_django += timed(rounds, by_djangos_cursor)
            ours += timed(rounds, lambda number: nothing.enqueue(number))
            with prepared(djangos):
                timed(10, lambda number: nothing.enqueue(number))
                preparing += timed(rounds, lambda number: nothing.enqueue(number))
    yield Found("enqueue() one by one", JOBS_PER_SECOND, len(ours) / sum(ours))
    yield Found("enqueue(), median", MILLISECONDS, median(ours) * 1000)
    yield Found("the same where Django's connection prepares, median", MILLISECONDS, median(preparing) * 1000)
    yield Found("bare psycopg INSERT and commit, median", MILLISECONDS, median(bare) * 1000)
    yield Found("bare INSERT, not prepared, median", MILLISECONDS, median(unprepared) * 1000)
    yield Found("bare INSERT by Django's cursor, median", MILLISECONDS, median(by_django) * 1000)
    yield Found("enqueue() takes, of the bare INSERT's median", RATIO, median(ours) / median(bare))
    yield Found("enqueue() takes, of the unprepared one's median", RATIO, median(ours) / median(unprepared))
    yield Found("enqueue() takes, of that by Django's cursor", RATIO, median(ours) / median(by_django))
    yield Found(
        "enqueue() takes, both prepared, of the bare INSERT's median", RATIO, median(preparing) / median(bare)
    )
    yield Found("enqueue() takes, of the bare INSERT's sum", RATIO, sum(ours) / sum(bare))


@contextmanager
def prepared(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Have Django's connection prepare statements, as docs/performance.md tells those who have no pooler."""
    options = connection.settings_dict["OPTIONS"]
    usual = dict(options)
    options |= {"prepare_threshold": 5, "server_side_binding": True}
    connection.close()
    try:
        yield
    finally:
        options.clear()
        options |= usual
        connection.close()


def timed(times: int, act: Callable[[int], object]) -> list[float]:
    """Return how many seconds each of some calls took."""
    found = []
    for number in range(times):
        began = time.perf_counter()
        act(number)
        found.append(time.perf_counter() - began)
    return found


def bulk(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Enqueue many jobs in one call and one transaction."""
    from benchmarks.tasks import nothing

    for count in sizes.bulk:
        ground.empty()
        began = time.perf_counter()
        nothing.enqueue_many((number,) for number in range(count))
        yield Found(f"enqueue_many() of {count:,}", JOBS_PER_SECOND, count / (time.perf_counter() - began))


def clients(ground: Ground, sizes: Sizes) -> Iterator[Found]:
    """Enqueue one by one from several processes at once, while somebody listens."""
    for count in sizes.clients:
        for notify in (True, False):
            ground.empty()
            with psycopg.connect(ground.url, autocommit=True) as listening:
                listening.execute("LISTEN django_jobs")
                total = enqueued_by(ground, count, sizes.seconds, notify=notify)
            name = f"{count} clients" if count > 1 else "1 client"
            told = "with notification" if notify else "without notification"
            yield Found(f"enqueue() by {name}, {told}", JOBS_PER_SECOND, total / sizes.seconds)


def enqueued_by(ground: Ground, count: int, seconds: float, *, notify: bool) -> int:
    """Return how many jobs so many processes enqueued in so many seconds, beginning together."""
    environment = ground.environment(BENCHMARK_NOTIFY="1" if notify else "0")
    command = [sys.executable, "-m", "benchmarks.client", str(seconds)]
    running = [
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for _ in range(count)
    ]
    try:
        for client in running:
            assert client.stdout is not None
            if client.stdout.readline() != "ready\n":
                raise RuntimeError("a client could not start")
        for client in running:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        return sum(int(client.communicate(timeout=PATIENCE)[0]) for client in running)
    finally:
        for client in running:
            client.kill()
            client.wait()
