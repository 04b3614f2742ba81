"""`python -m benchmarks run` and `python -m benchmarks peers`: the figures of docs/performance.md."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    match sys.argv[1:2]:
        case ["run"]:
            from benchmarks import run

            run.main(sys.argv[2:])
        case ["peers"]:
            from benchmarks.peers import runner

            runner.main(sys.argv[2:])
        case _:
            sys.exit("usage: python -m benchmarks {run,peers} [--help]")
