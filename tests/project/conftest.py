"""Places where a test may start embedded servers of its own, and the processes that use them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from example_project.embedded import binaries
from example_project.embedded.server import FOLDER_NAMES, Server, example, is_root, secure, try_lock
from tests.eventually import eventually

CHECKOUT = Path(__file__).resolve().parent.parent.parent

# Says the server's address, then stays until its input ends.
STAY = """
import sys
from example_project import embedded
print(embedded.database_url(), flush=True)
sys.stdin.read()
"""


class Place:
    """A temporary folder with the servers that processes started with `environment` make in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "DJANGO_JOBS_PG"}
        } | {"TMPDIR": str(folder), "PYTHONPATH": str(CHECKOUT)}
        self.processes: list[subprocess.Popen[str]] = []

    @property
    def base(self) -> Path:
        return self.folder / f"django-jobs-{os.geteuid()}"

    @property
    def server(self) -> Server:
        return example()

    def python(self, code: str, **variables: str) -> subprocess.Popen[str]:
        """Start a Python process that runs `code`, in a session of its own."""
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=CHECKOUT,
            env=self.environment | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def user(self, **variables: str) -> subprocess.Popen[str]:
        """Start a process that uses the example's server until its input ends."""
        return self.python(STAY, **variables)

    def run(self, code: str, **variables: str) -> str:
        """Run `code` in a Python process to its end and return what it printed."""
        process = self.python(code, **variables)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out.strip()

    def clear(self) -> None:
        """End all processes, wait until their servers have gone, and delete what these left."""
        for process in self.processes:
            process.kill()
            process.communicate()
        self.processes.clear()
        for trace in self.base.glob("*.watchdog"):
            with suppress(OSError, ValueError):  # no server, or it has just gone
                os.kill(watchdog_of(trace.with_suffix("")), signal.SIGTERM)
            eventually(partial(is_free, trace), timeout=30)
        shutil.rmtree(self.base, ignore_errors=True)

    def close(self) -> None:
        self.clear()
        shutil.rmtree(self.folder)


def is_free(lock: Path) -> bool:
    if (descriptor := try_lock(lock)) is None:
        return False
    os.close(descriptor)
    return True


def address_of(process: subprocess.Popen[str]) -> str:
    """Return the address that a user of a server says when the server is ready."""
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        raise AssertionError(process.communicate()[1])
    return address


def pid_of(folder: Path) -> int:
    """Return the process id of the server whose files are in `folder`."""
    return int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])


def watchdog_of(folder: Path) -> int:
    return int(shown_by_ps(pid_of(folder), "ppid"))


def is_alive(pid: int) -> bool:
    """Tell whether process `pid` runs; one that has ended and waits to be reaped doesn't."""
    state = shown_by_ps(pid, "stat")
    return bool(state) and not state.startswith("Z")


def program_of(pid: int) -> str:
    return shown_by_ps(pid, "command")


def shown_by_ps(pid: int, column: str) -> str:
    return subprocess.run(
        ["ps", "-ww", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()


def modes(paths: Iterator[Path] | list[Path]) -> Mapping[Path, int]:
    return {path: path.lstat().st_mode for path in paths}


@pytest.fixture(scope="session")
def copied() -> Iterator[Path]:
    """A base folder with root's copy of the server's files, to be linked into the tests' places."""
    folder = Path(tempfile.mkdtemp(prefix="dj-", dir="/tmp")).resolve()
    if is_root():
        for version in FOLDER_NAMES:
            binaries.copied(version, folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(cold_place: Place, copied: Path) -> Place:
    """A place as the second command finds it: root's copy of the server's files is there."""
    secure(cold_place.base)
    for copy in copied.glob("postgresql-*"):
        shutil.copytree(copy, cold_place.base / copy.name, copy_function=os.link)
    return cold_place


@pytest.fixture
def cold_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A temporary folder with a short path that all may pass through, as /tmp itself."""
    folder = Path(tempfile.mkdtemp(prefix="dj-", dir="/tmp")).resolve()
    folder.chmod(0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("DJANGO_JOBS_PG", raising=False)
    found = Place(folder)
    yield found
    found.close()
