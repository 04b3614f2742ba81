"""What Linux tells of processes: their children, their time on the processor, their memory."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.ground import Ground

TICKS = os.sysconf("SC_CLK_TCK")


def available() -> bool:
    """Whether the system tells."""
    return Path("/proc/self/stat").exists()


def tree(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [pid]
    for parent in found:
        try:
            threads = list(Path(f"/proc/{parent}/task").iterdir())
            for thread in threads:
                found += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:  # it has ended
            continue
    return found


def cpu_seconds(pid: int) -> float:
    """Return how long a process has been on a processor; 0 when it has ended or the system doesn't tell."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / TICKS


def resident_mb(pid: int) -> float:
    """Return the memory of a process that is in RAM, shared parts included, in MB (10⁶ bytes)."""
    return kilobytes(pid, "status", "VmRSS:") * 1024 / 1e6


def private_mb(pid: int) -> float:
    """Return the memory of a process with its share of what it shares with others, in MB (10⁶ bytes)."""
    return kilobytes(pid, "smaps_rollup", "Pss:") * 1024 / 1e6


def kilobytes(pid: int, file: str, field: str) -> int:
    """Return one field of a file of a process; 0 when it has ended or the system doesn't tell."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(field)), 0)


def server_processes(ground: Ground) -> list[int]:
    """Return the processes of the server, if it runs on this machine."""
    pid = ground.one("SELECT pg_backend_pid()")
    try:
        words = Path(f"/proc/{pid}/stat").read_text()
        if "postgres" not in words.partition("(")[2].partition(")")[0]:
            return []
    except OSError:
        return []
    return tree(int(words.rpartition(")")[2].split()[1]))
