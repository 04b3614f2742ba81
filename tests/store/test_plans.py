"""
How PostgreSQL runs the statements of a worker: by the indexes meant for them, whatever its statistics say.

Plans are asked for on a worker's own connection, with its session's settings, once after the statistics
were taken and once with those of an empty table.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from django_jobs.core.records import Captured, Completed, Ended
from django_jobs.core.states import State
from django_jobs.store import claim, finish, prune, rescue, scout, workers
from tests import jobs
from tests.rows import WORKER, claimed_job
from tests.store.test_finish import CANCELLED, FAILED, RETRIED, SNOOZED

KNOWN = [jobs.ok.module_path]
TABLE = "django_jobs_job"
PRIMARY_KEY = "django_jobs_job_pkey"

FILL = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, worker, enqueued_at,
        run_after, started_at, last_attempted_at, finished_at, expires_at, meta)
    SELECT 'q' || n %% 3, %(task)s, '[]', '{}', 0, %(state)s::text, 1, 0, %(worker)s + n %% 2,
           now(), now() - interval '1 day', now(), now(),
           CASE WHEN %(state)s::text IN ('SUCCESSFUL', 'FAILED') THEN now() - interval '1 hour' END,
           CASE WHEN %(state)s::text IN ('SUCCESSFUL', 'FAILED') THEN now() + n * interval '1 second' END,
           '{}'
      FROM generate_series(1, %(count)s) AS n
"""

PLACES = [claim.Span(5, claim.BEGINNING), claim.Span(0, claim.BEGINNING)]
DONE = Completed(return_value=None, keep=None)
DELETED = Completed(return_value=None, keep=timedelta(0))


def ends(outcomes):
    return [Ended(claimed_job(id=place), outcome) for place, outcome in enumerate(outcomes * 50, start=100)]


COMPLETE, COMPLETE_AND_DELETE, END = finish.finish(
    WORKER, ends([DONE, DELETED, RETRIED, FAILED, SNOOZED, CANCELLED]), keep_cancelled=None
)
CAPTURED = Captured(lines="[]", cut=0, cut_at=0, queries=1, query_seconds=0.1)
CAPTURE, _ = finish.finish(
    WORKER, [replace(end, captured=CAPTURED) for end in ends([DONE])], keep_cancelled=None
)
[COMPLETE_AND_DELETE_ALL] = finish.finish(
    WORKER, [Ended(claimed_job(id=100, attempt=2), DELETED)], keep_cancelled=None
)
ROOMS = [claim.Room(f"q{number}", 100, PLACES) for number in range(3)]

STATEMENTS = {
    "CLAIM": (claim.claim(WORKER, ROOMS, KNOWN, 100), {"django_jobs_ready", PRIMARY_KEY}),
    "CLAIM_AFTER": (claim.claim_after(WORKER, ROOMS, KNOWN, 100), {"django_jobs_ready", PRIMARY_KEY}),
    "EARLY": (claim.early(claim.claim_after(WORKER, ROOMS, KNOWN, 100)), {"django_jobs_ready", PRIMARY_KEY}),
    "SCOUT": (scout.scout({room.queue_name: room.spans for room in ROOMS}, KNOWN, 50), {"django_jobs_ready"}),
    "SURVEY": (claim.survey(), {"django_jobs_ready"}),
    "COMPLETE": (COMPLETE, {PRIMARY_KEY}),
    "COMPLETE_AND_DELETE": (COMPLETE_AND_DELETE, {PRIMARY_KEY}),
    "COMPLETE_AND_DELETE_ALL": (COMPLETE_AND_DELETE_ALL, {PRIMARY_KEY, "django_jobs_capture_number"}),
    "END": (END, {PRIMARY_KEY}),
    "CAPTURE": (CAPTURE, {PRIMARY_KEY}),
    "RELEASE": (finish.release(WORKER, [(7, 1), (8, 1)], keep_cancelled=None), {PRIMARY_KEY}),
    "PRUNE": (prune.prune(1000), {"django_jobs_expiry", PRIMARY_KEY}),
    "ORPHANS": (rescue.orphans(), {"django_jobs_running"}),
    "STRAYS": (workers.strays(WORKER, [1, 2, 3]), {"django_jobs_running"}),
    "CANCEL_REQUESTS": (workers.cancel_requests(WORKER), {"django_jobs_running"}),
}


COUNTS = {State.READY: 300, State.RUNNING: 20, State.SUCCESSFUL: 20_000, State.FAILED: 50}


def fill(link):
    for state, count in COUNTS.items():
        parameters = {"task": KNOWN[0], "state": state.value, "count": count, "worker": WORKER}
        link.execute(FILL, parameters)


def nodes(plan):
    """Yield every node of a plan that touches the jobs' table, and every sort."""
    if plan.get("Relation Name") == TABLE or "Index Name" in plan or plan["Node Type"].endswith("Sort"):
        yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def problems(plan, wanted):
    """Return what is wrong with a plan: scans of the jobs' table by other means than the wanted indexes."""
    found = [
        f"{node['Node Type']} of {node.get('Relation Name')} by {node.get('Index Name')}"
        for node in nodes(plan)
        if node["Node Type"] not in ("Index Scan", "Index Only Scan", "ModifyTable", "LockRows")
        or (node.get("Relation Name") == TABLE and "Index Name" in node and node["Index Name"] not in wanted)
    ]
    missing = wanted - {node.get("Index Name") for node in nodes(plan)}
    return found + [f"{name} is not used" for name in sorted(missing)]


def plan_of(link, statement):
    text, parameters = statement
    [[[explained]]] = link.execute(f"EXPLAIN (FORMAT JSON) {text}", parameters, prepare=False).fetchall()
    return explained["Plan"]


def all_problems(link):
    found = {
        name: problems(plan_of(link, statement), indexes) for name, (statement, indexes) in STATEMENTS.items()
    }
    return {name: wrong for name, wrong in found.items() if wrong}


def scans(link):
    """Return how often the open transaction has read the whole table."""
    query = "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = %s"
    return link.execute(query, [TABLE]).fetchone()[0]


def test_statements_use_their_indexes(links):
    link = links()
    with link.transaction(force_rollback=True):
        fill(link)
        link.execute(f"ANALYZE {TABLE}")

        assert all_problems(link) == {}


def test_statistics_of_an_empty_table_mislead_no_statement(links):
    link = links()
    link.execute(f"ANALYZE {TABLE}")
    with link.transaction(force_rollback=True):
        fill(link)

        assert all_problems(link) == {}


def test_plans_made_while_the_table_was_empty_stay_good(links):
    link = links()
    with link.transaction(force_rollback=True):
        for _ in range(8):  # PostgreSQL takes a plan for good after five
            for statement, _ in STATEMENTS.values():
                link.execute(*statement)
        fill(link)
        before = scans(link)

        for name, (statement, _) in STATEMENTS.items():
            link.execute(*statement)
            assert scans(link) == before, name


def test_without_an_index_these_tests_fail(links):
    link = links()
    with link.transaction(force_rollback=True):
        link.execute("DROP INDEX django_jobs_ready")
        fill(link)

        assert set(all_problems(link)) == {"CLAIM", "CLAIM_AFTER", "EARLY", "SCOUT", "SURVEY"}
