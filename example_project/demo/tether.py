"""
Runs a command that ends when whoever started us does: `python -m example_project.demo.tether 10 command …`.

Our standard input is a pipe from our starter, which the kernel closes when that process ends in whatever
way. Then, or on SIGTERM, the command is asked to end, and its process group killed after the given number of
seconds. On Linux the kernel also asks it to end when we are killed ourselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from example_project.parting import sent_at_our_end


def main() -> int:
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=sent_at_our_end(signal.SIGTERM),
    )
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    threading.Thread(target=end_with_input, args=[process, seconds], daemon=True).start()
    try:
        return process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever it left behind


def end_with_input(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the end of our input, then for that of `process`, which is asked to."""
    while os.read(0, 1024):
        pass
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    status = main()
    sys.exit(status if status >= 0 else 128 - status)
