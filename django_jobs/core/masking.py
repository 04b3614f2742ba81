"""
Masking: what stands under a sensitive name is replaced before a person sees it.

Comes in: arguments, results and meta as Python values, with the names from `conf.sensitive_names`. Goes out:
the same values for pages and log records. Nothing stored is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django_jobs.core import rich

MASK = "••••••"
"""Stands for a value that isn't shown; its length says nothing of the value's."""


def is_sensitive(name: object, names: Collection[str]) -> bool:
    """Whether `name` contains one of `names`, whatever the case, and with - and _ alike."""
    plain = str(name).casefold().replace("-", "_")
    return any(part.casefold().replace("-", "_") in plain for part in names)


def masked(value: Any, names: Collection[str]) -> Any:
    """Return `value` with everything that a dict in it holds under a sensitive name masked, at any depth."""
    match value:
        case {rich.MARK: "dict", "value": [*pairs]}:  # a dict in rich encoding
            return {**value, "value": [masked_pair(pair, names) for pair in pairs]}
        case Mapping():
            return {key: masked_item(key, inner, names) for key, inner in value.items()}
        case list() | tuple():
            return [masked(inner, names) for inner in value]
    return value


def masked_pair(pair: Any, names: Collection[str]) -> Any:
    """Return a key and a value of a dict in rich encoding, the value masked as in any other dict."""
    match pair:
        case [key, inner]:
            return [key, masked_item(key_of(key), inner, names)]
    return MASK  # none of ours, so what it means can't be told


def key_of(key: Any) -> Any:
    """Return a key as it was before it was written in rich encoding."""
    try:
        return rich.restore(key)
    except ValueError:
        return key


def masked_item(key: object, inner: Any, names: Collection[str]) -> Any:
    return MASK if is_sensitive(key, names) else masked(inner, names)


def masked_positional(
    args: Sequence[Any], parameters: Sequence[str] | None, names: Collection[str]
) -> list[Any]:
    """
    Return `args` with those masked whose parameter has a sensitive name.

    `parameters` are the names by position, the last one standing for all that follow (`*args`). With `None`,
    for a task that this process doesn't know, no name can be checked, so every value is masked: the page is
    seen by more people than the task's source.
    """
    if not names:
        return list(args)
    if parameters is None:
        return [MASK for _ in args]
    shown = []
    for position, value in enumerate(args):
        name = parameters[min(position, len(parameters) - 1)] if parameters else ""
        shown.append(masked_item(name, value, names))
    return shown
