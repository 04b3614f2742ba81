"""What was stored comes back exactly, and what a stranger stored is read or refused; by both codecs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_jobs.core import exact_json
from django_jobs.core.arguments import MAX_DEPTH, UndecodableText, decode, encode_call, normalise
from tests.core.plain_values import PLENTY, both_codecs, encode, is_same, nested, texts, values

pytestmark = pytest.mark.usefixtures("codec")


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

    def test_the_deepest_arguments_of_a_call_come_back_from_one_text(self):
        args, kwargs = [nested(MAX_DEPTH - 1)], {"k": nested(MAX_DEPTH - 1), "l": 2}

        args_text, kwargs_text = encode_call(args, kwargs, max_bytes=PLENTY)

        assert is_same(decode(f"[{args_text},{kwargs_text}]"), [args, kwargs])

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
        "text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "[" * 202 + "]" * 202]
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
        assert MAX_DEPTH < 254
