"""The parts of the documentation that are made from the code, and the lists that must be complete."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs.blocks import ROOT

CHECKS = ROOT / "docs" / "reference" / "checks.md"


def test_generated_parts_are_fresh():
    run = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_every_check_is_described():
    source = (ROOT / "django_jobs" / "checks.py").read_text("utf-8")
    given = re.findall(r'id="(django_jobs\.[EW]\d+)"', source)

    described = re.findall(r"\| `(django_jobs\.[EW]\d+)` \|", CHECKS.read_text("utf-8"))

    assert described == sorted(set(given))


def test_the_second_block_of_the_readme_runs_the_tests():
    """`.ci/run` takes it from there."""
    readme = (ROOT / "README.md").read_text("utf-8")
    fenced = re.findall(r"^```\w*\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)

    assert fenced[0].rstrip().endswith("manage.py demo")
    assert fenced[1].rstrip().endswith("-m tox")
    assert all(len(block.strip().splitlines()) == 1 for block in fenced[:2])
