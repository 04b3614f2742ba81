"""The helper that waits for facts."""

from __future__ import annotations

import pytest

from tests.eventually import eventually


def test_it_returns_the_first_true_value():
    values = iter([0, "", None, "there", "later"])

    assert eventually(lambda: next(values)) == "there"


def test_it_tells_the_last_value_when_time_is_up():
    with pytest.raises(AssertionError, match=r"not so within 0\.05 s; the last value was \[\]"):
        eventually(list, timeout=0.05)


def test_a_failed_assert_counts_as_not_yet():
    values = iter([1, 2, 3])

    def three():
        assert next(values) == 3
        return "three"

    assert eventually(three) == "three"


def test_any_other_error_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0)
