"""
What an embedded server is: its folders, its address and its locks. Nothing here starts one.

`client.py` (in each process that uses a server) and `watchdog.py` (the server's parent) share this.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

CHECKOUT = Path(__file__).resolve().parent.parent.parent

FOLDER_NAMES = {16: "pginstall", 18: "pginstall18"}
"""PostgreSQL version → folder of the wheel that holds it."""

DEFAULT_VERSION = 18

LONGEST_SOCKET_PATH = 103
"""Bytes of a unix socket's path on macOS; Linux allows 107."""

POLL_SECONDS = 0.02


class EmbeddedServerError(Exception):
    """The embedded server can't be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server, running or not. Equal values are the same server, in whichever process."""

    base: Path
    """The folder of all this user's servers."""

    name: str

    version: int

    throwaway: bool
    """Data goes when the server stops, and is not kept safe from a power cut: for tests."""

    @property
    def folder(self) -> Path:
        return self.base / self.name

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def sockets(self) -> Path:
        return self.folder / "s"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def initialised(self) -> Path:
        """Stands once `data` is a complete cluster."""
        return self.folder / "initialised"

    @property
    def ready(self) -> Path:
        """Stands while the server takes connections."""
        return self.folder / "ready"

    # The locks lie beside the folder, so that whoever deletes it can't start a second server in its place
    # before the first one has gone.

    @property
    def users_lock(self) -> Path:
        """Held shared by each process that uses the server, exclusively by a watchdog that stops it."""
        return self.base / f"{self.name}.users"

    @property
    def start_lock(self) -> Path:
        """Held by the one process that looks whether the server runs, and starts it."""
        return self.base / f"{self.name}.start"

    @property
    def watchdog_lock(self) -> Path:
        """Held by the watchdog for its whole life."""
        return self.base / f"{self.name}.watchdog"

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self.sockets), safe='/')}"

    def is_ready(self) -> bool:
        """Tell whether the server takes connections, provided that its watchdog lives."""
        return self.ready.exists() and (self.data / "PG_VERSION").exists()

    def log_tail(self, lines: int = 25) -> str:
        try:
            text = self.log.read_text(errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-lines:])


def example(checkout: Path = CHECKOUT) -> Server:
    """Return the server whose data stays: one per user, checkout and PostgreSQL version."""
    version = chosen_version()
    digest = hashlib.sha256(os.fsencode(checkout)).hexdigest()[:8]
    return Server(base=base_folder(), name=f"{version}-{digest}", version=version, throwaway=False)


def for_tests(run: str) -> Server:
    """Return the throw-away server of the test run `run`, a short word."""
    version = chosen_version()
    return Server(base=base_folder(), name=f"{version}-t{run[:8]}", version=version, throwaway=True)


def chosen_version() -> int:
    """Return the PostgreSQL version that DJANGO_JOBS_PG asks for."""
    wanted = os.environ.get("DJANGO_JOBS_PG", "") or str(DEFAULT_VERSION)
    if wanted not in {str(version) for version in FOLDER_NAMES}:
        raise EmbeddedServerError(
            f"DJANGO_JOBS_PG is {wanted!r}, but the embedded server has only: "
            f"{', '.join(map(str, sorted(FOLDER_NAMES)))}. For another PostgreSQL set DATABASE_URL."
        )
    return int(wanted)


def is_root() -> bool:
    return os.geteuid() == 0


def base_folder() -> Path:
    """
    Return the folder of this user's servers, which need not exist yet.

    It lies in the temporary folder, or in /tmp where that one's path is too long for a socket or, for root,
    closed to the unprivileged user that runs the server.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    for parent in (temporary, Path("/tmp").resolve()):
        base = parent / f"django-jobs-{os.geteuid()}"
        longest = base / "18-t1234567" / "s" / ".s.PGSQL.5432"
        if len(os.fsencode(longest)) <= LONGEST_SOCKET_PATH and (not is_root() or is_open_to_all(parent)):
            return base
    raise EmbeddedServerError(
        f"The embedded PostgreSQL can't use {temporary} or /tmp: the path is too long, or closed to other "
        f"users, which root's server needs. Set TMPDIR to another folder, or DATABASE_URL to a server."
    )


def is_open_to_all(folder: Path) -> bool:
    """Tell whether any user can pass through `folder` and all its parents."""
    try:
        return all(place.stat().st_mode & stat.S_IXOTH for place in (folder, *folder.parents))
    except OSError:
        return False


def secure(folder: Path) -> None:
    """
    Make `folder`, or check that it is ours alone to write.

    Raises EmbeddedServerError when somebody else made it first, to read or replace what we put there.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise EmbeddedServerError(
            f"{folder} is not a folder that only you (uid {os.geteuid()}) can write: it has owner "
            f"{found.st_uid} and mode {stat.filemode(found.st_mode)}. Remove it, or set TMPDIR to another "
            f"folder, or DATABASE_URL to a server."
        )
    if is_root():
        folder.chmod(0o711)  # the server's user passes through, and lists nothing


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Return a file descriptor that holds the lock until it is closed everywhere, or None if it is taken."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if still_names(path, descriptor):
            return descriptor
        os.close(descriptor)  # deleted with its server while we waited: lock the file that counts now


def lock(path: Path, *, shared: bool = False, seconds: float) -> int:
    """Return what `try_lock` gives, waiting up to `seconds`; raises EmbeddedServerError after that."""
    deadline = time.monotonic() + seconds
    while (descriptor := try_lock(path, shared=shared)) is None:
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"Another process has held {path} for {seconds:.0f} s. Is a start or stop of the embedded "
                f"PostgreSQL stuck? End that process, or set DATABASE_URL to a server."
            )
        time.sleep(POLL_SECONDS)
    return descriptor


def still_names(path: Path, descriptor: int) -> bool:
    """Tell whether `path` is the file that `descriptor` has open."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
