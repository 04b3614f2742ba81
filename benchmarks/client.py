"""One enqueuing client, started by `benchmarks.enqueueing`: for so many seconds, one job after another."""

from __future__ import annotations

import sys
import time


def main(seconds: float) -> None:
    """Get ready, wait for the word, enqueue, and print how many."""
    import django

    django.setup()
    from benchmarks.tasks import nothing

    nothing.enqueue(0)  # connects
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        nothing.enqueue(count)
        count += 1
    print(count, flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
