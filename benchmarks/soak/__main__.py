"""
Break everything at random while jobs run, then account for every job.

    python -m benchmarks.soak --minutes 15 --seed 7
    python -m benchmarks.soak --minutes 5 --calm
    python -m benchmarks.soak --figures

Three `runjobs` (two with two processes each) work on a PostgreSQL of the soak's own, while children, parents
and whole commands are killed, stopped and told to end, sessions are cut and the server crashes. At the end
all jobs must have come to an end, each once; `benchmarks/soak/accounting.py` has the rules. Status 1 when one
is broken. `--calm` breaks nothing: one worker runs as many jobs as it can, and its memory, threads, files and
sessions are compared between the first quarter and the end. `--figures` measures how long it takes until all
is as it was.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import django
import psycopg

if TYPE_CHECKING:
    from tests.scenarios.servers import OwnServer


def prepare(folder: Path) -> OwnServer:
    """Start a server, whose address Django has then too, and make the tables."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.scenarios.settings"
    os.environ["SCENARIO_APPS"] = "benchmarks.soak"
    os.environ["SCENARIO_FOLDER"] = str(folder)
    from tests.scenarios.servers import OwnServer

    server = OwnServer()
    os.environ["DATABASE_URL"] = server.url
    django.setup()
    logging.getLogger("django_jobs").addHandler(logging.NullHandler())  # its own troubles are meant
    from django.core.management import call_command

    from benchmarks.soak.accounting import TABLES

    call_command("migrate", verbosity=0)
    with psycopg.connect(server.url, autocommit=True) as connection:
        # The tests' servers are made for speed, and may forget what they said was committed.
        connection.execute("ALTER DATABASE postgres SET synchronous_commit = on")
        connection.execute(TABLES)
    return server


def main() -> int:
    """Run the soak and print what happened."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to break things (default: 2)")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the random choices (default: by the clock)"
    )
    parser.add_argument("--calm", action="store_true", help="break nothing, and see whether anything grows")
    parser.add_argument("--figures", action="store_true", help="measure how long recoveries take instead")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int(time.time())
    print(f"soak of {options.minutes:g} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        server = prepare(Path(folder))
        try:
            if options.figures:
                from benchmarks.soak.figures import run_figures

                return run_figures(server, Path(folder))
            if options.calm:
                from benchmarks.soak.calm import run_calm

                return run_calm(server.url, Path(folder), options.minutes * 60)
            from benchmarks.soak.trouble import Soak

            return Soak(server, Path(folder), random.Random(seed)).run(options.minutes * 60)
        finally:
            server.leave()


if __name__ == "__main__":
    sys.exit(main())
