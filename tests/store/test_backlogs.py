"""
What lies about costs the hot statements nothing: finished rows, jobs scheduled ahead, long and many queues.

Each backlog is of moderate size. What a statement reads is counted in pages, which no other load on the
machine changes; a walk over the backlog would read many times as many.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_jobs.store import claim, control, explain, health, moment, overview, prune, rescue
from django_jobs.store.prune import BEGINNING
from django_jobs.store.stats import COUNTED
from tests import jobs
from tests.rows import WORKER
from tests.store.test_plans import FILL as IN_A_STATE
from tests.store.test_plans import TABLE, nodes, problems

KNOWN = [jobs.ok.module_path]
ROWS = 20_000
QUEUES = [f"q{number:02}" for number in range(50)]
INDEX = "django_jobs_ready"
EXPIRY = "django_jobs_expiry"

FILL = """
    INSERT INTO django_jobs_job (
        queue_name, task_path, args, kwargs, priority, state, attempt, uncounted, worker, meta, enqueued_at,
        run_after, finished_at, expires_at)
    SELECT CASE WHEN %(queues)s > 1 THEN 'q' || to_char(n %% %(queues)s, 'FM00') ELSE 'q00' END,
           %(task)s, '[]', '{}',
           CASE WHEN %(mixed)s THEN (n * 7919) %% 201 - 100 ELSE %(priority)s END,
           CASE WHEN %(finished)s THEN 'SUCCESSFUL' ELSE 'READY' END, 0, 0, NULL, '{}', now(),
           now() + %(ahead)s * interval '1 hour' + n * interval '1 ms' - interval '1 minute',
           CASE WHEN %(finished)s THEN now() END, CASE WHEN %(finished)s THEN now() + interval '1 day' END
      FROM generate_series(1, %(count)s) AS n
"""
PLAIN = {"queues": 1, "mixed": False, "priority": 0, "finished": False, "ahead": 0, "count": ROWS}

BACKLOGS: dict[str, dict[str, Any]] = {
    "finished rows": {"finished": True},
    "jobs scheduled ahead": {"ahead": 24},
    "jobs scheduled ahead at the highest priority": {"ahead": 24, "priority": 100},
    "jobs scheduled ahead at every priority": {"ahead": 24, "mixed": True},
    "waiting jobs": {},
    "waiting jobs at every priority": {"mixed": True},
    "waiting jobs in fifty queues": {"queues": 50},
}

STATISTICS = ["counted", "not counted", "from before"]


def fill(link, **backlog):
    link.execute(FILL, PLAIN | {"task": KNOWN[0]} | backlog)


def due(link, count=100):
    """Add jobs that are due, in the queue that the backlog is in."""
    fill(link, count=count, priority=1, ahead=0)


def priorities(backlog):
    """Return the spans that a worker has after a survey: one for each priority with waiting rows."""
    found = set(range(-100, 101)) if backlog.get("mixed") else {backlog.get("priority", 0)}
    return [claim.Span(priority, claim.BEGINNING) for priority in sorted(found | {1}, reverse=True)]


def explained(link, statement):
    """Return the plan of a statement that was run, and how many pages its search for ready rows read."""
    text, parameters = statement
    options = "(ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)"
    with link.transaction(force_rollback=True):
        [[[found]]] = link.execute(f"EXPLAIN {options} {text}", parameters, prepare=False).fetchall()
    searches = [node for node in nodes(found["Plan"]) if node.get("Index Name") in (INDEX, EXPIRY)]
    pages = sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in searches)
    return found["Plan"], pages


def statements(backlog):
    """Return the hot statements of a worker that knows what waits."""
    names = QUEUES if backlog.get("queues") else ["q00"]
    after = [claim.Room(name, 100, priorities(backlog)) for name in names]
    plain = [claim.Room(name, 100) for name in names]
    return {
        "CLAIM": (claim.claim(WORKER, plain, KNOWN, 100), {INDEX, f"{TABLE}_pkey"}),
        "CLAIM_AFTER": (claim.claim_after(WORKER, after, KNOWN, 100), {INDEX, f"{TABLE}_pkey"}),
        "SURVEY": (claim.survey(), {INDEX}),
    }


@pytest.fixture
def link(links):
    """A worker's connection, and files without dead rows of other tests; all of it is taken back."""
    link = links()
    with link.transaction(force_rollback=True):
        link.execute(f"TRUNCATE {TABLE} CASCADE")
        yield link


def fill_with(link, statistics, **backlog):
    """Fill in a backlog that the planner knows of, or doesn't."""
    if statistics == "from before":  # it believes that hardly any job waits
        fill(link, finished=True)
        link.execute(f"ANALYZE {TABLE}")
    fill(link, **backlog)
    if statistics == "counted":
        link.execute(f"ANALYZE {TABLE}")


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", BACKLOGS)
def test_plans_are_the_same_beside(link, name, statistics):
    backlog = BACKLOGS[name]
    fill_with(link, statistics, **backlog)
    due(link)

    for statement, (text, indexes) in statements(backlog).items():
        plan, _ = explained(link, text)
        assert problems(plan, indexes) == [], statement


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", BACKLOGS)
def test_few_pages_are_read_beside(link, name, statistics):
    backlog = BACKLOGS[name]
    fill_with(link, statistics, **backlog)
    due(link)

    pages = {key: explained(link, text)[1] for key, (text, _) in statements(backlog).items()}

    points = len(priorities(backlog))
    places = link.execute(*claim.survey()).rowcount
    assert pages["CLAIM_AFTER"] <= 20 + 3 * points  # one descent for each point
    assert pages["SURVEY"] <= 20 + 10 * places  # a few for each place
    if name == "jobs scheduled ahead at the highest priority" and link.info.server_version < 180_000:
        # Before 18 a plain claim passes by the entries of such jobs, in its 3 % of the time.
        assert pages["CLAIM"] <= ROWS / 50
    else:
        assert pages["CLAIM"] <= 20 + 2 * points + 2 * 100  # it looks up each job that it takes


