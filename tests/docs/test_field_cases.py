"""docs/field-cases.md: every case once, and every test that it names exists."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT
from tests.docs.test_requirements import names_in

PAGE = ROOT / "docs" / "field-cases.md"
LINE = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
SUFFIX = re.compile(r"def test_\w*?((?:_\d+)+)\(")
CASES = [
    *(1, 2, 4, 6, 9, 10, 12, 15, 16, 17, 20, 21, 23, 25, 26, 27, 28, 29, 31, 32, 36, 37, 38, 39, 41, 44, 46),
    *(47, 48, 49, 51, 53, 56, 58, 60, 62, 63, 64, 65, 67, 68, 70, 72, 74, 77, 78, 79, 82, 84, 86, 87, 88),
    *(95, 107, 108, 111, 112, 114, 116, 118, 119, 121, 123, 126, 127, 130, 131, 133, 134, 135, 148, 149),
    *(150, 152, 155, 156, 158, 159, 160, 161, 162, 164, 167, 169, 170, 173, 174, 176, 178, 179, 180, 181),
    *(182, 183, 184, 185, 187, 188, 189, 190, 195, 198, 199, 200),
]
"""All but those of schedules, of unique jobs, and of locks and limits."""

UNTESTED = {17, 82}
"""They come with features that there are not yet."""


def table() -> dict[int, list[str]]:
    """Return the tests that the page names, by case."""
    return {
        int(case): re.findall(r"`([^`]+)`", tests)
        for case, _, tests, _ in LINE.findall(PAGE.read_text("utf-8"))
    }


def test_every_case_is_there_once_and_in_order():
    assert [int(case) for case, *_ in LINE.findall(PAGE.read_text("utf-8"))] == CASES


def test_every_case_has_a_test():
    assert {case for case, tests in table().items() if not tests} == UNTESTED


@pytest.mark.parametrize("named", sorted({name for tests in table().values() for name in tests}))
def test_a_test_that_is_named_exists(named):
    file, colons, name = named.partition("::")

    assert (ROOT / file).is_file()
    assert not colons or name in set(names_in(ROOT / file))


def test_a_number_in_a_tests_name_is_that_of_a_case():
    """What a test says that it shows stands on the page."""
    named = {
        (file, int(number))
        for file in sorted((ROOT / "tests" / "scenarios").glob("test_*.py"))
        for numbers in SUFFIX.findall(file.read_text("utf-8"))
        for number in numbers.split("_")[1:]
        if int(number) in CASES
    }
    missing = [
        (file.name, number)
        for file, number in sorted(named)
        if not any(name.startswith(f"tests/scenarios/{file.name}") for name in table().get(number, []))
    ]
    assert missing == []
