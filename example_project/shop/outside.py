"""Calls to other people's HTTP servers, for async tasks. A real project would use a library for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

MAX_HEAD_BYTES = 64 * 1024


class BadAnswer(Exception):
    """A server answered with an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status} {reason}".rstrip())
        self.status = status


async def post(url: str, content: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """
    POST `content` as JSON to `url`.

    Raises BadAnswer for a status that isn't 2xx, and OSError when there is no answer.
    """
    target = urlsplit(url)
    host, tls = target.hostname or "", target.scheme == "https"
    body = json.dumps(content).encode()
    head = {
        "Host": target.netloc.rpartition("@")[2],
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    reader, writer = await asyncio.open_connection(
        host, target.port or (443 if tls else 80), ssl=tls or None, limit=MAX_HEAD_BYTES
    )
    try:
        writer.write("\r\n".join(lines).encode("ascii") + body)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("connection closed without answer") from error
    finally:
        writer.close()
    status, _, reason = answer.partition(" ")[2].strip().partition(" ")
    if not status.isdigit() or not 200 <= int(status) < 300:
        raise BadAnswer(int(status) if status.isdigit() else 0, reason or "no valid answer")
