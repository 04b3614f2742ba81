"""
A virtual environment for each queue, kept between runs under the temporary folder.

What is installed is the newest version of its packages that the registry has; the report names the versions.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from example_project.embedded.server import secure

CHECKOUT = Path(__file__).parents[2]

LIST = """
import json
from importlib.metadata import distributions
print(json.dumps({d.name.lower().replace("_", "-"): d.version for d in distributions()}))
"""


class NotInstalled(RuntimeError):
    """A queue's packages could not be installed; the message is pip's."""


def default_folder() -> Path:
    """Return the folder of all the environments: safe to delete while nothing is measured."""
    return Path(tempfile.gettempdir()) / f"django-jobs-peers-{os.getuid()}"


def environment(folder: Path, name: str, requirements: Sequence[str]) -> Path:
    """
    Return the Python of an environment that has `requirements`, made now unless it is there already.

    Raises NotInstalled with the end of pip's words.
    """
    secure(folder)
    place = folder / name
    python = place / "bin" / "python"
    stamp = place / "installed.json"
    wanted = json.dumps([sys.version, *requirements])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(place, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(place)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if result.returncode:
            said = (result.stderr or result.stdout).strip().splitlines() or ["nothing"]
            errors = [line for line in said if line.startswith("ERROR")] or said[-1:]
            raise NotInstalled(f"{' '.join(requirements)} can't be installed: {' '.join(errors)[:500]}")
    stamp.write_text(wanted)
    return python


def versions(python: Path) -> dict[str, str]:
    """Return what is installed, name to version."""
    found: dict[str, str] = json.loads(subprocess.check_output([str(python), "-c", LIST], timeout=60))
    return found
