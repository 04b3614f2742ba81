"""
The parent of an embedded server: makes its data, starts it, and stops it when its last user has gone.

`client.py` runs this module as a program and hands it the lock that stands for its life. All it and the
server have to say goes to the server's log, which the client shows when a start fails.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from example_project.embedded.binaries import programs
from example_project.embedded.server import (
    POLL_SECONDS,
    EmbeddedServerError,
    Server,
    is_root,
    try_lock,
)
from example_project.parting import sent_at_our_end

LINGER_SECONDS = 2.0
"""How long the server stays without a user, so that one command after the other finds it running."""

CHECK_SECONDS = 0.2
"""How often to look whether it still has users: nothing waits for this."""

READY_SECONDS = 55.0
"""Longest start, recovery after a crash included; a little less than the client waits."""

REAP_SECONDS = 2.0
"""How long to wait for a killed server's process to be reaped."""

UNPRIVILEGED_USER = "nobody"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--base", type=Path, required=True)
    arguments.add_argument("--name", required=True)
    arguments.add_argument("--version", type=int, required=True)
    arguments.add_argument("--lock", type=int, required=True)
    arguments.add_argument("--throwaway", action="store_true")
    given = arguments.parse_args()
    server = Server(base=given.base, name=given.name, version=given.version, throwaway=given.throwaway)
    if os.fork():
        os._exit(0)  # the client doesn't have to wait for us, nor reap us
    os.set_inheritable(given.lock, False)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    os.umask(0o022)
    try:
        watch(server)
    except (EmbeddedServerError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
    except Exception:  # noqa: BLE001  whatever it is belongs in the log, which the client shows
        traceback.print_exc()
        sys.exit(1)


def leave(*_: object) -> NoReturn:
    raise SystemExit


def watch(server: Server) -> None:
    """Run `server` until nobody uses it, its folder is deleted, it stops by itself, or SIGTERM comes."""
    account = server_account()
    if server.throwaway:
        sweep(server.base)
    bin_folder = programs(server.version, server.base)
    stop_leftover(server)
    disown(server)
    initialise(server, bin_folder, account)
    process = launch(server, bin_folder, account)
    held: int | None = None
    try:
        wait_until_ready(server, process)
        server.ready.touch()
        held = wait_until_unused(server, process)
    finally:
        server.ready.unlink(missing_ok=True)
        stop(process, at_once=server.throwaway or not has_cluster(server))
        if server.throwaway and held is not None:
            remove(server)


def server_account() -> dict[str, Any]:
    """Return the arguments for `subprocess` that give up root's rights, or none if we have none."""
    if not is_root():
        return {}
    try:
        entry = pwd.getpwnam(UNPRIVILEGED_USER)
    except KeyError:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and there is no user {UNPRIVILEGED_USER!r} to run it as. "
            f"Use another account, or set DATABASE_URL to a PostgreSQL server."
        ) from None
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def initialise(server: Server, bin_folder: Path, account: dict[str, Any]) -> None:
    """Make the data folder if there is no whole one, and the folder of the socket."""
    if not has_cluster(server):
        server.initialised.unlink(missing_ok=True)
        shutil.rmtree(server.data, ignore_errors=True)
        make_private(server.data, account)
        encoding = ["--encoding=UTF8", "--locale=C"]
        if server.version >= 17:  # case rules beyond ASCII that need no library
            encoding += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        subprocess.run(
            [
                bin_folder / "initdb",
                f"--pgdata={server.data}",
                "--username=postgres",
                "--auth=trust",
                "--no-sync",
                "--no-instructions",
                *encoding,
            ],
            check=True,
            cwd="/",
            env=server_environment(),
            **account,
        )
        server.initialised.touch()
    make_private(server.sockets, account)
    freshen(server.folder)


def has_cluster(server: Server) -> bool:
    """Tell whether the data folder was made to its end and is still there."""
    return all(
        file.exists()
        for file in (
            server.initialised,
            server.data / "PG_VERSION",
            server.data / "global" / "pg_control",
        )
    )


