"""
Compare one plain job table with one partitioned by state, both full of history.

    DATABASE_URL=postgresql://… python -m benchmarks.storage --finished 10000000 --minutes 10 --json out.json

The tables are in `storage_tables`, each in a schema of its own that is dropped at the end; the clients, in
`storage_churn`, enqueue 100 jobs, claim up to 100 and finish them, with the same statements for both. Phases:

churn    windows that alternate between the tables (A B A B …), so that both see the same machine
held     a window per table with a REPEATABLE READ transaction open in its second half
cleanup  a VACUUM after every 5,000 jobs, to see what the index entries it leaves do to the claim
prune    remove a tenth of the history: alone, beside the churn, and with a report's transaction open

While one table works, autovacuum is switched off for the other. Autovacuum's own accounts are read from the
server's log if `--server-log` names it and `log_autovacuum_min_duration` is 0. Decision: docs/decisions/0001.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from benchmarks.storage_churn import Churn, Server
from benchmarks.storage_tables import AUTOVACUUM, Plain, Split
from example_project.embedded import database_url


def churn(servers: list[Server], minutes: float, window: float, clients: int) -> Iterator[dict[str, Any]]:
    """Alternate windows of `window` seconds until each table has had `minutes`."""
    for _ in range(max(1, round(60 * minutes / window))):
        for server in servers:
            with server.autovacuum(), Churn(server, clients=clients) as running:
                time.sleep(window)
            minute = min(60.0, window / 2)
            yield running.report() | {
                "first minute": running.rate(0, minute),
                "last minute": running.rate(window - minute, window),
            }


def held(servers: list[Server], window: float, clients: int) -> Iterator[dict[str, Any]]:
    """Open a long transaction in the middle of a window; its cost is the second half against the first."""
    for cursor in (True, False):
        for server in servers:
            with server.autovacuum(), Churn(server, clients=clients, cursor=cursor) as running:
                time.sleep(window / 2)
                with server.report_open():
                    time.sleep(window / 2)
            yield {"claim": "cursor" if cursor else "plain"} | running.report()
            server.vacuum("INDEX_CLEANUP ON")


def cleanup(servers: list[Server], rounds: int) -> Iterator[dict[str, Any]]:
    """Vacuum after every 5,000 jobs, as autovacuum's threshold asks, with both `vacuum_index_cleanup`s."""
    for server in servers:
        for setting in ("auto", "on") if server.table.name == "plain" else ("auto",):
            server.own.execute(f"ALTER TABLE {server.table.live} SET (vacuum_index_cleanup = {setting})")
            for cursor in (True, False):
                server.vacuum("INDEX_CLEANUP ON")
                reports, vacuums, buffers = [], [], [server.claim_buffers()]
                for _ in range(rounds):
                    with Churn(server, clients=1, cursor=cursor, jobs=5000) as running:
                        pass
                    reports.append(running.report())
                    vacuums.append(server.vacuum())
                    buffers.append(server.claim_buffers())
                yield {
                    "table": server.table.name,
                    "vacuum_index_cleanup": setting,
                    "claim": "cursor" if cursor else "plain",
                    "claim p50 ms, first and last round": [
                        reports[0]["claim p50 ms"],
                        reports[-1]["claim p50 ms"],
                    ],
                    "buffers of a plain claim, p50 and max": [median(buffers), max(buffers)],
                    "jobs/s, first and last round": [reports[0]["jobs/s"], reports[-1]["jobs/s"]],
                    "ready index MB": reports[-1]["ready index MB"],
                    "vacuum p50 s": round(median(vacuum[0] for vacuum in vacuums), 2),
                    "vacuums": rounds,
                    "index passes": sum(vacuum[1] for vacuum in vacuums),
                }


def prune(servers: list[Server]) -> Iterator[dict[str, Any]]:
    """Remove a tenth of the history three times: alone, beside one client, and with a report open."""
    for case in ("alone", "beside churn", "report open"):
        for server in servers:
            found: dict[str, Any] = {"table": server.table.name, "case": case}
            running = Churn(server, clients=0 if case == "alone" else 1)
            with server.connect() as pruner, running:
                if case == "report open":
                    with server.report_open():
                        time.sleep(2)
                        found |= timed_prune(server, pruner)
                else:
                    found |= timed_prune(server, pruner)
                time.sleep(2 if running.threads else 0)
            if running.threads:
                found |= {
                    key: running.report()[key]
                    for key in ("jobs/s", "claim p99 ms", "claim max ms", "finish max ms")
                }
            seconds, passes = server.vacuum()
            yield found | {"vacuum after s": round(seconds, 2), "index passes": passes}


