"""What becomes plain, and what is refused with its place and what to do; by both codecs."""

from __future__ import annotations

import array
import collections
import copy
import datetime
import decimal
import enum
import pathlib
import pickle
import sys
import types
import uuid
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.core.arguments import (
    MAX_DEPTH,
    TooLarge,
    Unstorable,
    UnstorableType,
    UnstorableValue,
    decode,
    encode_call,
    encode_value,
    normalise,
)
from tests.core.plain_values import PLENTY, both_codecs, encode, is_same, nested, scalars, texts

pytestmark = pytest.mark.usefixtures("codec")


class Colour(enum.StrEnum):
    RED = "red"


class Old(str, enum.Enum):  # noqa: UP042 - what people have in their code
    YES = "yes"


class Size(enum.IntEnum):
    BIG = 7


class Ratio(float, enum.Enum):
    HALF = 0.5


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Plain(enum.Enum):
    ONE = 1


class Safe(str):
    """Like Django's SafeString: text that shows itself otherwise."""

    def __str__(self):
        return "shown otherwise"

    __slots__ = ()


Point = collections.namedtuple("Point", "x y")


@dataclass
class Order:
    number: int


class Model:
    """Stands for Django's."""


class Customer(Model):
    pass


class Key:
    def __repr__(self):
        raise RuntimeError("no repr")


