"""How figures are summed up, printed and kept; and how statements are told apart and handed to pgbench."""

from __future__ import annotations

import json

import pytest

from benchmarks.figures import Figures, Found, percentile, summary
from benchmarks.idling import Log, known_statements, shape_of
from benchmarks.limit import cycle, in_pgbench
from django_jobs.store import claim, finish, workers

MACHINE = {
    "cores": 2,
    "python": "3.13",
    "django": "6.1",
    "psycopg": "3.3",
    "server": {"server_version": "18.4"},
    "options": {"runs": 3},
}


@pytest.fixture
def figures():
    found = Figures(machine=MACHINE)
    for value in (1000.0, 3000.0, 2000.0):
        found.add("drain", Found("1 process", "jobs/s", value))
    found.add("due", Found("late", "ms", 1.25))
    return found


def test_a_figure_is_shown_by_its_median_smallest_and_largest(figures):
    assert "1 process" in figures.as_text()
    assert "2,000 (1,000–3,000) jobs/s" in figures.as_text()


def test_tables_for_the_docs_name_unit_and_group(figures):
    assert (
        "| drain | median (smallest–largest) |\n| --- | --- |\n| 1 process, jobs/s | 2,000 (1,000–3,000) |"
        in (figures.as_markdown())
    )


def test_everything_is_kept(figures):
    kept = json.loads(figures.as_json())

    assert kept["figures"]["drain"]["1 process"] == {
        "unit": "jobs/s",
        "median": 2000.0,
        "values": [1000.0, 3000.0, 2000.0],
    }
    assert kept["machine"] == MACHINE


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1234.5], "1,234 (1,234–1,234)"),
        ([12.34], "12.3 (12.3–12.3)"),
        ([1.234], "1.23 (1.23–1.23)"),
        ([0.1234], "0.123 (0.123–0.123)"),
    ],
)
def test_digits_follow_the_size(values, shown):
    assert summary(values) == shown


def test_percentiles_of_few_values_lie_within_them():
    assert percentile([5.0], 99) == 5.0
    assert percentile([1.0, 2.0], 50) == 1.5
    assert 99 <= percentile([float(value) for value in range(101)], 99) <= 100


class TestPgbench:
    def test_gets_parameters_as_variables_and_nulls_as_text(self):
        variables: dict[str, str] = {}
        statement = (
            "SELECT %(a)s::int[], (%(b)s::int[])[x.first:x.last], %(c)s, 1 %% 2",
            {"a": [1, 2], "b": "{3}", "c": None},
        )

        text = in_pgbench(statement, variables, {})

        assert text == "SELECT :v_a::int[], (:v_b::int[])[x.first : x.last], NULL, 1 % 2"
        assert variables == {"v_a": '{"1","2"}', "v_b": "{3}"}

    def test_gets_what_changes_as_expressions(self):
        assert in_pgbench(("SELECT %(ids)s", {"ids": "{}"}), {}, {"ids": ":ids::text"}) == "SELECT :ids::text"

    def test_refuses_two_values_of_one_name(self):
        variables = {"v_a": "1"}

        with pytest.raises(ValueError, match="'a'"):
            in_pgbench(("SELECT %(a)s", {"a": 2}), variables, {})

    def test_sends_what_a_worker_sends(self):
        claiming, finishing = cycle("tasks.nothing")

        assert claiming[0] == claim.CLAIM_AFTER
        assert [text for text, _ in finishing] == [finish.COMPLETE]


class TestLog:
    def test_statements_are_counted_by_the_names_of_their_texts(self, tmp_path):
        heartbeat = workers.HEARTBEAT.replace("%(worker)s", "$1")
        path = tmp_path / "server.log"
        path.write_text(
            "2026-11-29 12:00:00.000 UTC [7] LOG:  statement: SELECT 0\n"
            f"2026-11-29 12:00:01.000 UTC [7] LOG:  execute _pg3_0: {heartbeat}\n"
            "2026-11-29 12:00:01.000 UTC [7] DETAIL:  Parameters: $1 = '1'\n"
            f"2026-11-29 12:00:02.000 UTC [8] LOG:  execute <unnamed>: {heartbeat}\n"
            "2026-11-29 12:00:03.000 UTC [7] LOG:  statement: SELECT   1\n"
        )
        skipped = path.read_text().index("\n") + 1

        assert Log(path).statements(skipped, [7]) == {"workers.HEARTBEAT": 1, "SELECT 1": 1}

    def test_every_statement_of_the_store_has_a_name(self):
        names = known_statements()

        assert names[shape_of(claim.SURVEY)] == "claim.SURVEY"
        assert names[shape_of(finish.END)] == "finish.END"
        early, _ = claim.early((claim.CLAIM_AFTER, {}))
        assert names[shape_of(early)] == "claim.CLAIM_AFTER, early"
