"""The soak of benchmarks/soak, for as long as CI has time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.scenarios.harness import CHECKOUT

MINUTES = os.environ.get("SOAK_MINUTES", "1")
UNWANTED = {"DATABASE_URL", "DJANGO_SETTINGS_MODULE"}


@pytest.mark.slow
def test_whatever_is_killed_no_job_is_lost_and_none_ends_twice_28_31_36_37():
    """Kills, stops, ends, cut sessions and crashes at random; benchmarks/soak/accounting.py has the rules."""
    soak = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--minutes", MINUTES],
        cwd=CHECKOUT,
        env={name: value for name, value in os.environ.items() if name not in UNWANTED},
        capture_output=True,
        text=True,
        check=False,
    )

    assert soak.returncode == 0, soak.stdout + soak.stderr
    assert "lost: none, ended twice: none" in soak.stdout
