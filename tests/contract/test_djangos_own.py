"""
Django's own tests of its Tasks framework, passed by our backends.

They are fetched from Django's source release, that of the Django installed; on 5.2, which has no such tests
(nor does the backport's release), from 6.0's. See `djangos_own` for how ours come into the place of Django's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import django
import pytest

from tests.contract.fetching import pip

CHECKOUT = Path(__file__).resolve().parent.parent.parent
IMMEDIATE = "test_immediate_backend.ImmediateBackendTestCase"
DUMMY = "test_dummy_backend.DummyBackendTestCase"

LEFT_OUT = {
    f"{IMMEDIATE}.test_cannot_get_result": "Django's immediate backend keeps no results; ours does",
    f"{IMMEDIATE}.test_cannot_refresh_result": "the same",
    f"{IMMEDIATE}.test_cannot_pass_run_after": "Django's immediate backend can't defer; ours can",
}
"""Tests that state what a backend lacks, and why they aren't ours to pass. They must fail: see below."""

LEFT_OUT_OF_TABLES = {
    f"{DUMMY}.test_refresh_result": "changes an object in the backend's list; ours has a row",
    f"{DUMMY}.test_refresh_result_async": "the same",
}

LEFT_OUT_OF_THE_BACKPORT = {
    f"{DUMMY}.test_validate_disallowed_async_task": 'the backport says "async tasks", Django "async Tasks"',
    "test_custom_backend.CustomBackendTestCase.test_enqueue_async_task_on_non_async_backend": "the same",
}

LEFT_OUT_OF_PYTHON_3_11 = {
    "test_custom_backend.CustomBackendTestCase.test_no_enqueue": "Python 3.11 words its TypeError otherwise",
}

VARIANTS = {"test backends": LEFT_OUT, "tables": LEFT_OUT | LEFT_OUT_OF_TABLES}


@pytest.mark.slow
def test_djangos_own_tests_pass_but_for_those_left_out(tmp_path):
    tests = source_release(tmp_path)
    for variant, left_out in VARIANTS.items():
        expected = set(left_out)
        if django.VERSION < (6, 0):
            expected |= set(LEFT_OUT_OF_THE_BACKPORT)
        if sys.version_info < (3, 12):
            expected |= set(LEFT_OUT_OF_PYTHON_3_11)
        told = results(tests, variant, tmp_path / "report.json")

        failed = {name: text for name, text in told.items() if text != "passed"}
        unexpected = "\n".join(f"{name}: {text}" for name, text in failed.items() if name not in expected)
        assert not unexpected, f"with our {variant}:\n{unexpected}"
        assert set(failed) == expected, "a test that is left out passes now: take it off the list"
        assert len(told) > 70


def source_release(folder: Path) -> Path:
    """Fetch Django's source release; return its folder of tests, with those of the tasks in it."""
    version = f"=={django.__version__}" if django.VERSION >= (6, 0) else ">=6.0,<6.1"
    words = ["--no-binary", ":all:", "--no-deps", "--ignore-requires-python", f"django{version}"]
    pip("download", "--disable-pip-version-check", *words, folder=folder)
    [archive] = folder.glob("[dD]jango-*.tar.gz")
    with tarfile.open(archive) as source:
        members = [member for member in source if "/tests/tasks/" in member.name]
        source.extractall(folder, members, filter="data")
    [tasks] = folder.glob("*/tests/tasks")
    return tasks.parent


def results(tests: Path, variant: str, report: Path) -> dict[str, str]:
    """Run the tests in a process of their own; return for each what became of it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.djangos_own", str(tests), variant, str(report)],
        cwd=CHECKOUT,
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str] = json.loads(report.read_text("utf-8"))
    return found