class TestNormalise:
    @pytest.mark.parametrize(
        ("value", "plain"),
        [
            ((1, (2, ())), [1, [2, []]]),
            (b"caf\xc3\xa9", "café"),
            ({b"key": b"x"}, {"key": "x"}),
            (range(3), [0, 1, 2]),
            (Point(1, 2), [1, 2]),
            (collections.deque([1, 2]), [1, 2]),
            (bytearray(b"ab"), [97, 98]),
            (memoryview(b"ab"), [97, 98]),
            (array.array("i", [1, 2]), [1, 2]),
            (collections.UserList([1, (2,)]), [1, [2]]),
            (collections.OrderedDict([("b", 1), ("a", 2)]), {"b": 1, "a": 2}),
            (collections.defaultdict(lambda: (0,), a=(1,)), {"a": [1]}),
            (collections.Counter("aab"), {"a": 2, "b": 1}),
            (types.MappingProxyType({"a": 1}), {"a": 1}),
            (collections.ChainMap({"a": 1}, {"b": 2}), {"b": 2, "a": 1}),
            (Colour.RED, "red"),
            (Old.YES, "yes"),
            (Size.BIG, 7),
            (Ratio.HALF, 0.5),
            (Flags.A | Flags.B, 3),
            (Safe("as it is"), "as it is"),
            ({Colour.RED: Size.BIG}, {"red": 7}),
            ({Safe("k"): 1}, {"k": 1}),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_is_like_json_becomes_plain(self, value, plain):
        result = normalise(value)

        assert is_same(result, plain)
        assert is_same(decode(encode(value)), plain)

    @given(
        st.recursive(
            st.one_of(scalars, texts.map(str.encode)),
            lambda inner: st.one_of(
                st.lists(inner).map(tuple),
                st.lists(inner).map(collections.deque),
                st.dictionaries(st.one_of(texts, texts.map(str.encode)), inner),
            ),
            max_leaves=20,
        )
    )
    @both_codecs
    def test_it_is_what_django_makes_of_it_or_an_error(self, value):
        def as_django(value):
            match value:
                case dict():
                    return {as_django(key): as_django(item) for key, item in value.items()}
                case bytes():
                    return value.decode()
                case list() | tuple() | collections.deque():
                    return [as_django(item) for item in value]
                case _:
                    return value

        try:
            result = normalise(value)
        except UnstorableValue as error:
            assert "two keys that become" in str(error)  # noqa: PT017 - the only cause there can be
        else:
            assert is_same(result, as_django(value))
            assert is_same(decode(encode(value)), result)


class TestRefusal:
    @pytest.mark.parametrize(
        ("args", "kwargs", "error", "place", "says"),
        [
            ((1, 2, {"name": ["a\0b"]}), {}, UnstorableValue, "args[2]['name'][0]", "NUL character"),
            ((), {"note": "\ud800"}, UnstorableValue, "kwargs['note']", "lone surrogate (at position 0)"),
            (("ok\0",), {}, UnstorableValue, "args[0]", "(at position 2)"),
            ((), {"note": "ok \udfff"}, UnstorableValue, "kwargs['note']", "lone surrogate (at position 3)"),
            ((b"\xff",), {}, UnstorableValue, "args[0]", "no UTF-8 text (at byte 0)"),
            (([b"ok", b"\xed\xa0\x80"],), {}, UnstorableValue, "args[0][1]", "no UTF-8 text"),
            ((b"a\0",), {}, UnstorableValue, "args[0]", "NUL"),
            ((), {"x": float("nan")}, UnstorableValue, "kwargs['x']", "is nan"),
            ((float("-inf"),), {}, UnstorableValue, "args[0]", "is -inf"),
            (([{}, 10**4300],), {}, UnstorableValue, "args[0][1]", "more than 4300 digits"),
            ((-(10**5000),), {}, UnstorableValue, "args[0]", "more than 4300 digits"),
            ((), {"a": {b"k": 1, "k": 2}}, UnstorableValue, "kwargs['a']", "two keys that become 'k'"),
            ((), {"a": {"k": 1, b"k": 2}}, UnstorableValue, "kwargs['a']", "two keys that become 'k'"),
            (({"a\0": 1},), {}, UnstorableValue, "args[0]", "key 'a\\x00', which holds a NUL"),
            (({"\udc00": 1},), {}, UnstorableValue, "args[0]", "key '\\udc00', which holds a lone surrogate"),
            (({b"\xff": 1},), {}, UnstorableValue, "args[0]", "which holds bytes that are no UTF-8"),
            (({1: "a"},), {}, UnstorableType, "args[0]", "key 1 of type int"),
            (([{None: "a"}],), {}, UnstorableType, "args[0][0]", "key None of type NoneType"),
            (({(1, 2): "a"},), {}, UnstorableType, "args[0]", "of type tuple"),
            (({Key(): "a"},), {}, UnstorableType, "args[0]", "key <Key> of type Key"),
            (({"a": {1, 2}},), {}, UnstorableType, "args[0]['a']", "Pass a sorted list."),
            ((datetime.date(2024, 1, 1),), {}, UnstorableType, "args[0]", "Pass its isoformat()."),
            ((datetime.datetime(2024, 1, 1),), {}, UnstorableType, "args[0]", "isoformat()"),  # noqa: DTZ001
            ((datetime.timedelta(1),), {}, UnstorableType, "args[0]", "total_seconds()"),
            ((), {"id": uuid.UUID(int=1)}, UnstorableType, "kwargs['id']", "Pass its str()."),
            ((decimal.Decimal("1.1"),), {}, UnstorableType, "args[0]", "Pass its str()."),
            ((pathlib.Path("/"),), {}, UnstorableType, "args[0]", "Pass its str()."),
            ((Plain.ONE,), {}, UnstorableType, "args[0]", "Pass its value."),
            ((iter([1]),), {}, UnstorableType, "args[0]", "of type list_iterator"),
            (((x for x in "a"),), {}, UnstorableType, "args[0]", "Pass a list."),
            ((Order(1),), {}, UnstorableType, "args[0]", "of type Order, not JSON"),
            ((Customer(),), {}, UnstorableType, "args[0]", "primary key"),
            ((1j,), {}, UnstorableType, "args[0]", "of type complex"),
            ((object(),), {}, UnstorableType, "args[0]", "of type object"),
        ],
    )
    def test_the_error_names_the_place_and_what_is_wrong(self, args, kwargs, error, place, says):
        with pytest.raises(error) as caught:
            encode_call(args, kwargs, max_bytes=PLENTY)

        assert caught.value.place == place
        assert str(caught.value).removeprefix("Unsupported type: ").startswith(f"{place} ")
        assert says in str(caught.value)
        assert issubclass(error, ValueError if error is UnstorableValue else TypeError)

    @pytest.mark.parametrize("value", ["abc", b"abc", 5, {"a": 1}, None])
    def test_arguments_that_are_no_list_are_refused(self, value):
        with pytest.raises(UnstorableType, match="args must be a list or tuple of arguments"):
            encode_call(value, {}, max_bytes=PLENTY)

    def test_keyword_arguments_that_are_no_dict_are_refused(self):
        with pytest.raises(UnstorableType, match="kwargs must be a dict of arguments, not list"):
            encode_call([], [], max_bytes=PLENTY)  # type: ignore[arg-type]

    def test_one_level_over_the_limit_is_refused(self):
        with pytest.raises(UnstorableValue, match="nested deeper than 200 levels"):
            normalise(nested(MAX_DEPTH + 1))

    @pytest.mark.parametrize("levels", [5_000, 100_000])
    def test_nesting_beyond_pythons_own_limit_is_refused_the_same(self, levels):
        with pytest.raises(UnstorableValue, match="nested deeper"):
            normalise(nested(levels))

    def test_a_value_that_contains_itself_is_refused_with_a_readable_place(self):
        parts: list[object] = []
        cycle = {"name": "x", "parts": parts}
        parts += [1, cycle, cycle]

        with pytest.raises(UnstorableValue, match="look for a value that contains itself") as caught:
            encode_call([cycle], {}, max_bytes=PLENTY)

        assert caught.value.place.startswith("args[0]['parts'][1]['parts'][1]")
        assert "…" in caught.value.place
        assert len(str(caught.value)) < 300

    def test_a_long_key_is_shortened_in_the_place(self):
        with pytest.raises(UnstorableValue) as caught:
            normalise({"k" * 1000: "\0"})

        assert len(str(caught.value)) < 250

    def test_the_place_starts_with_the_name_given(self):
        with pytest.raises(UnstorableValue, match=r"^meta\['tag'\] "):
            encode_value({"tag": "\0"}, place="meta", max_bytes=PLENTY)

    def test_the_error_has_no_trail_of_inner_errors(self):
        with pytest.raises(UnstorableValue) as caught:
            normalise([["\0"]])

        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_a_worker_with_a_lower_limit_of_digits_is_respected(self):
        before = sys.get_int_max_str_digits()
        try:
            sys.set_int_max_str_digits(640)
            with pytest.raises(UnstorableValue, match="640 digits"):
                normalise(10**640)
            assert decode(encode(10**639)) == 10**639
            sys.set_int_max_str_digits(0)
            with pytest.raises(UnstorableValue, match="4300 digits"):
                normalise(10**4300)
        finally:
            sys.set_int_max_str_digits(before)

    @pytest.mark.parametrize(
        "error",
        [UnstorableValue("args[0]", "is wrong."), UnstorableType("a", "b"), TooLarge("args", 2, 1, "a call")],
    )
    def test_errors_can_be_copied_and_pickled(self, error):
        for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert type(twin) is type(error)
            assert str(twin) == str(error)
            assert twin.place == error.place

    @both_codecs
    @given(
        st.recursive(
            st.one_of(
                st.text(),
                st.binary(),
                st.floats(),
                st.integers(),
                st.sampled_from([Colour.RED, Plain.ONE, Safe("s"), uuid.UUID(int=5), True, None]),
                st.just(4300).map(lambda digits: 10**digits),
                st.dates(),
                st.decimals(),
                st.sets(st.integers()),
            ),
            lambda inner: st.one_of(
                st.lists(inner),
                st.dictionaries(st.one_of(st.text(), st.binary(), st.integers(), st.none()), inner),
            ),
            max_leaves=12,
        )
    )
    def test_nothing_is_both_stored_and_changed(self, value):
        try:
            text = encode(value)
        except Unstorable as error:
            assert error.place.startswith("value")  # noqa: PT017 - either way is right; which one is open
        else:
            assert is_same(decode(text), normalise(value))


class TestSize:
    def test_the_limit_counts_the_bytes_of_both_texts(self):
        assert encode_call(["é"], {}, max_bytes=8) == ('["é"]', "{}")
        with pytest.raises(TooLarge):
            encode_call(["é"], {}, max_bytes=7)

    def test_the_error_names_size_limit_and_the_largest_argument(self):
        with pytest.raises(TooLarge) as caught:
            encode_call([1, "x" * 10], {"image": "y" * 2000}, max_bytes=1000)

        error = caught.value
        assert isinstance(error, UnstorableValue)
        assert (error.place, error.size_bytes, error.max_bytes) == ("kwargs['image']", 2028, 1000)
        assert str(error).startswith(
            "kwargs['image'] is the largest part of a call, which has 2,028 bytes as JSON, over the limit of"
        )

    def test_an_empty_call_over_a_tiny_limit_is_still_told(self):
        with pytest.raises(TooLarge, match="args is the largest part"):
            encode_call([], {}, max_bytes=3)

    def test_a_values_error_names_its_place(self):
        with pytest.raises(TooLarge, match="meta is too large: it has 12 bytes as JSON, over"):
            encode_value("€" * 3 + "x", place="meta", max_bytes=11)

    def test_long_numbers_are_counted_too(self):
        with pytest.raises(TooLarge):
            encode_value([10**100, "é"], place="value", max_bytes=107)
        assert len(encode_value([10**100, "é"], place="value", max_bytes=108)) == 107
