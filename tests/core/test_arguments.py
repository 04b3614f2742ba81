"""What a job carries comes back exactly, or is refused with the place of what can't; by both codecs."""

from __future__ import annotations

import array
import collections
import copy
import datetime
import decimal
import enum
import json
import pathlib
import pickle
import sys
import types
import uuid
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_jobs.core import arguments, exact_json
from django_jobs.core.arguments import (
    MAX_DEPTH,
    TooLarge,
    UndecodableText,
    Unstorable,
    UnstorableType,
    UnstorableValue,
    decode,
    encode_call,
    encode_value,
    normalise,
)

PLENTY = 10**9

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
both_codecs = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True, params=["orjson", "standard library"])
def codec(request, monkeypatch):
    """Run every test with orjson and without."""
    if request.param == "standard library":
        monkeypatch.setattr(exact_json, "orjson", None)
    elif exact_json.orjson is None:
        pytest.skip("orjson is not installed")
    return request.param


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


class TestRoundTrip:
    @both_codecs
    @given(values)
    def test_plain_values_come_back_equal_in_type_and_order(self, value):
        assert is_same(decode(encode(value)), value)

    @both_codecs
    @given(st.lists(values, max_size=4), st.dictionaries(texts, values, max_size=4))
    def test_a_calls_arguments_come_back_equal_in_type_and_order(self, args, kwargs):
        args_text, kwargs_text = encode_call(tuple(args), kwargs, max_bytes=PLENTY)

        assert is_same(decode(args_text), args)
        assert is_same(decode(kwargs_text), kwargs)

    @both_codecs
    @given(values)
    def test_any_json_with_blanks_and_escapes_reads_as_the_standard_library_reads_it(self, value):
        assert is_same(decode(json.dumps(value, indent=1)), value)
        assert is_same(decode(json.dumps(value, separators=(" , ", " : "))), value)

    @pytest.mark.parametrize(
        "value",
        [
            1e22,
            -0.0,
            5e-324,
            1.7976931348623157e308,
            0.1,
            2.0,
            2**53 + 1,
            2**63 - 1,
            -(2**63),
            -(2**63) - 1,
            2**64 - 1,
            2**64,
            10**400,
            -(10**4299),
            True,
            None,
            "",
            "é€😀\x7f\u2028\ufeff\ufffe",
            'quote " backslash \\ tab \t \\u0000 \\ud800',
            {"b": 1, "a": 2, "": 3},
            [[], {}, [[]], [{}]],
            {"at": "10:00:00", "url": "http://x", "said": '":', "deep": [{"at": "1:2", 'a":': " :"}]},
            ["12345678901234567890123", 98765432109876543210],
            ["x" * 100, 12345678901234567890123],
            [2**64] * 3,
        ],
        ids=lambda value: repr(value)[:40] if not isinstance(value, int) else hex(value)[:20],
    )
    def test_values_that_codecs_like_to_bend_come_back_exactly(self, value):
        assert is_same(decode(encode(value)), value)
        assert is_same(decode(encode([{"k": value}])), [{"k": value}])

    def test_nesting_up_to_the_limit_comes_back(self):
        value = nested(MAX_DEPTH)

        assert is_same(decode(encode(value)), value)

    def test_many_lists_beside_each_other_are_not_deep(self):
        value: list[list[object]] = [[{}]] * 1000

        assert is_same(decode(encode(value)), value)

    def test_texts_are_compact_and_readable_in_the_database(self):
        assert encode_call((42, "é"), {"size": "s", "n": [1, 2]}, max_bytes=PLENTY) == (
            '[42,"é"]',
            '{"size":"s","n":[1,2]}',
        )

    @both_codecs
    @given(values)
    def test_normalising_twice_changes_nothing(self, value):
        once = normalise(value)

        assert is_same(normalise(once), once)

    def test_the_given_value_is_neither_changed_nor_shared(self):
        inner = [1]
        value: dict[str, object] = {"a": inner, "b": (inner,)}

        result = normalise(value)
        result["a"].append(2)

        assert value == {"a": [1], "b": ([1],)}
        assert result["b"] == [[1]]


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
        assert str(caught.value).startswith(f"{place} ")
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


