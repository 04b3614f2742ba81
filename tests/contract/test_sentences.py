"""sentences.md: every test that it names exists, and every test module of this folder is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.docs.test_requirements import names_in

HERE = Path(__file__).parent
NAMED = sorted(set(re.findall(r"`(tests/[^`]+)`", (HERE / "sentences.md").read_text("utf-8"))))


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_is_named_exists(named):
    file, colons, name = named.partition("::")

    assert (ROOT / file).is_file()
    assert not colons or name in set(names_in(ROOT / file))


def test_every_module_here_shows_something():
    modules = {str(path.relative_to(ROOT)) for path in HERE.glob("test_*.py")} - {
        "tests/contract/test_sentences.py"
    }

    assert modules == {name.partition("::")[0] for name in NAMED if name.startswith("tests/contract/")}
