"""Python processes of the contract's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def run(*words: str, folder: Path = CHECKOUT, variables: Mapping[str, str] | None = None) -> str:
    """Run Python with `words` and return what it printed. Fails, with all it said, unless it ends well."""
    done = call(*words, folder=folder, variables=variables)
    assert done.returncode == 0, (
        f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def call(
    *words: str, folder: Path = CHECKOUT, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with `words`."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"PYTHONPATH": f"{CHECKOUT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**environment, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_python(code: str, **variables: str) -> str:
    """Run `code` and return what it printed."""
    return run("-W", "error", "-c", dedent(code), variables=variables)
