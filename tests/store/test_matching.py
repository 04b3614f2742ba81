"""Walks through the table for operators, and the clock that tests choose."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from django_jobs.store import claim, finish, insert, matching, moment, overview, prune
from django_jobs.store.matching import Filter
from tests.rows import row

MANY = 60_000


def ids_of(pages):
    return [match.id for page in pages for match in page]


class TestWalk:
    def test_every_match_is_met_once_and_in_order_whatever_the_gaps(self, cursor, monkeypatch):
        monkeypatch.setattr(matching, "PAGE_ROWS", 3)
        met = []
        for number in range(12):
            met.append(row("FAILED" if number % 2 else "READY").pk)
            cursor.execute("SELECT nextval(pg_get_serial_sequence('django_jobs_job', 'id'))")
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('django_jobs_job', 'id'), %s)", [met[-1] + 50_000]
        )
        met.append(row().pk)

        assert ids_of(matching.pages(cursor, Filter())) == met
        assert ids_of(matching.pages(cursor, Filter(labels=("failed",)))) == met[1::2]
        assert ids_of(matching.pages(cursor, Filter(ids=met[4:7]))) == met[4:7]

    def test_jobs_that_come_in_meanwhile_are_left_out(self, cursor, monkeypatch):
        monkeypatch.setattr(matching, "PAGE_ROWS", 1)
        there = [row().pk, row().pk]

        met = []
        for page in matching.pages(cursor, Filter()):
            met += [match.id for match in page]
            row()

        assert met == there

    def test_a_strangers_id_may_be_the_last_there_is(self, cursor, monkeypatch):
        met = [row().pk, row(id=2**63 - 2).pk, row(id=2**63 - 1).pk]

        for rows in (1, 5_000):
            monkeypatch.setattr(matching, "PAGE_ROWS", rows)
            assert ids_of(matching.pages(cursor, Filter())) == met

    def test_an_empty_table_has_nothing(self, cursor):
        assert ids_of(matching.pages(cursor, Filter())) == []
        assert ids_of(matching.pages(cursor, Filter(labels=("failed",)))) == []


class TestPlans:
    """On a table that was just filled and never analyzed."""

    @pytest.fixture
    def explain(self, cursor):
        cursor.execute(
            "INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt, "
            "uncounted, meta, enqueued_at, run_after, finished_at) "
            "SELECT 'default', 't', '[]', '{}', 0, CASE n %% 20 WHEN 1 THEN 'FAILED' WHEN 2 THEN 'READY' "
            "ELSE 'SUCCESSFUL' END, 1, 0, '{}', now(), now(), CASE WHEN n %% 20 <> 2 THEN now() END "
            "FROM generate_series(1, %s) AS n",
            [MANY],
        )

        def scans(text, params):
            cursor.execute(f"EXPLAIN (FORMAT json) {text}", params)
            [[plan]] = cursor.fetchall()
            return [
                node
                for node in nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
                if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "django_jobs_job"
            ]

        return scans

    @pytest.mark.parametrize(
        "text", [matching.OF_ALL, matching.OF_STATE, matching.OF_OBJECT, matching.OF_IDS]
    )
    def test_a_page_is_read_by_an_index(self, explain, text):
        place = {"after": 0, "upto": 10**9, "rows": 5_000, "state": "FAILED", "ids": [1, 2, 3]}

        assert explain(text, matching.parameters(Filter(about="shop.order/7")) | place) == []

    @pytest.mark.parametrize("queues", [None, ["mail", "default"]], ids=["all queues", "some"])
    @pytest.mark.parametrize("text", [overview.OLDEST, overview.RUNNING])
    def test_what_goes_on_is_read_by_an_index(self, explain, text, queues):
        assert explain(text, {"most": 10, "queues": queues}) == []

    def test_what_was_chosen_for_pruning_is_deleted_by_its_ids(self, explain):
        text, params = prune.prune_chosen([1, 2, 3], state="FAILED", before=datetime.now(UTC))

        assert explain(text, params) == []


def nodes(plan):
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


class TestMoment:
    @pytest.mark.parametrize(
        "text",
        [claim.CLAIM, claim.SURVEY, finish.COMPLETE, finish.END, finish.COMPLETE_AND_DELETE, insert.INSERT],
    )
    def test_no_clock_is_left_in_a_statement(self, text):
        shifted = moment.timeless(text)

        assert "now()" not in shifted
        assert "clock_timestamp" not in shifted

    def test_the_statements_of_a_worker_keep_their_own(self):
        assert "job.run_after <= now()" in claim.CLAIM
        assert "%(moment)s" not in claim.CLAIM + finish.END
