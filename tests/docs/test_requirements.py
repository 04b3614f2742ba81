"""docs/requirements.md: every row once, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "requirements.md"
ROWS = [
    *(f"A{number}" for number in range(1, 21)),
    *(f"B{number}" for number in range(1, 38)),
    *(f"C{number}" for number in range(1, 36)),
]
LINE = re.compile(r"^\| ([ABC]\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def table() -> list[tuple[str, list[str]]]:
    """Return each row of the page with the tests that it names."""
    return [
        (row, re.findall(r"`([^`]+)`", tests)) for row, _, tests, _ in LINE.findall(PAGE.read_text("utf-8"))
    ]


def names_in(path: Path) -> Iterator[str]:
    """Yield the tests of a file as pytest names them, and the classes that hold them."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def test_every_row_is_there_once_and_in_order():
    assert [row for row, _ in table()] == ROWS


@pytest.mark.parametrize("named", sorted({name for _, tests in table() for name in tests}))
def test_a_test_that_is_named_exists(named):
    file, colons, name = named.partition("::")

    assert (ROOT / file).is_file()
    assert not colons or name in set(names_in(ROOT / file))
