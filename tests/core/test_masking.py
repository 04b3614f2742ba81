"""Masking what stands under a sensitive name."""

from __future__ import annotations

from django_jobs.core import rich
from django_jobs.core.masking import MASK, is_sensitive, masked, masked_positional


class TestNames:
    def test_a_name_that_contains_a_sensitive_one_is_sensitive(self):
        assert is_sensitive("smtp_password_2", ["password"])
        assert not is_sensitive("passage", ["password"])

    def test_case_and_dashes_make_no_difference(self):
        assert is_sensitive("X-Api-Key", ["api_key"])
        assert is_sensitive("API_KEY", ["api-key"])


class TestMasked:
    def test_values_are_masked_at_any_depth(self):
        value = {"a": [{"token": "x", "b": 1}], "secret": {"whole": "tree"}}

        assert masked(value, ["token", "secret"]) == {"a": [{"token": MASK, "b": 1}], "secret": MASK}

    def test_the_value_that_was_given_stays_as_it_is(self):
        value = {"token": "x"}

        masked(value, ["token"])

        assert value == {"token": "x"}

    def test_without_names_nothing_is_masked(self):
        assert masked({"password": "x"}, []) == {"password": "x"}


class TestRichDicts:
    def test_values_of_a_dict_whose_keys_are_not_all_text_are_masked_too(self):
        value = rich.flatten({"password": "x", 1: {b"token": "y", 2: "z"}})

        assert rich.restore(masked(value, ["password", "token"])) == {
            "password": MASK,
            1: {b"token": MASK, 2: "z"},
        }

    def test_what_only_looks_like_one_tells_nothing(self):
        value = {
            "$type": "dict",
            "value": ["password", ["password", "x", "y"], [{"$type": 1}, {"password": "x"}]],
        }

        assert masked(value, ["password"])["value"] == [MASK, MASK, [{"$type": 1}, {"password": MASK}]]


class TestPositional:
    def test_arguments_are_masked_by_the_names_of_their_parameters(self):
        assert masked_positional([1, "x", 2], ["a", "token", "b"], ["token"]) == [1, MASK, 2]

    def test_the_last_name_stands_for_all_that_follow(self):
        assert masked_positional([1, 2, 3], ["a", "tokens"], ["token"]) == [1, MASK, MASK]

    def test_dicts_inside_are_looked_into(self):
        assert masked_positional([{"token": 1}], ["a"], ["token"]) == [{"token": MASK}]

    def test_of_an_unknown_task_everything_is_masked(self):
        assert masked_positional([1, 2], None, ["token"]) == [MASK, MASK]

    def test_unless_no_name_is_sensitive(self):
        assert masked_positional([1, 2], None, []) == [1, 2]
