"""Values that JSON holds exactly, to draw from, and what counts as the same."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from django_jobs.core.arguments import encode_value

PLENTY = 10**9
"""A limit of bytes that no test reaches."""

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.integers(min_value=-(10**200), max_value=10**200),
    st.floats(allow_nan=False, allow_infinity=False),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner), st.dictionaries(texts, inner)), max_leaves=12
)
# The fixture `codec` holds for all examples of a test.
both_codecs = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def encode(value):
    return encode_value(value, place="value", max_bytes=PLENTY)


def is_same(left, right):
    """Tell whether both are equal with equal types, signs of zero and orders of keys."""
    if type(left) is not type(right):
        return False
    if type(left) is dict:
        return list(left) == list(right) and all(is_same(left[key], right[key]) for key in left)
    if type(left) is list:
        return len(left) == len(right) and all(map(is_same, left, right))
    return left == right and repr(left) == repr(right)


def nested(levels, inside=1):
    for level in range(levels):
        inside = [inside] if level % 2 else {"k": inside}
    return inside
