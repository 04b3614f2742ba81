"""
Exceptions as text that the tables can hold, whatever the exception is made of.

A message may be endless, contain NUL or lone surrogates, or raise when asked for: none of it may stop an
outcome from being stored.
"""

from __future__ import annotations

import traceback

from django_jobs.core.records import Trace

CALLERS = frozenset(
    {
        "django_jobs.worker.executor",
        "django_jobs.worker.capturing",
        "django_jobs.tasks",
        "django.tasks.base",
        "django_tasks.base",
    }
)
"""Modules through which a body is called."""

ATTEMPTS = 3
"""Tries to format a traceback: in some releases of Python 3.11 and 3.12 it fails with a SystemError when two
threads are at it at once, since both parse the source (gh-106905)."""


def trace_of(exception: BaseException, *, max_chars: int) -> Trace:
    """
    Return `exception` as text: the traceback cut to `max_chars`, the message to an eighth of it.

    The outermost frames, down to the body's own, are left out: they are always the same.
    """
    kind = type(exception)
    return Trace(
        exception_class=storable(f"{kind.__module__}.{kind.__qualname__}", 500),
        message=storable(message_of(exception), max_chars // 8),
        traceback=storable(traceback_of(exception), max_chars),
    )


def message_of(exception: BaseException) -> str:
    """Return the exception's own text, or what went wrong when it was asked for it."""
    try:
        return str(exception)
    except BaseException as error:  # noqa: BLE001  (a stranger's exception may raise anything)
        return f"<str() of the exception raised {type(error).__name__}>"


def traceback_of(exception: BaseException) -> str:
    """Return the traceback as Python prints it, from the body's own frame on."""
    frames = exception.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__") in CALLERS and frames.tb_next:
        frames = frames.tb_next
    name = type(exception).__qualname__
    for _ in range(ATTEMPTS):
        try:
            return "".join(traceback.format_exception(type(exception), exception, frames))
        except SystemError:
            continue
        except BaseException as error:  # noqa: BLE001  (formatting calls the exception's own code)
            name = f"{name}: <formatting it raised {type(error).__name__}>"
            break
    places = (
        f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}\n'
        for frame, line in traceback.walk_tb(frames)
    )
    return f"{''.join(places)}{name}"


def storable(text: str, max_chars: int) -> str:
    """Return `text` without what PostgreSQL can't hold, the middle cut out and marked when it is too long."""
    if len(text) > max_chars:
        mark = f"\n… {len(text) - max_chars} characters cut …\n"
        half = max(0, max_chars - len(mark)) // 2
        text = text[:half] + mark + text[len(text) - half :]
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
