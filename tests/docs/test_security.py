"""docs/explanation/security.md: each claim names tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT
from tests.docs.test_requirements import names_in

PAGE = ROOT / "docs" / "explanation" / "security.md"


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE.read_text("utf-8")))))
def test_a_test_that_is_named_exists(named):
    file, colons, name = named.partition("::")

    assert (ROOT / file).is_file()
    assert not colons or name in set(names_in(ROOT / file))
