"""A worker's own connection: its session, and several statements in one go."""

from __future__ import annotations

import psycopg
import pytest

from django_jobs.store.cursor import Statement
from django_jobs.store.link import SESSION, connect, run_together
from django_jobs.worker.process import connection_parameters
from tests.eventually import eventually


def shown(link, name):
    return link.execute(f'SHOW "{name}"').fetchone()[0]


def test_a_session_of_our_own_is_set_up(links):
    link = links()

    assert {name: shown(link, name) for name in SESSION} == {
        name: {"60s": "1min"}.get(value, value) for name, value in SESSION.items()
    }


def test_whatever_the_database_sets_for_others(links):
    link = links()
    [name] = link.execute("SELECT quote_ident(current_database())").fetchone()
    link.execute(f"ALTER DATABASE {name} SET default_transaction_isolation TO serializable")
    link.execute(f"ALTER DATABASE {name} SET default_transaction_read_only TO on")
    try:
        found = links()
        assert shown(found, "transaction_isolation") == "read committed"
        assert shown(found, "transaction_read_only") == "off"
    finally:
        link.execute(f"ALTER DATABASE {name} RESET ALL")


def test_a_session_that_others_will_use_is_left_as_it_is(transactional_db):
    with connect(connection_parameters("default"), prepare=False) as link:
        assert shown(link, "enable_seqscan") == "on"
        for _ in range(10):
            run_together(link, [("SELECT %(n)s::int", {"n": 1})] * 2)
        assert link.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_statements_run_again_and_again_are_prepared(links):
    link = links()
    for _ in range(10):
        run_together(link, [("SELECT %(n)s::int", {"n": 1}), ("SELECT 2", {})])

    found = link.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert ("SELECT $1::int",) in found


def test_several_statements_are_one_transaction(links):
    link = links()
    ask: Statement = ("SELECT pg_current_xact_id()", {})

    [[one]], [[other]] = run_together(link, [ask, ask])
    [[[third]]] = run_together(link, [ask])

    assert one == other != third


def test_answers_come_in_order(links):
    statements = [("SELECT %(n)s::int", {"n": number}) for number in range(20)]

    assert run_together(links(), statements) == [[(number,)] for number in range(20)]


def test_the_server_is_at_work_while_something_else_is_done(links):
    link, other = links(), links()
    sleep: Statement = ("SELECT pg_sleep(0.2)", {})
    state = "SELECT state, query FROM pg_stat_activity WHERE pid = %s"
    seen = []

    def look():
        eventually(lambda: "pg_sleep" in other.execute(state, [link.info.backend_pid]).fetchone()[1])
        seen.append(other.execute(state, [link.info.backend_pid]).fetchone()[0])

    run_together(link, [sleep, sleep], meanwhile=look)

    assert seen == ["active"]


def test_after_a_refusal_the_link_goes_on(links):
    link = links()

    with pytest.raises(psycopg.DataError):
        run_together(link, [("SELECT 1", {}), ("SELECT %(text)s::json", {"text": "{"}), ("SELECT 2", {})])

    assert run_together(link, [("SELECT 1", {}), ("SELECT 2", {})]) == [[(1,)], [(2,)]]


@pytest.mark.parametrize("times", range(6))
def test_what_an_aborted_pipeline_was_to_prepare_is_prepared_later(links, times):
    """psycopg takes it for prepared, though the server skipped it."""
    link = links()
    refused = ("SELECT %(text)s::json", {"text": "{"})
    then = ("SELECT %(n)s::int + 1", {"n": 1})
    for _ in range(times):
        run_together(link, [then])

    with pytest.raises(psycopg.DataError):
        run_together(link, [refused, then])

    for _ in range(5):
        assert run_together(link, [then, then]) == [[(2,)], [(2,)]]
