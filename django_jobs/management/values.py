"""Values of command-line options, as argparse types: each returns what a text means or says what is wrong."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

from django_jobs.backend import problem_of_queue
from django_jobs.conf import QUEUE_NAME_LENGTH, SECONDS, SECONDS_OR_ZERO


def checked(rule: Callable[[float], bool], wanted: str) -> Callable[[str], float]:
    """Return an argparse type for numbers that satisfy `rule`."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not rule(number):
            raise ArgumentTypeError(f"{text!r} is not {wanted}")
        return number

    return parse


seconds = checked(*SECONDS)
seconds_or_zero = checked(*SECONDS_OR_ZERO)


def count(text: str) -> int:
    """Parse a whole number above 0."""
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def queue_name(text: str) -> str:
    """Parse the name of a queue."""
    if problem_of_queue(text):
        raise ArgumentTypeError(f"{text!r} is not the name of a queue (1 to {QUEUE_NAME_LENGTH} characters)")
    return text


def queue_limit(text: str) -> tuple[str, int | None]:
    """Parse `name` or `name:limit`."""
    name, colon, limit = text.rpartition(":")
    if not colon:
        return queue_name(text), None
    return queue_name(name), count(limit)


LONGEST_WORKER_NAME = 190
"""Characters of a worker's name on the command line; a child's has its number behind it."""


def worker_name(text: str) -> str:
    """Parse the name of a worker."""
    if len(text) > LONGEST_WORKER_NAME:
        raise ArgumentTypeError(
            f"a worker's name can't be longer than {LONGEST_WORKER_NAME} characters, but has {len(text)}"
        )
    return text