class TestStrangersText:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "  ",
            "nope",
            "[1,]",
            "[1] 2",
            "{'a': 1}",
            '{"a": 1',
            "01",
            "+1",
            ".5",
            "1.",
            '"a\nb"',
            '"\\x"',
            "NaN",
            "[Infinity]",
            '{"a": -Infinity}',
            "1e400",
            "[-1e999]",
            "9" * 4301,
            "[" + "9" * 400 + ".0]",
            '"\\ud800"',
            '{"\\udc00": 1}',
            '["a", "\\ud800\\ud800"]',
            "\ud800",
            '"\ud800"',
            '{"a": 1, "a": 1}',
            '{"a":1,"b":{"c":1,"d":2,"c":3}}',
            '[{"a" :1}, {"b"\t:2, "b"\n:3}]',
            '{"t":"1:2","\\u0061":1,"a":2}',
            "\ufeff1",
            "[1]\x00",
            "\u00a01",
            "１",
        ],
        ids=lambda text: ascii(text)[:30],
    )
    def test_what_no_call_wrote_is_a_clear_error(self, text):
        with pytest.raises(
            UndecodableText, match=r"stored JSON \([\d,]+ characters\) can't be read: .+\. It"
        ):
            decode(text)

    @pytest.mark.parametrize(
        "text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "[" * 201 + "]" * 201]
    )
    def test_nesting_beyond_the_limit_is_an_error_and_no_crash(self, text):
        with pytest.raises(UndecodableText):
            decode(text)

    def test_nesting_names_the_limit(self):
        with pytest.raises(UndecodableText, match="nested deeper than 200"):
            decode('[{"a":' * 150 + "1" + "}]" * 150)

    def test_brackets_inside_text_are_not_nesting(self):
        assert decode('["' + "[{" * 500 + '"]') == ["[{" * 500]

    def test_pairs_of_escaped_surrogates_are_a_character(self):
        assert decode('["\\ud83d\\ude00", "\\u00e9"]') == ["😀", "é"]

    def test_a_minus_zero_without_point_is_the_whole_number(self):
        assert is_same(decode("[-0, -0.0]"), [0, -0.0])

    @both_codecs
    @given(st.one_of(st.text(), st.text(st.sampled_from(list('[]{}",:\\/utrue0123456789.eE+- \n')))))
    def test_any_text_is_read_as_the_standard_library_reads_it_or_refused(self, text):
        try:
            value = decode(text)
        except UndecodableText:
            pass
        else:
            assert is_same(value, json.loads(text))

    @given(st.text(st.sampled_from(list('[]{}",:\\/utrue0123456789.eE+- \n'))))
    @both_codecs
    def test_it_makes_no_difference_whether_orjson_is_installed(self, text):
        def outcome():
            try:
                return repr(decode(text))
            except UndecodableText as error:
                return str(error)

        with pytest.MonkeyPatch.context() as patch:
            here = outcome()
            patch.setattr(exact_json, "orjson", None)
            assert outcome() == here


class TestCodecs:
    def test_orjson_does_the_common_work(self, codec, monkeypatch):
        class Unused:
            def encode(self, value):
                raise AssertionError("the standard library was asked")

            decode = encode

        if codec == "orjson":
            monkeypatch.setattr(exact_json, "WRITER", Unused())
            monkeypatch.setattr(exact_json, "READER", Unused())

        args, kwargs = [42, {"url": "http://x", "at": "10:00"}], {"size": "s", "n": [1.5]}
        texts_of_call = encode_call(args, kwargs, max_bytes=PLENTY)

        assert [decode(text) for text in texts_of_call] == [args, kwargs]

    def test_the_depth_limit_is_below_what_orjson_writes(self):
        assert arguments.MAX_DEPTH < 254
