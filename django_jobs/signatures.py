"""What a task's function can be called with: checked when a job is enqueued, and shown by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter, Signature, signature
from typing import Any

from django_jobs.tasks import registry


@lru_cache(maxsize=4096)
def call_signature(function: Callable[..., Any], takes_context: bool) -> Signature:
    """Return the signature that a call of the task must fit, without the context."""
    found = signature(function)
    parameters = list(found.parameters.values())
    if takes_context and parameters and parameters[0].kind is not Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return found.replace(parameters=parameters)


@lru_cache(maxsize=4096)
def positional_counts(function: Callable[..., Any], takes_context: bool) -> range:
    """Return how many arguments fit a call of the task where all are positional; empty if none may be."""
    parameters = call_signature(function, takes_context).parameters.values()
    if any(p.kind is Parameter.KEYWORD_ONLY and p.default is Parameter.empty for p in parameters):
        return range(0)
    by_place = [
        p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    takes_more = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    least = sum(p.default is Parameter.empty for p in by_place)
    return range(least, sys.maxsize if takes_more else len(by_place) + 1)


def takes_by_name(function: Callable[..., Any], name: str) -> bool:
    """Whether a call of `function` may name an argument so."""
    return any(
        parameter.kind is Parameter.VAR_KEYWORD
        or (parameter.name == name and parameter.kind is not Parameter.POSITIONAL_ONLY)
        for parameter in call_signature(function, False).parameters.values()
    )


def positional_names(path: str) -> list[str] | None:
    """
    Return the names of the parameters that the positional arguments of the task at `path` fill, in order.

    Where the last one is `*args`, it stands for all that follow. `None` for a task that isn't known here.
    """
    task = registry.get(path)
    if task is None:
        return None
    return [
        name
        for name, parameter in call_signature(task.func, task.takes_context).parameters.items()
        if parameter.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)
    ]
