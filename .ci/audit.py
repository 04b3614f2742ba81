"""
Look the installed dependencies up in the advisory database, where that can be reached.

Run by `tox -e audit` in an environment that has just the package and what it needs at run time. Status 1 when
a release with a known weakness is among them; without a network it says so and ends well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

UNREACHABLE = re.compile(
    r"ConnectionError|ServiceError|Max retries|not found on PyPI|timed out", re.IGNORECASE
)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)


def main() -> int:
    """Audit and return the exit status."""
    frozen = run("pip", "list", "--format=freeze", "--exclude-editable").stdout.splitlines()
    wanted = [line for line in frozen if not re.match(r"(?i)(pip|setuptools|wheel|django-pg-jobs)==", line)]
    if run("pip", "install", "--quiet", "pip-audit").returncode:
        print("pip-audit can't be installed here: nothing was audited")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        needed = Path(folder, "needed.txt")
        needed.write_text("\n".join(wanted), encoding="utf-8")
        audit = run("pip_audit", "--progress-spinner=off", "--no-deps", "--disable-pip", "-r", str(needed))
    told = audit.stdout + audit.stderr
    print(f"audited: {', '.join(wanted)}\n{told}")
    found = "known vulnerabilit" in told and "No known" not in told
    if not found and UNREACHABLE.search(told):
        print("the advisory database can't be reached here, or knows none of these: nothing was audited")
        return 0
    return audit.returncode


if __name__ == "__main__":
    sys.exit(main())