def make_private(folder: Path, account: dict[str, Any]) -> None:
    """Make `folder` for the server's user alone."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if account:
        os.chown(folder, account["user"], account["group"], follow_symlinks=False)


def freshen(folder: Path) -> None:
    """
    Give all files below `folder` the present time.

    Machines that clear old files out of the temporary folder would else take a data folder's rarely
    written files one by one, and leave a broken server; so they take all or nothing.
    """
    for place, _, files in os.walk(folder):
        for file in files:
            os.utime(Path(place, file), follow_symlinks=False)


def launch(server: Server, bin_folder: Path, account: dict[str, Any]) -> subprocess.Popen[bytes]:
    options = {
        "listen_addresses": "",
        "unix_socket_directories": str(server.sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "300",
    }
    if server.throwaway:
        options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    return subprocess.Popen(
        [
            bin_folder / "postgres",
            "-D",
            server.data,
            *(word for name, value in options.items() for word in ("-c", f"{name}={value}")),
        ],
        cwd="/",
        env=server_environment(),
        preexec_fn=sent_at_our_end(signal.SIGINT),
        **account,
    )


def server_environment() -> dict[str, str]:
    return os.environ | {"LC_ALL": "C", "TZ": "UTC"}


def wait_until_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise EmbeddedServerError(f"postgres ended with status {process.returncode}.")
        lines = pid_file(server)
        # The eighth line is the state, as pg_ctl reads it; the first one may be of an earlier server.
        if len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
            return
        time.sleep(POLL_SECONDS)
    raise EmbeddedServerError(f"postgres is not ready after {READY_SECONDS:.0f} s.")


def pid_file(server: Server) -> list[str]:
    try:
        return (server.data / "postmaster.pid").read_text().splitlines()
    except (OSError, ValueError):
        return []


def wait_until_unused(server: Server, process: subprocess.Popen[bytes]) -> int | None:
    """
    Return the users' lock, taken, when nobody has held it for a while; None if the server is lost first.

    While we keep it, a newcomer waits; when we have gone, it starts the server anew.
    """
    unused_since: float | None = None
    while process.poll() is None and has_cluster(server):
        descriptor = try_lock(server.users_lock)
        now = time.monotonic()
        if descriptor is None:
            unused_since = None
        else:
            unused_since = now if unused_since is None else unused_since
            if now - unused_since >= LINGER_SECONDS:
                return descriptor
            os.close(descriptor)
        time.sleep(CHECK_SECONDS)
    return None


def stop(process: subprocess.Popen[bytes], *, at_once: bool) -> None:
    """End the server: with its data written, or at once where the data has no further use."""
    steps = [(signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)]
    for number, seconds in steps[1 if at_once else 0 :]:
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        return


def stop_leftover(server: Server) -> None:
    """End a server that outlived its watchdog."""
    for number, seconds in ((signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + seconds
        asked = False
        while (pid := leftover(server)) is not None and time.monotonic() < deadline:
            if not asked:
                print(f"stopping server {pid}, which outlived its watchdog", flush=True)
                os.kill(pid, number)
                asked = True
            time.sleep(POLL_SECONDS)
        if pid is None:
            return


def disown(server: Server) -> None:
    """
    Keep a pid file whose server has gone from stopping the next one.

    PostgreSQL refuses to start while a process with that number exists, be it one that nobody reaps (its
    parent was killed too) or a stranger that got the number. One number it takes for its own is its parent's,
    so ours is put in. The file stays, as it also tells which shared memory to check for live children.
    """
    lines = pid_file(server)
    if not lines or not lines[0].isdigit():
        return
    deadline = time.monotonic() + REAP_SECONDS
    while exists(int(lines[0])):
        if time.monotonic() > deadline:
            lines[0] = str(os.getpid())
            replace(server.data / "postmaster.pid", "\n".join(lines) + "\n")
            return
        time.sleep(POLL_SECONDS)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def replace(file: Path, text: str) -> None:
    """Write `file`, which lies in a folder of the server's user, without following where a link leads."""
    descriptor = os.open(file, os.O_WRONLY | os.O_NOFOLLOW)
    with open(descriptor, "w") as opened:  # noqa: PTH123  a descriptor has no path
        found = os.fstat(descriptor)
        if found.st_nlink != 1 or found.st_uid != file.parent.stat().st_uid:
            raise EmbeddedServerError(f"{file} is not the server's own file.")
        opened.truncate()
        opened.write(text)


def leftover(server: Server) -> int | None:
    """Return the process id in the pid file if that process is this server and not another's by chance."""
    lines = pid_file(server)
    if not lines or not lines[0].isdigit():
        return None
    pid = int(lines[0])
    return pid if f"-D {server.data}" in command_line(pid) else None


def command_line(pid: int) -> str:
    """Return the words of process `pid` joined by spaces, empty when there is no such process."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    else:
        return subprocess.run(
            ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout


def sweep(base: Path) -> None:
    """Remove what throw-away servers left whose watchdog was killed."""
    for trace in base.glob("[0-9]*-t*.watchdog"):
        version = int(trace.name.partition("-")[0])
        dead = Server(base=base, name=trace.stem, version=version, throwaway=True)
        locks: list[int] = []
        try:
            for path in (dead.users_lock, dead.watchdog_lock):
                if (descriptor := try_lock(path)) is None:
                    break
                locks.append(descriptor)
            else:
                stop_leftover(dead)
                remove(dead)
        finally:
            for descriptor in locks:
                os.close(descriptor)


def remove(server: Server) -> None:
    """Delete a server's files; its users' and its watchdog's lock must be ours."""
    shutil.rmtree(server.folder, ignore_errors=True)
    for path in (server.start_lock, server.watchdog_lock, server.users_lock):
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
