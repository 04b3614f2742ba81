"""Exceptions as text that the tables can hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_jobs.worker.traces import message_of, storable, trace_of
from tests import jobs


class Ending(Exception):
    def __str__(self):
        raise SystemExit


def raised(error):
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001  (that is the point)
        return caught


def test_a_trace_names_the_class_the_message_and_the_way():
    trace = trace_of(raised(jobs.Unwell("bad")), max_chars=8000)

    assert (trace.exception_class, trace.message) == ("tests.jobs.Unwell", "bad")
    assert trace.traceback.startswith("Traceback (most recent call last):\n")
    assert trace.traceback.endswith("tests.jobs.Unwell: bad\n")


def test_causes_and_notes_are_told():
    error = jobs.Unwell("bad")
    error.__cause__ = raised(KeyError("cause"))
    error.add_note("a note")

    trace = trace_of(error, max_chars=8000)

    assert "KeyError: 'cause'" in trace.traceback
    assert "a note" in trace.traceback


@pytest.mark.parametrize("error", [jobs.Mute(), Ending()], ids=["raises", "ends"])
def test_an_exception_that_has_no_words_is_told_of_all_the_same(error):
    trace = trace_of(raised(error), max_chars=8000)

    assert trace.message.startswith("<str() of the exception raised ")
    assert type(error).__qualname__ in trace.traceback


def test_an_exception_that_was_never_raised_has_a_trace():
    assert trace_of(jobs.Unwell("bad"), max_chars=8000).traceback == "tests.jobs.Unwell: bad\n"


def test_endless_recursion_is_told_in_few_words():
    def deeper():
        deeper()

    with pytest.raises(RecursionError) as caught:
        deeper()

    assert len(trace_of(caught.value, max_chars=8000).traceback) <= 8000


def test_a_cycle_of_causes_ends():
    one, other = jobs.Unwell("one"), jobs.Unwell("other")
    one.__cause__, other.__cause__ = other, one

    assert "one" in trace_of(one, max_chars=8000).traceback


def test_the_message_gets_an_eighth():
    trace = trace_of(jobs.Unwell("x" * 10_000), max_chars=8000)

    assert len(trace.message) <= 1000
    assert len(trace.traceback) <= 8000
    assert "characters cut" in trace.message


def test_what_is_short_enough_is_not_touched():
    assert storable("é😀\n", 3) == "é😀\n"
    assert storable("x" * 100, 100) == "x" * 100


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(), max_size=300), st.integers(100, 200))
def test_whatever_the_text_it_can_be_stored(text, most):
    stored = storable(text, most)

    stored.encode()
    assert "\0" not in stored
    if len(text) > most:
        assert " characters cut …" in stored


def test_a_message_is_the_exceptions_own():
    assert message_of(KeyError("k")) == "'k'"


def test_threads_that_format_at_once_do_not_spoil_it(monkeypatch):
    """Python 3.11 answers with a SystemError then; trying again mostly helps, and places can be told."""
    tries = []

    def spoilt(*args, **kwargs):
        tries.append(args)
        raise SystemError("AST constructor recursion depth mismatch")

    error = raised(jobs.Unwell("bad"))
    with monkeypatch.context() as patch:
        patch.setattr("traceback.format_exception", spoilt)
        trace = trace_of(error, max_chars=8000)

    assert len(tries) == 3
    assert "in raised" in trace.traceback
    assert trace.traceback.endswith("Unwell")
    assert trace.message == "bad"
