"""What the wheel holds. `tox -e package` builds it and tells its folder in WHEEL_FOLDER."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def wheel() -> Path:
    (found,) = Path(os.environ["WHEEL_FOLDER"]).glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "django_jobs"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout.split()

    names = zipfile.ZipFile(wheel).namelist()

    assert "django_jobs/py.typed" in names
    assert sorted(name for name in names if ".dist-info/" not in name) == sorted(tracked)
