"""Import rules that import-linter's contracts can't express."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent.parent / "django_jobs"


def imported_by(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


@pytest.mark.parametrize("file", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda file: file.stem)
def test_the_core_imports_itself_and_the_standard_library_only(file):
    foreign = {
        name
        for name in imported_by(file)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and name.split(".")[:2] != ["django_jobs", "core"]
    }

    assert not foreign


@pytest.mark.parametrize("file", sorted((PACKAGE / "store").rglob("*.py")), ids=lambda file: file.stem)
def test_the_store_knows_of_this_package_only_itself_and_the_core(file):
    of_the_package = {name for name in imported_by(file) if name.split(".")[0] == "django_jobs"}

    assert {name for name in of_the_package if name.split(".")[1:2] not in (["core"], ["store"])} == set()
