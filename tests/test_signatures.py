"""What a task can be called with: the quick answer is the one that Python gives when it calls."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from django_jobs.signatures import positional_counts

PARTS = ("a", "b", "/", "c", "d=1", "*args", "*", "key", "other=1", "**kwargs")


@st.composite
def functions(draw: st.DrawFn) -> Callable[..., None]:
    """Functions with any mix of kinds of parameters that Python allows."""
    given = [part for part in PARTS if draw(st.booleans())]
    source = ", ".join(given)
    namespace: dict[str, Any] = {}
    try:
        exec(f"def function({source}): pass", namespace)
    except SyntaxError:
        exec("def function(a, b=1, *, key): pass", namespace)
    function: Callable[..., None] = namespace["function"]
    return function


@given(functions(), st.integers(0, 6), st.booleans())
def test_as_many_positional_arguments_fit_as_a_call_takes(
    function: Callable[..., None], count: int, takes_context: bool
) -> None:
    try:
        # The context is one more argument in front, which a body takes by place or among its others.
        signature(function).bind(*range(count + takes_context))
        fits = True
    except TypeError:
        fits = False
    if takes_context and not takes_one(function):
        return  # refused when the task is defined
    assert (count in positional_counts(function, takes_context)) == fits


def takes_one(function: Callable[..., None]) -> bool:
    """Whether a first argument can be given by place."""
    kinds = [parameter.kind for parameter in signature(function).parameters.values()]
    return bool(kinds) and kinds[0] in (
        kinds[0].POSITIONAL_ONLY,
        kinds[0].POSITIONAL_OR_KEYWORD,
        kinds[0].VAR_POSITIONAL,
    )