PARTIAL = """
    SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass AND indpred IS NOT NULL
"""

BY_ID = {
    "RETRY": (control.RETRY, "FAILED"),
    "CANCEL_WAITING": (control.CANCEL_WAITING, "READY"),
    "CANCEL_RUNNING": (control.CANCEL_RUNNING, "RUNNING"),
    "RUN_NOW": (control.RUN_NOW, "READY"),
    "EDIT": (control.EDIT, "READY"),
    "PRUNE_CHOSEN": (prune.PRUNE_CHOSEN, "FAILED"),
    "CLAIM_ONE": (moment.CLAIM_ONE, "READY"),
}


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", BY_ID)
def test_what_is_changed_by_its_id_is_found_by_it_alone(link, name, statistics):
    """And not among all that are in its state. In the session of a web process, with all types of plans."""
    text, state = BY_ID[name]
    for kind in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort"):
        link.execute(f"SET LOCAL enable_{kind} = on")
    if statistics == "from before":
        fill(link, finished=True)
        link.execute(f"ANALYZE {TABLE}")
    link.execute(IN_A_STATE, {"task": KNOWN[0], "state": state, "count": ROWS, "worker": WORKER})
    if statistics == "counted":
        link.execute(f"ANALYZE {TABLE}")
    [[newest]] = link.execute("SELECT max(id) FROM django_jobs_job").fetchall()
    given: dict[str, Any] = {
        "id": newest, "ids": list(range(newest - 99, newest + 1)), "state": state, "worker": WORKER,
        "reset": True, "reason": "", "keep": timedelta(1), "queue": None, "priority": 1, "run_after": None,
        "before": datetime(3000, 1, 1, tzinfo=UTC),
    }  # fmt: skip

    plan, _ = explained(link, (text, {key: given[key] for key in re.findall(r"%\((\w+)\)s", text)}))

    partial = {name for (name,) in link.execute(PARTIAL, [TABLE])}
    assert partial > {INDEX, EXPIRY}
    assert not {node.get("Index Name") for node in nodes(plan)} & partial


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", [name for name in BACKLOGS if "scheduled" in name])
def test_what_people_and_duties_ask_passes_by(link, name, statistics):
    """Each finds the few that are due without a walk over those that are scheduled."""
    backlog = BACKLOGS[name]
    fill_with(link, statistics, **backlog)
    [[job]] = link.execute("SELECT max(id) FROM django_jobs_job").fetchall()
    due(link, count=3)
    asked = {
        "OLDEST": (overview.OLDEST, overview.choice(None)),
        "AHEAD": (explain.AHEAD, {"id": job, "queue": "q00", "priority": -100, "counted": COUNTED}),
        "FAIL_UNKNOWN": rescue.fail_unknown(
            ["q00"], wait=timedelta(hours=1), keep=timedelta(days=1), reason="unknown"
        ),
    }

    places = link.execute(*claim.survey()).rowcount
    for statement, text in asked.items():
        if statement == "FAIL_UNKNOWN" and link.info.server_version < 180_000:
            continue  # reads the index, but no row of the table
        assert explained(link, text)[1] <= 20 + 20 * places, statement


def test_what_expired_is_found_without_a_walk_over_what_is_kept(link):
    fill(link, finished=True)

    plan, pages = explained(link, (health.EXPIRED, {"beginning": BEGINNING}))

    assert EXPIRY in {node.get("Index Name") for node in nodes(plan)}
    assert pages <= 20


class TestJobsOfOthers:
    """A backlog of tasks that this worker doesn't know, or that the other kind of slot runs."""

    def claimed_and_read(self, link, *spans):
        room = [claim.Room("q00", 10, spans)]
        make = claim.claim_after if spans else claim.claim
        statement = make(WORKER, room, ["other.task"], 10)
        with link.transaction(force_rollback=True):
            found = len(link.execute(*statement).fetchall())
        return found, explained(link, statement)[1]

    def test_a_plain_claim_looks_at_so_many_rows_of_them_and_no_more(self, link):
        fill(link)
        fill(link, task="other.task", count=5, priority=-1)

        found, pages = self.claimed_and_read(link)
        assert found == 0
        assert pages < self.claimed_and_read(link, claim.Span(0, claim.BEGINNING))[1] / 4

    def test_a_plain_claim_finds_what_is_among_the_first(self, link):
        fill(link, count=claim.LONGEST_WALK - 100)
        fill(link, task="other.task", count=5, priority=-1)

        assert self.claimed_and_read(link)[0] == 5

    def test_a_claim_after_points_finds_what_is_behind_them(self, link):
        fill(link)
        fill(link, task="other.task", count=5)

        assert self.claimed_and_read(link, claim.Span(0, claim.BEGINNING))[0] == 5


def test_a_claim_that_walks_over_a_backlog_is_noticed(link):
    """Or what is asserted above would prove nothing."""
    fill(link, ahead=24, priority=100)
    due(link)
    text, parameters = statements({"priority": 100})["CLAIM"][0]
    walking = text.replace("job.run_after <= now()", "job.run_after + interval '0' <= now()")
    assert walking != text

    assert explained(link, (walking, parameters))[1] > 20 + 2 * 2 + 100
