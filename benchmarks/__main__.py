"""`python -m benchmarks run`: the figures of docs/performance.md."""

from __future__ import annotations

import sys

from benchmarks import run

if __name__ == "__main__":
    if sys.argv[1:2] != ["run"]:
        sys.exit("usage: python -m benchmarks run [--help]")
    run.main(sys.argv[2:])
