"""Values beyond JSON come back equal and of the same type, or are refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.core.arguments import UndecodableText, UnstorableValue, encode_call
from django_jobs.core.rich import flatten, restore

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20)
    | st.datetimes(timezones=st.just(UTC) | st.none())
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
HASHABLE = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(HASHABLE, max_size=3)
        | st.frozensets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE | st.just("$type"), inner, max_size=3)
    ),
    max_leaves=10,
)


def kinds(value):
    """Return the types of a value and all within, in order."""
    if isinstance(value, dict):
        return [type(value), [(kinds(key), kinds(item)) for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        return [type(value), [kinds(item) for item in value]]
    return [type(value)]


class TestRoundTrip:
    @given(VALUES)
    def test_every_value_comes_back_equal_and_of_the_same_type_through_json(self, value):
        back = restore(json.loads(json.dumps(flatten(value))))

        assert back == value
        assert kinds(back) == kinds(value)

    @pytest.mark.parametrize(
        "value",
        [
            datetime(2026, 11, 29, 18, 30, tzinfo=UTC),
            date(2026, 2, 28),
            time(23, 59, 59, 1),
            timedelta(days=-1, microseconds=1),
            Decimal("-0.10"),
            UUID(int=7),
            b"\x00\xff",
            {1, 2},
            (1, (2, [3])),
            {1: "a", None: "b"},
            {"$type": "datetime", "value": "not ours"},
            float("-inf"),
        ],
    )
    def test_a_value_beyond_json_comes_back_as_it_was(self, value):
        assert restore(json.loads(json.dumps(flatten(value)))) == value

    def test_plain_json_is_left_as_it_is(self):
        value = {"order": [1, 2.5, "x", None, True, {"deep": []}]}

        assert flatten(value) == value
        assert restore(value) == value

    def test_a_float_of_another_library_comes_back_whatever_it_calls_itself(self):
        class Scalar(float):
            def __repr__(self):
                return "np.float64(inf)"

        assert restore(flatten([Scalar("inf")])) == [float("inf")]

    def test_a_named_tuple_comes_back_as_a_tuple_with_all_that_is_in_it(self):
        class Price(NamedTuple):
            amount: Decimal

        assert restore(json.loads(json.dumps(flatten(Price(Decimal("2.90")))))) == (Decimal("2.90"),)


class TestRefusals:
    @pytest.mark.parametrize("kind", [list, tuple])
    def test_nesting_that_json_cannot_take_is_refused_where_it_is(self, kind):
        value: object = date(2026, 1, 31)
        for _ in range(5_000):
            value = kind([value])

        with pytest.raises(UnstorableValue, match=r"^args\[0\].*nested deeper than 200 levels"):
            encode_call(flatten([value]), {}, max_bytes=10**6)

    def test_a_value_that_contains_itself_is_refused(self):
        value: list[object] = []
        value.append({1: value})

        with pytest.raises(UnstorableValue, match="contains itself"):
            encode_call(flatten([value]), {}, max_bytes=10**6)

    @pytest.mark.parametrize(
        "text",
        [
            {"$type": "os.system", "value": "true"},
            {"$type": ["datetime"], "value": ""},
            {"$type": "datetime"},
            {"$type": "datetime", "value": "x", "more": 1},
            {"$type": "datetime", "value": "yesterday"},
            {"$type": "timedelta", "value": [1]},
            {"$type": "decimal", "value": "one"},
            {"$type": "set", "value": [[1]]},
            {"$type": "uuid", "value": "7"},
            {"$type": "uuid", "value": 7},
            {"$type": "bytes", "value": "&"},
            {"$type": "bytes", "value": "ä"},
            {"$type": "bytes", "value": 7},
            {"$type": "float", "value": "much"},
            {"$type": "float", "value": None},
            {"$type": "tuple", "value": 7},
            {"$type": "dict", "value": [[1]]},
            {"$type": "dict", "value": [[[], 1]]},
            {"$type": "decimal", "value": {}},
            {"$type": "timedelta", "value": [10**20, 0, 0]},
            {"$type": "time", "value": None},
            {"$type": "tuple", "value": [{"$type": "date", "value": "yesterday"}]},
        ],
        ids=str,
    )
    def test_a_mark_that_was_not_written_by_us_is_a_clear_error(self, text):
        with pytest.raises(UndecodableText, match=r"^(an object with|a value can't be read)") as raised:
            restore(text)

        assert "yesterday" not in str(raised.value)

    def test_the_innermost_value_that_is_none_is_named(self):
        with pytest.raises(UndecodableText, match="read as date"):
            restore({"$type": "tuple", "value": [{"$type": "date", "value": "yesterday"}]})
