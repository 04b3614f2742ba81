"""Which texts are the id of a row."""

from __future__ import annotations

import pytest

from django_jobs.core.ids import id_of


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("007", 7), (str(2**63 - 1), 2**63 - 1)])
def test_digits_are(text, number):
    assert id_of(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "+1", " 7", "1_000", "1.0", "1e3", "٣", "²", "7\n", "a", str(2**63), "9" * 5_000],
    ids=lambda text: ascii(text[:20]),
)
def test_nothing_else_is(text):
    assert id_of(text) is None
