"""
Telling workers that there is work: one NOTIFY, after the commit.

A NOTIFY inside the enqueuing transaction takes a lock of the whole cluster that is held through the
commit's flush to disk: with eight committing clients it cost 59-64 % of the commits. As a statement of its
own that doesn't wait for the disk it costs 17 %, and next to nothing when debounced.

A payload is JSON: `{"wake": [[queue, priority, seconds since 1970, async], …], "silence": seconds}`. Without
its last value an entry is about either kind of slot. An empty list means "look everywhere"; a `silence` above
0 asks workers to look everywhere once more when it is over, since the sender may spare notifications until
then. `{"hello": worker}` is a worker's word to its own listener, to see whether notifications arrive at all.
`{"ask": [worker, …]}` has workers look at their rows, where it stands what someone asked them to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from django_jobs.core.records import Wake
from django_jobs.store.cursor import Cursor, Statement

# The setting holds for this statement's own transaction: no flush to disk, and no second round trip.
NOTIFY = """
    SELECT set_config('synchronous_commit', 'off', true), pg_notify(%(channel)s, %(payload)s)
"""

LARGEST_PAYLOAD = 7_900
"""Bytes; PostgreSQL refuses 8000 and more."""

LONGEST_SILENCE = 3600.0
"""Seconds; a longer one is not ours."""


def notify(cursor: Cursor, channel: str, wakes: Iterable[Wake], *, silence: float) -> None:
    """Send one notification for `wakes`."""
    cursor.execute(*notification(channel, wakes, silence=silence))


def notification(channel: str, wakes: Iterable[Wake], *, silence: float = 0) -> Statement:
    """Return the statement that sends one notification for `wakes`."""
    return NOTIFY, {"channel": channel, "payload": payload(wakes, silence=silence)}


def payload(wakes: Iterable[Wake], *, silence: float) -> str:
    """Return the payload for `wakes`, or the one that means "look everywhere" when it would be too long."""
    entries = [
        [wake.queue_name, wake.priority, wake.run_after.timestamp()]
        + ([] if wake.is_async is None else [int(wake.is_async)])
        for wake in wakes
    ]
    text = json.dumps({"wake": entries, "silence": silence}, separators=(",", ":"))
    if len(text) > LARGEST_PAYLOAD:  # json.dumps writes ASCII: characters are bytes
        text = json.dumps({"wake": [], "silence": silence}, separators=(",", ":"))
    return text


def hello(channel: str, worker: int) -> Statement:
    """Return the statement with which a worker tries whether its own listener hears anything."""
    return NOTIFY, {"channel": channel, "payload": json.dumps({"hello": worker})}


def greeted(text: str) -> int | None:
    """Return the worker that said hello with this payload; `None` when it is none."""
    if not text.startswith('{"hello": '):
        return None
    digits = text.removeprefix('{"hello": ').removesuffix("}")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None


def asking(channel: str, workers: Sequence[int]) -> Statement:
    """Return the statement that has workers look at once at what they were asked to do."""
    return NOTIFY, {"channel": channel, "payload": json.dumps({"ask": list(workers)})[:LARGEST_PAYLOAD]}


def asked(text: str) -> list[int] | None:
    """Return the workers that this payload has look at their rows; `None` when it is none of these."""
    if not text.startswith('{"ask": '):
        return None
    try:
        return [number for number in json.loads(text)["ask"] if type(number) is int]
    except (ValueError, TypeError, RecursionError):
        return []


def parse(text: str) -> tuple[list[Wake], float]:
    """
    Return the wakes of a payload, and how many seconds its sender may keep silent.

    Anyone who may connect can send on the channel, so anything that isn't ours means "look everywhere".
    """
    try:
        found = json.loads(text)
        silence = float(found["silence"])
        return [wake_of(*entry) for entry in found["wake"]], silence if 0 < silence <= LONGEST_SILENCE else 0
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return [], 0


def wake_of(queue: object, priority: object, seconds: float, is_async: object = None) -> Wake:
    """Return one entry of a payload. Raises a ValueError or TypeError for what no row can have."""
    if not isinstance(queue, str) or not isinstance(priority, int) or not -(2**15) <= priority < 2**15:
        raise ValueError("no queue or priority")
    if not queue or "\0" in queue or len(queue.encode()) > LARGEST_PAYLOAD:  # encode: no lone surrogates
        raise ValueError("no name of a queue")
    if is_async not in (None, 0, 1):
        raise ValueError("no kind of slot")
    known = None if is_async is None else bool(is_async)
    return Wake(queue, int(priority), datetime.fromtimestamp(seconds, UTC), known)
