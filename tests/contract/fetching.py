"""What tests bring from the package index by pip: at test time, into a folder of their own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def pip(*words: str, folder: Path) -> None:
    """
    Run pip for this interpreter, in `folder`.

    Where the index can't be reached the test is skipped, but fails in CI: there it has to be shown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*command(), *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        told = f"pip {' '.join(words)} ended with status {done.returncode}: {done.stderr.strip()[-800:]}"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(f"needs the package index. {told}")


def command() -> list[str]:
    """Return how to call pip: this environment's, or another that works on it."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        pytest.fail("There is no pip: install the extra 'test'.")
    return [found, "--python", sys.executable]