def timed_prune(server: Server, pruner: psycopg.Connection) -> dict[str, Any]:
    pruner.execute("SET lock_timeout = '3s'")
    wal, started, gave_up = server.sizes()["wal"], time.perf_counter(), False
    rows = 0
    try:
        rows = server.table.prune_oldest_day(pruner)
    except psycopg.errors.LockNotAvailable:
        gave_up = True
    seconds = time.perf_counter() - started
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "WAL MB (all)": round((server.sizes()["wal"] - wal) / 1e6, 1),
        "gave up": gave_up,
    }


def autovacuum_accounts(log: str) -> dict[str, dict[str, float]]:
    """Sum up the reports of automatic vacuums in a server's log, by table."""
    accounts: dict[str, dict[str, float]] = {}
    pattern = (
        r'automatic (?:aggressive )?vacuum of table "\w+\.(bench_storage_\w+\.\w+)": index scans: (\d+)'
        r"(.*?)system usage: CPU: user: ([\d.]+) s, system: ([\d.]+) s, elapsed: ([\d.]+) s"
    )
    for table, passes, body, user, system, elapsed in re.findall(pattern, log, flags=re.DOTALL):
        more = {
            "runs": 1,
            "index passes": int(passes),
            "bypassed": body.count("index scan bypassed"),
            "cpu s": float(user) + float(system),
            "elapsed s": float(elapsed),
        }
        found = accounts.setdefault(table, dict.fromkeys(more, 0.0))
        accounts[table] = {key: round(found[key] + more[key], 2) for key in more}
    return accounts


def print_table(title: str, rows: list[dict[str, Any]]) -> None:
    """Print one line per column, one column per row: the rows are few and wide."""
    print(f"\n{title}")
    for key in dict.fromkeys(key for row in rows for key in row):
        print(f"  {key:38}", *(f"{row.get(key, '')!s:>16}" for row in rows), flush=True)


def print_ranges(rows: list[dict[str, Any]]) -> None:
    """Print the smallest and largest figure of each table's windows."""
    for key in ("jobs/s", "claim p50 ms", "claim p99 ms", "finish p50 ms", "WAL B/job", "autovacuum s"):
        found = {table: [row[key] for row in rows if row["table"] == table] for table in ("plain", "split")}
        print(f"  {key:38}", *(f"{name} {min(each)}–{max(each)}" for name, each in found.items()), sep="  ")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--finished", type=int, default=10_000_000, help="rows of history in each table")
    parser.add_argument("--minutes", type=float, default=10, help="of churn, per table")
    parser.add_argument("--window", type=float, default=120, help="seconds until the other table's turn")
    parser.add_argument("--held-window", type=float, default=40, help="seconds of each held window")
    parser.add_argument("--rounds", type=int, default=20, help="vacuums of each case of the cleanup phase")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--phases", nargs="*", default=["churn", "held", "cleanup", "prune"])
    parser.add_argument("--server-log", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    servers = [Server(database_url(), table) for table in (Plain(), Split())]
    results: dict[str, Any] = {"options": {key: str(value) for key, value in vars(options).items()}}
    results["server"] = servers[0].value("SELECT version()")
    results["autovacuum settings"] = AUTOVACUUM
    log_from = options.server_log.stat().st_size if options.server_log else 0
    try:
        with ThreadPoolExecutor() as pool:
            seconds = list(pool.map(lambda server: round(server.load(options.finished)), servers))
        results["load seconds"] = seconds
        phases = {
            "churn": lambda: churn(servers, options.minutes, options.window, options.clients),
            "held": lambda: held(servers, options.held_window, options.clients),
            "cleanup": lambda: cleanup(servers, options.rounds),
            "prune": lambda: prune(servers),
        }
        for phase in options.phases:
            results[phase] = []
            for row in phases[phase]():
                results[phase].append(row)
                if options.json:
                    options.json.write_text(json.dumps(results, indent=1))
            print_table(phase, results[phase])
            if phase == "churn":
                print_ranges(results[phase])
            if phase == "churn" and options.server_log:
                accounts = autovacuum_accounts(options.server_log.read_text()[log_from:])
                results["autovacuum during churn"] = accounts
                print_table("autovacuum", [{"table": table} | account for table, account in accounts.items()])
    finally:
        for server in servers:
            server.own.execute(f"DROP SCHEMA IF EXISTS {server.schema} CASCADE")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
