"""Notifications: what is said, cut to fit, and what is made of whatever arrives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_jobs.core.records import Wake
from django_jobs.store.notify import LARGEST_PAYLOAD, asked, asking, greeted, hello, notify, parse, payload

NOW = datetime(2026, 11, 29, 12, 30, 15, 123457, tzinfo=UTC)

wakes = st.builds(
    Wake,
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=128),
    st.integers(-100, 100),
    st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from([None, True, False]),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(wakes, max_size=5), st.sampled_from([0, 0.02, 1.5]))
def test_what_is_sent_arrives(sent, silence):
    assert parse(payload(sent, silence=silence)) == (sent, silence)


def test_times_arrive_to_the_microsecond():
    """A point set back to a time that was rounded up would leave its own job behind."""
    for step in range(2000):
        due = NOW + timedelta(microseconds=step)

        [[wake], _] = parse(payload([Wake("q", 0, due)], silence=0))

        assert wake.run_after == due


@pytest.mark.parametrize("name", ["queue-{}", "😀-{}", '"\\{}'])
def test_too_many_queues_become_a_look_everywhere(name):
    many = [Wake(name.format(number).ljust(100, "x"), 0, NOW) for number in range(200)]

    for count in range(0, 200, 10):
        text = payload(many[:count], silence=0.5)

        assert len(text.encode()) <= LARGEST_PAYLOAD
        assert parse(text) in (([], 0.5), (many[:count], 0.5))
    assert parse(payload(many, silence=0.5)) == ([], 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rubbish",
        "[]",
        "null",
        "{}",
        '{"wake": 7, "silence": 0}',
        '{"wake": [7], "silence": 0}',
        '{"wake": [["q", 0]], "silence": 0}',
        '{"wake": [["q", 0, 1]]}',
        '{"wake": [["q", 0, "soon"]], "silence": 0}',
        '{"wake": [["q", 0, 1, 2]], "silence": 0}',
        '{"wake": [["q", 0, 1, "async"]], "silence": 0}',
        '{"wake": [["q", 0, 1, 1, 1]], "silence": 0}',
        '{"wake": [["q", 0, NaN]], "silence": 0}',
        '{"wake": [["q", 0, 1e300]], "silence": 0}',
        '{"wake": [["q", 1e300, 1]], "silence": 0}',
        '{"wake": [["q", 99999999999, 1]], "silence": 0}',
        '{"wake": [["q", 40000, 1]], "silence": 0}',
        '{"wake": [["q", "0", 1]], "silence": 0}',
        '{"wake": [["a\\u0000b", 0, 1]], "silence": 0}',
        '{"wake": [["\\ud800", 0, 1]], "silence": 0}',
        '{"wake": [["", 0, 1]], "silence": 0}',
        '{"wake": [[null, 0, 1]], "silence": 0}',
        '{"wake": [[["q"], 0, 1]], "silence": 0}',
        "[" * 100_000,
        "9" * 5000,
    ],
    ids=lambda text: text[:60] or "nothing",
)
def test_what_is_not_ours_means_look_everywhere(text):
    assert parse(text) == ([], 0)


@settings(max_examples=50, deadline=None)
@given(
    st.text(max_size=40) | st.text('["q0,]-e.nulNaN', max_size=20).map('{{"wake":[{}],"silence":1}}'.format)
)
def test_no_text_does_more_harm_than_that(text):
    found, _ = parse(text)

    for wake in found:
        wake.queue_name.encode()
        assert -(2**15) <= wake.priority < 2**15


def test_it_is_sent_without_waiting_for_the_disk(links):
    sender, receiver = links(), links()
    sender.execute("SET synchronous_commit = on")
    receiver.execute("LISTEN somewhere")

    notify(sender.cursor(), "somewhere", [Wake("q", 3, NOW)], silence=0)

    [heard] = receiver.notifies(timeout=10, stop_after=1)
    assert parse(heard.payload) == ([Wake("q", 3, NOW)], False)
    assert sender.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_payload_of_the_largest_size_can_be_sent(links):
    text = "x" * LARGEST_PAYLOAD

    links().execute("SELECT pg_notify('somewhere', %s)", [text])


class TestAsking:
    def test_the_workers_that_are_meant_arrive(self):
        _, params = asking("channel", [7, 2**62])

        assert asked(params["payload"]) == [7, 2**62]
        assert greeted(params["payload"]) is None

    def test_too_many_are_left_to_their_heartbeats(self):
        _, params = asking("channel", range(10**6, 10**6 + 5000))

        assert len(params["payload"]) <= LARGEST_PAYLOAD
        assert asked(params["payload"]) == []

    @pytest.mark.parametrize(
        "text", ['{"ask": 7}', '{"ask": ["7", true, null]}', '{"ask": {}', '{"ask": ' * 9]
    )
    def test_a_strangers_names_nobody(self, text):
        assert asked(text) == []

    def test_what_else_is_said_is_no_request(self):
        assert asked(hello("channel", 7)[1]["payload"]) is None
        assert asked(payload([Wake("q", 0, NOW)], silence=0)) is None

    def test_the_previous_release_takes_it_for_a_look_everywhere(self):
        assert parse(asking("channel", [7])[1]["payload"]) == ([], 0)
