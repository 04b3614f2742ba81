"""When to claim, from where, and how much; and that nothing is left behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_jobs.core.records import Point, Wake
from django_jobs.core.states import State
from django_jobs.models import Job
from django_jobs.store import claim, scout
from django_jobs.store.claim import Place, Span
from django_jobs.store.cursor import run
from django_jobs.store.scout import Edge, Scouted
from django_jobs.worker import reach as reach_module
from django_jobs.worker import requests as requests_module
from django_jobs.worker.claiming import (
    FRONT_SHARE,
    GLANCE_SECONDS,
    HORIZON_SECONDS,
    SCOUT_SHARE,
    SILENCE_MARGIN,
    Claiming,
)
from django_jobs.worker.reach import FURTHER_PLACES, Unseen
from django_jobs.worker.requests import PORTION, Served
from tests import jobs
from tests.rows import WORKER, claimed_job

NOW = datetime(2026, 11, 29, tzinfo=UTC)
ALL = Served(None, frozenset(), {})
POLL = 5.0
SHARE = 2 * FRONT_SHARE  # plain claims of one kind of slot, and surveys


def claiming(served=ALL, *, queues=("default",), kinds=("sync",)):
    found = Claiming(served, kinds=kinds, queues=queues, poll_seconds=POLL, jitter=lambda: 1.0)
    found.set_clock(NOW, 0.0)
    return found


def requests(of, now, *, free=10, in_flight=None):
    return of.requests(now, dict.fromkeys(of.reaches, free), in_flight or {})


def settled(of, now=0.0):
    """Have the first claim and survey find nothing, so that there is nothing to do but wait."""
    for request in requests(of, now):
        of.took(request, [], now, 0.0)
    of.surveyed([], now, 0.0)
    return of


def scouts(of, now, *, free=10):
    return of.searches(now, dict.fromkeys(of.reaches, free))


def horizon(now):
    return Point(NOW + timedelta(seconds=now - HORIZON_SECONDS), 0)


def seconds_left(of, now, *, free=10, in_flight=None):
    return of.seconds_left(now, dict.fromkeys(of.reaches, free), in_flight or {})


def wake(queue="default", *, priority=0, seconds=0.0):
    return Wake(queue, priority, NOW + timedelta(seconds=seconds))


def job(number, *, queue="default", priority=0):
    return claimed_job(id=number, queue_name=queue, priority=priority, run_after=NOW + timedelta(number))


class TestAnIdleWorker:
    def test_begins_with_a_plain_claim_of_every_queue_it_knows(self):
        [request] = requests(claiming(queues=("a", "b")), 0.0)

        assert request.plain
        assert sorted(room.queue_name for room in request.rooms) == ["a", "b"]

    def test_waits_for_its_poll(self):
        of = settled(claiming())

        assert requests(of, 1.0) == []
        assert seconds_left(of, 1.0) == pytest.approx(POLL - 1)
        assert not of.is_survey_due(POLL - 0.1)

    def test_surveys_when_its_poll_comes(self):
        of = settled(claiming())

        requests(of, POLL)

        assert of.is_survey_due(POLL)

    def test_claims_plainly_what_a_survey_found(self):
        of = settled(claiming())
        of.surveyed([Place("new", 3, -1.0, None, False)], 6.0, 0.0)

        [request] = requests(of, 6.0)

        assert request.plain
        assert "new" in {room.queue_name for room in request.rooms}

    def test_wakes_when_the_next_job_is_due(self):
        of = settled(claiming())
        of.surveyed([Place("default", 0, 2.0, 2.0, False)], 0.0, 0.0)

        assert seconds_left(of, 0.0) == pytest.approx(2.0, abs=0.01)
        assert requests(of, 1.9) == []
        assert requests(of, 2.1) != []

    def test_leaves_paused_queues_alone(self):
        of = settled(claiming())
        of.surveyed([Place("default", 0, -1.0, 1.0, True)], 0.0, 0.0)

        assert requests(of, 0.1) == []
        assert seconds_left(of, 0.1) == pytest.approx(POLL - 0.1)

    def test_without_room_waits_for_it(self):
        of = claiming()

        assert requests(of, 0.0, free=0) == []
        of.surveyed([Place("default", 0, -1.0, None, False)], 0.0, 0.0)
        assert seconds_left(of, 0.1, free=0) > 1


class TestWoken:
    def test_by_a_due_job_claims_behind_the_point_before_it(self):
        of = settled(claiming())
        of.woken([wake()], 1.0, silence=0)

        [request] = requests(of, 1.0)

        assert not request.plain or request.rooms
        assert of.reaches["sync"].points["default"][0] == Point(NOW, 0)

    def test_by_a_late_commit_goes_back_to_it(self):
        of = settled(claiming())
        of.woken([wake(seconds=0.8)], 1.0, silence=0)

        of.woken([wake(seconds=0.5)], 1.0, silence=0)

        assert of.reaches["sync"].points["default"][0] == Point(NOW + timedelta(seconds=0.5), 0)

    def test_by_a_much_older_job_looks_at_once_how_far_a_claim_may_go_back_to_it(self):
        """There may be a million rows between it and the present."""
        of = settled(claiming())
        of.woken([wake()], 1.0, silence=0)
        of.reaches["sync"].scout_not_before = 100.0

        of.woken([wake(seconds=-60)], 1.0, silence=0)

        [search] = scouts(of, 1.0)
        assert search.spans == {"default": [Span(0, Point(NOW - timedelta(seconds=60), 0), Point(NOW, 0))]}

    def test_by_a_later_job_goes_back_no_further_than_it_came(self):
        of = settled(claiming())
        of.reaches["sync"].advance(job(1), horizon(0.0), full=False, plain=False)

        of.woken([wake(seconds=10**6)], 1.0, silence=0)

        assert of.reaches["sync"].points["default"][0] == Point(NOW + timedelta(1), 1)

    def test_by_a_job_of_the_future_waits_for_it(self):
        of = settled(claiming())
        of.woken([wake(seconds=3)], 1.0, silence=0)

        assert requests(of, 1.0) == []
        assert seconds_left(of, 1.0) == pytest.approx(2.0, abs=0.01)

    def test_by_another_queue_does_nothing(self):
        of = settled(claiming(Served(frozenset({"default"}), frozenset(), {})))
        of.woken([wake("other")], 1.0, silence=0)

        assert requests(of, 1.0) == []
        assert of.queues == ["default"]

    def test_by_an_excluded_queue_does_nothing(self):
        of = settled(claiming(Served(None, frozenset({"other"}), {})))
        of.woken([wake("other")], 1.0, silence=0)

        assert requests(of, 1.0) == []

    def test_by_a_new_queue_claims_from_it(self):
        of = settled(claiming())
        of.woken([wake("new")], 1.0, silence=0)

        [request] = requests(of, 1.0)

        assert "new" in {room.queue_name for room in request.rooms}

    def test_while_a_plain_claim_is_due_claims_behind_points_after_it(self):
        """The job may lie behind more rows of others than a plain claim looks at."""
        of = settled(claiming())
        of.woken([wake(seconds=1.0)], 1.0, silence=0)
        of.look_everywhere()
        [request] = requests(of, 1.0)
        assert request.plain
        of.took(request, [], 1.0, 0.0)

        assert seconds_left(of, 1.0) == 0.0
        [request] = requests(of, 1.0)
        assert request.rooms[0].spans == [Span(0, Point(NOW + timedelta(seconds=1), 0))]

    @pytest.mark.parametrize(
        ("is_async", "kinds"), [(False, ["sync"]), (True, ["async"]), (None, ["async", "sync"])]
    )
    def test_claims_for_the_slots_that_the_job_is_for(self, is_async, kinds):
        """A claim that finds nothing would keep the other one waiting."""
        of = settled(claiming(kinds=("sync", "async")))
        of.woken([Wake("default", 0, NOW, is_async)], 1.0, silence=0)

        assert sorted(request.kind for request in requests(of, 1.0)) == kinds

    def test_by_rubbish_looks_everywhere(self):
        of = settled(claiming())
        of.woken([], 1.0, silence=0)

        [request] = requests(of, 1.0)

        assert request.plain
        assert of.is_survey_due(1.0)

    def test_by_one_that_will_keep_silent_looks_again(self):
        of = settled(claiming())
        of.woken([wake()], 1.0, silence=0.5)
        [request] = requests(of, 1.0)
        of.took(request, [], 1.0, 0.0)

        assert seconds_left(of, 1.0, free=0) == pytest.approx(0.5 + SILENCE_MARGIN)
        [request] = requests(of, 1.6)
        assert request.plain
        assert of.is_survey_due(1.6)

    @pytest.mark.parametrize("workers", [1, 3])
    def test_while_one_keeps_silent_all_workers_together_glance_every_few_milliseconds(self, workers):
        of = settled(claiming())
        of.others = workers - 1
        of.woken([wake()], 1.0, silence=0.5)
        now, glances = 1.0, 0
        while now < 1.5:
            for request in requests(of, now):
                of.took(request, [], now, 0.0)
                glances += not request.plain
            now += seconds_left(of, now)

        assert glances == pytest.approx(0.5 / (workers * GLANCE_SECONDS), abs=2)

    def test_a_survey_that_finds_nothing_waiting_does_not_end_the_glances(self):
        of = settled(claiming())
        of.woken([wake()], 1.0, silence=0.5)
        now, glances = 1.0, []
        while now < 1.5:
            for request in requests(of, now):
                of.took(request, [], now, 0.0)
                glances += [now] * (not request.plain)
            of.surveyed([], now, 0.001)
            now += seconds_left(of, now)

        assert max(after - before for before, after in pairwise([*glances, 1.5])) < 3 * GLANCE_SECONDS

    def test_after_a_silence_nothing_is_glanced_at(self):
        of = settled(claiming())
        of.woken([wake()], 1.0, silence=0.5)
        for _ in range(2):  # a plain claim, then one after points
            for request in requests(of, 1.6):
                of.took(request, [], 1.6, 0.0)
        of.surveyed([], 1.6, 0.0)

        assert requests(of, 1.7) == []
        assert seconds_left(of, 1.7) > 1

    def test_by_many_that_keep_silent_looks_again_all_the_while_and_once_after(self):
        of = settled(claiming())
        looks = []
        for step in range(200):
            now = 1.0 + step / 100
            if step <= 100 and not step % 2:
                of.woken([wake()], now, silence=0.02)
            for request in requests(of, now):
                of.took(request, [], now, 0.0)
                if request.plain:
                    looks.append(now)
            of.surveyed([], now, 0.0)

        assert 10 < len(looks) < 60
        assert 2.0 + 0.02 < looks[-1] < 2.0 + 0.1
        assert max(after - before for before, after in pairwise(looks)) < 0.1

    def test_while_one_keeps_silent_each_cycle_claims(self):
        of = settled(claiming())
        of.woken([wake()], 1.0, silence=0.02)
        for step in range(3):
            [request] = requests(of, 1.0 + step / 1000)
            of.took(request, [], 1.0, 0.0)
            assert seconds_left(of, 1.001 + step / 1000) > 0

        [request] = requests(of, 1.5)
        of.took(request, [], 1.5, 0.0)
        assert request.plain
        assert requests(of, 1.5) == []


class TestDueTimes:
    def test_count_from_when_they_were_asked_for_though_the_answer_waited_for_a_commit(self):
        of = settled(claiming())
        of.surveyed([Place("default", 0, 1.0, 1.0, False)], 1.4, 0.4)

        assert seconds_left(of, 1.4) == pytest.approx(0.6, abs=0.002)

    def test_are_looked_for_closely_until_a_survey_tells_the_next(self):
        of = settled(claiming())
        of.surveyed([Place("default", 0, 1.0, 1.0, False)], 1.0, 0.01)
        looks = []
        now = 1.0
        while now < 2.4:
            looks += [now for request in requests(of, now) if not of.took(request, [], now, 0.0)]
            if of.is_survey_due(now):
                of.surveyed([], now, 0.1)  # from now on none is allowed for two seconds
                of.due_in(0.05, now)
            now += max(0.001, min(seconds_left(of, now), 2.4 - now))

        late = [at for at in looks if at > 2.06]
        assert max(after - before for before, after in pairwise(late)) < 0.007
        assert len(late) > 40


class TestQueuesThatComeAndGo:
    def test_are_forgotten_once_nothing_waits_in_them(self):
        of = settled(claiming())
        for number in range(100):
            of.woken([wake(f"customer {number}")], 1.0, silence=0)
        of.surveyed([Place("customer 7", 0, -1.0, None, False)], 2.0, 0.0)

        assert of.queues == ["customer 7", "default"]
        assert set(of.reaches["sync"].points) == {"customer 7"}

    def test_are_known_again_with_their_next_job(self):
        of = settled(claiming())
        of.woken([wake("customer")], 1.0, silence=0)
        of.surveyed([], 2.0, 0.0)
        of.woken([wake("customer", seconds=3.0)], 3.0, silence=0)

        [request] = requests(of, 3.0)

        assert [room.queue_name for room in request.rooms] == ["customer"]

    def test_those_that_the_code_names_stay(self):
        of = settled(claiming(queues=("default", "mail")))
        of.surveyed([], 2.0, 0.0)

        assert of.queues == ["default", "mail"]


class TestLimits:
    def test_no_more_is_asked_for_than_there_is_room(self):
        [request] = requests(claiming(), 0.0, free=3)

        assert (request.limit, [room.room for room in request.rooms]) == (3, [3])

    def test_a_queue_gives_no_more_than_its_limit(self):
        of = claiming(Served(None, frozenset(), {"mail": 4}), queues=("mail", "other"))

        [request] = requests(of, 0.0, in_flight={"mail": 3, "other": 50})

        assert {room.queue_name: room.room for room in request.rooms} == {"mail": 1, "other": 10}

    def test_a_queue_at_its_limit_is_left_out(self):
        of = claiming(Served(None, frozenset(), {"mail": 4}), queues=("mail", "other"))

        [request] = requests(of, 0.0, in_flight={"mail": 4})

        assert [room.queue_name for room in request.rooms] == ["other"]

    def test_when_all_are_at_their_limits_the_worker_waits(self):
        """With nothing to ask for it must not turn its wheel for ever."""
        of = claiming(Served(frozenset({"mail"}), frozenset(), {"mail": 1}), queues=("mail",))
        of.surveyed([Place("mail", 0, -1.0, None, False)], 0.0, 0.0)
        at_limit = {"mail": 1}

        assert requests(of, 1.0, in_flight=at_limit) == []
        assert seconds_left(of, 1.0, in_flight=at_limit) > 1

    def test_a_place_that_becomes_free_is_used(self):
        of = claiming(Served(frozenset({"mail"}), frozenset(), {"mail": 1}), queues=("mail",))
        settled(of)
        of.woken([wake("mail")], 1.0, silence=0)
        assert requests(of, 1.0, in_flight={"mail": 1}) == []

        of.freed(["mail"])

        assert requests(of, 1.1) != []

    def test_queues_take_turns_at_being_first(self):
        of = claiming(queues=("a", "b", "c"))
        first = [requests(of, 0.0)[0].rooms[0].queue_name for _ in range(6)]

        assert sorted(first[:3]) == ["a", "b", "c"]
        assert first[:3] == first[3:]


class TestManyQueues:
    def full(self, of, now=1.0):
        of.surveyed([Place(name, 0, -1.0, None, False) for name in of.queues], now, 0.0)
        return of

    def test_share_a_claim(self):
        of = self.full(settled(claiming(queues=[f"q{number}" for number in range(50)])))

        [request] = requests(of, 1.0, free=100)

        assert {room.room for room in request.rooms} == {4}
        assert request.limit == 100

    def test_one_that_filled_its_share_is_asked_again_at_once_while_slots_are_free(self):
        """The others may have nothing for this kind of slot, and the jobs may be long."""
        of = self.full(settled(claiming(queues="abcd")))
        of.reaches["sync"].plain_not_before = 99.0
        [request] = requests(of, 1.0, free=10)
        given = [job(number, queue="a") for number in range(request.rooms[0].room)]
        of.took(request, given, 1.0, 0.0)

        assert len(given) == 5
        assert seconds_left(of, 1.0, free=5) == 0.0
        assert seconds_left(of, 1.0, free=0) > 1.0

    def test_one_that_is_alone_gets_all_of_it(self):
        of = settled(claiming(queues=("a", "b")))
        of.surveyed([Place("a", 0, -1.0, None, False)], 1.0, 0.0)

        [request] = requests(of, 1.0, free=100)

        assert {room.queue_name: room.room for room in request.rooms}["a"] == 100

    def test_each_is_come_to_soon_however_full_the_others_are(self):
        of = self.full(settled(claiming(queues=[f"q{number}" for number in range(50)])))
        waits = dict.fromkeys(of.queues, 0)
        longest = 0
        for cycle in range(200):
            [request] = requests(of, 1.0 + cycle, free=10)
            given = [
                job(number, queue=room.queue_name) for room in request.rooms for number in range(room.room)
            ][: request.limit]
            of.took(request, given, 1.0 + cycle, 0.0)
            served = {one.queue_name for one in given}
            waits = {name: 0 if name in served else count + 1 for name, count in waits.items()}
            longest = max(longest, *waits.values())

        assert longest <= 5

    def test_the_one_that_was_just_told_of_goes_first(self):
        of = self.full(settled(claiming(queues=[f"q{number}" for number in range(50)])))
        for turn in range(20):
            of.woken([wake("q33")], 1.0, silence=0)
            [request] = requests(of, 1.0, free=10)
            of.took(request, [], 1.0, 0.0)
            assert request.rooms[0].queue_name == "q33", turn


class TestSharedLimits:
    """A queue's limit holds for all kinds of slots together."""

    def both(self):
        return claiming(
            Served(frozenset({"a"}), frozenset(), {"a": 3}), queues=("a",), kinds=("sync", "async")
        )

    def test_claims_of_one_cycle_ask_for_no_more_than_it(self):
        of = self.both()
        for _ in range(5):
            found = requests(of, 0.0, in_flight={"a": 1})
            assert sum(room.room for request in found for room in request.rooms) <= 2
            for request in found:
                of.took(request, [], 0.0, 0.0)

    def test_what_one_kind_left_is_soon_asked_for_by_the_other(self):
        of = self.both()
        asked = []
        for _ in range(2):
            for request in requests(of, 0.0):
                asked.append(request.kind)
                of.took(request, [], 0.0, 0.0)
            of.surveyed([], 0.0, 0.0)
            if len(asked) == 1:
                assert seconds_left(of, 0.0) == 0.0

        assert sorted(asked) == ["async", "sync"]
        assert requests(of, 0.0) == []
        assert seconds_left(of, 0.0) > 1.0


class TestShareOfTheTime:
    def test_plain_claims_wait_for_many_times_their_duration(self):
        of = claiming()
        [request] = requests(of, 0.0, free=1)
        of.took(request, [job(1)], 0.1, 0.1)  # full: there may be more

        [request] = requests(of, 0.2, free=1)
        assert not request.plain
        [request] = requests(of, 0.1 + SHARE * 0.1, free=1)
        assert request.plain

    def test_the_end_of_a_streak_is_followed_by_a_plain_claim(self):
        of = claiming()
        of.surveyed([], 0.0, 0.0)
        [request] = requests(of, 0.0, free=1)
        of.took(request, [job(1)], 0.0, 0.01)
        [request] = requests(of, 0.1, free=1)
        of.took(request, [], 0.1, 0.0)

        assert requests(of, 0.2) == []
        assert seconds_left(of, 0.2) == pytest.approx(SHARE * 0.01 - 0.2)
        [request] = requests(of, SHARE * 0.01 + 0.1)
        assert request.plain

    def test_surveys_do_too(self):
        of = claiming()
        of.surveyed([], 0.0, 1.0)
        of.look_everywhere()

        assert not of.is_survey_due(SHARE - 0.1)
        assert of.is_survey_due(SHARE + 0.1)


def job_due(*, seconds, **given):
    return claimed_job(run_after=NOW + timedelta(seconds=seconds), **given)


def unseen_of(of, kind="sync"):
    return of.reaches[kind].unseen["default"].begins


class TestOlderRows:
    """Of which there may be millions, and none for this kind of slot: they are taken in portions."""

    OLD = NOW - timedelta(1)

    def found(self, *, due_in=-60.0, priorities=(0,)):
        """Have a survey find old rows that a plain claim may not take."""
        of = settled(claiming())
        of.surveyed([Place("default", p, due_in, None, False) for p in priorities], 0.0, 0.0)
        for plain in (True, False):
            [request] = requests(of, 0.0)
            assert request.plain == plain
            of.took(request, [], 0.0, 0.0)
        return of

    def scouted(self, of, edge, *, found, now=0.0, seconds=0.01):
        [search] = scouts(of, now)
        of.scouted(search, [Scouted("default", edge, found)], now, seconds)
        return search

    def test_are_scouted_before_any_claim_goes_over_them(self):
        of = self.found()

        assert requests(of, 0.0) == []
        assert seconds_left(of, 0.0) == 0.0
        [search] = scouts(of, 0.0)
        assert search.spans == {"default": [Span(0, claim.BEGINNING, horizon(0.0))]}
        assert search.walk == PORTION

    def test_are_claimed_up_to_the_edge(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=True)

        assert seconds_left(of, 0.0) == 0.0
        [request] = requests(of, 0.0)

        assert request.rooms[0].spans == [
            Span(0, claim.BEGINNING, Point(self.OLD, 7)),
            Span(0, horizon(0.0)),
        ]

    def test_are_claimed_up_to_the_edge_also_when_a_plain_claim_comes_between(self):
        """Or the worker would turn its wheel for nothing until it ends."""
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=True)
        of.reaches["sync"].wants_plain = True
        [request] = requests(of, 0.0)
        assert request.plain
        of.took(request, [], 0.0, 0.0)

        [request] = requests(of, 0.0)

        assert Span(0, claim.BEGINNING, Point(self.OLD, 7)) in request.rooms[0].spans
        of.took(request, [], 0.0, 0.0)
        self.scouted(of, Edge(0, Point(self.OLD, 9)), found=False)
        assert seconds_left(of, 0.0) > 0

    def test_behind_the_edge_are_scouted_next(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=True)
        [request] = requests(of, 0.0)
        of.took(request, [], 1.0, 0.0)

        [search] = scouts(of, 1.0)

        assert search.spans == {"default": [Span(0, Point(self.OLD, 7), horizon(0.0))]}

    def test_are_passed_without_a_claim_where_nothing_is_found(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=False)

        assert requests(of, 0.0) == []
        assert unseen_of(of) == {0: Point(self.OLD, 7)}

    def test_take_a_small_share_of_the_time_where_nothing_is_found(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=False, now=1.0, seconds=0.02)

        assert scouts(of, 1.0) == []
        assert seconds_left(of, 1.0) == pytest.approx(SCOUT_SHARE * 0.02)
        assert len(scouts(of, 1.0 + SCOUT_SHARE * 0.02)) == 1

    def test_are_all_seen_when_no_edge_is_found(self):
        of = self.found()
        self.scouted(of, None, found=True)
        [request] = requests(of, 0.0)
        assert request.rooms[0].spans == [
            Span(0, claim.BEGINNING, horizon(0.0)),
            Span(0, horizon(0.0)),
        ]
        of.took(request, [], 0.0, 0.0)

        assert of.reaches["sync"].unseen == {}
        assert scouts(of, 0.0) == []

    def test_do_not_delay_what_a_notification_tells_of(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=False)
        of.woken([wake(seconds=1.0)], 1.0, silence=0)

        [request] = requests(of, 1.0)

        assert Span(0, horizon(0.0)) in request.rooms[0].spans

    def test_of_a_lower_priority_wait_for_those_before_the_edge(self):
        of = self.found(priorities=(9, 5, 0))
        search = self.scouted(of, Edge(5, Point(self.OLD, 7)), found=True)
        [request] = requests(of, 0.0)

        assert [span.priority for span in search.spans["default"]] == [9, 5, 0]
        assert [(span.priority, span.until) for span in request.rooms[0].spans] == [
            (9, horizon(0.0)),
            (9, claim.END),
            (5, Point(self.OLD, 7)),
            (5, claim.END),
            (0, claim.END),
        ]
        of.took(request, [], 0.0, 0.0)
        assert unseen_of(of) == {5: Point(self.OLD, 7), 0: claim.BEGINNING}

    def test_are_gone_on_with_behind_what_a_full_claim_took(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=True)
        [request] = requests(of, 0.0, free=2)
        of.took(request, [claimed_job(id=number, run_after=self.OLD) for number in (3, 4)], 0.0, 0.0)
        of.reaches["sync"].plain_not_before = 9.0
        [request] = requests(of, 0.0, free=2)

        assert request.rooms[0].spans[0] == Span(0, Point(self.OLD, 4), Point(self.OLD, 7))
        assert scouts(of, 0.0) == []

    def test_the_next_edge_is_looked_for_before_the_last_one_is_reached(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 10**6)), found=True)
        of.reaches["sync"].plain_not_before = 99.0
        taken = 0
        while not (search := scouts(of, 0.0, free=500)):
            [request] = requests(of, 0.0, free=500)
            given = [claimed_job(id=taken + n + 1, run_after=self.OLD) for n in range(request.limit)]
            taken += len(given)
            of.took(request, given, 0.0, 0.0)

        assert PORTION / 2 < taken < PORTION
        assert search[0].spans["default"][0].after == Point(self.OLD, taken)

    def test_without_a_free_slot_nothing_is_scouted(self):
        assert scouts(self.found(), 0.0, free=0) == []

    def test_of_a_queue_at_its_limit_leave_the_worker_waiting(self):
        of = claiming(Served(frozenset({"default"}), frozenset(), {"default": 1}))
        settled(of)
        of.surveyed([Place("default", 0, -60.0, None, False)], 0.0, 0.0)
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=True)

        assert seconds_left(of, 0.0, in_flight={"default": 1}) > 1

    def test_of_a_paused_queue_are_looked_at_again_after_the_pause(self):
        of = self.found()
        self.scouted(of, None, found=True)
        [request] = requests(of, 0.0)
        of.took(request, [], 0.0, 0.0)  # it gives nothing while it is paused
        of.surveyed([Place("default", 0, -60.0, None, True)], 5.0, 0.0)
        of.surveyed([Place("default", 0, -60.0, None, False)], 10.0, 0.0)

        assert unseen_of(of) == {0: claim.BEGINNING}

    def test_are_what_came_while_all_slots_were_busy_for_long(self):
        of = self.found(due_in=-0.5)
        of.reaches["sync"].hungry = True
        [request] = requests(of, 0.0)
        of.took(request, [], 0.0, 0.0)
        assert scouts(of, 0.0) == []
        of.surveyed([Place("default", 0, -60.0, None, False)], 30.0, 0.0)

        [search] = scouts(of, 30.0)

        assert search.spans == {"default": [Span(0, horizon(0.0), horizon(30.0))]}

    def test_are_none_where_the_first_job_is_a_young_one(self):
        of = self.found()
        of.surveyed([Place("default", 0, -0.5, None, False)], 5.0, 0.0)

        assert scouts(of, 5.0) == []
        assert of.reaches["sync"].unseen == {}

    def test_that_a_claim_left_while_a_scout_found_nothing_are_looked_at_next(self):
        """The scout was sent together with the claim, and didn't come to where that one found jobs."""
        of = self.found(priorities=(0, 5))
        of.reaches["sync"].hungry = True
        [request] = requests(of, 9.0, free=2)
        [search] = scouts(of, 9.0)
        late = [job_due(seconds=2, id=number) for number in (1, 2)]
        of.took(request, late, 9.0, 0.0)
        of.scouted(search, [Scouted("default", None, False)], 9.0, 0.0)

        assert unseen_of(of) == {0: horizon(0.0)}
        [search] = scouts(of, 9.0)
        assert search.spans == {"default": [Span(0, horizon(0.0), horizon(9.0))]}

    def test_that_a_claim_found_in_another_place_are_not_passed_by_the_scout_sent_with_it(self):
        of = self.found()
        of.woken([wake(priority=5)], 1.0, silence=0)
        [request] = requests(of, 9.0, free=2)
        [search] = scouts(of, 9.0)
        late = [job_due(seconds=2, id=number, priority=5) for number in (1, 2)]
        of.took(request, late, 9.0, 0.0)
        of.scouted(search, [Scouted("default", None, False)], 9.0, 0.0)

        [search] = scouts(of, 9.0)
        assert search.spans["default"][0] == Span(5, claim.point_of(late[1]), horizon(9.0))

    def test_do_not_grow_by_what_claims_behind_the_point_have_seen(self):
        of = self.found()
        for now in (3.0, 6.0):
            of.woken([wake(seconds=now)], now, silence=0)
            [request] = requests(of, now)
            of.took(request, [], now, 0.0)

        [search] = scouts(of, 6.0)
        assert search.spans == {"default": [Span(0, claim.BEGINNING, horizon(0.0))]}

    def test_grow_by_an_older_job_that_is_told_of(self):
        of = self.found()
        of.woken([wake(seconds=9.0)], 9.0, silence=0)
        [request] = requests(of, 9.0)
        of.took(request, [], 9.0, 0.0)
        of.woken([wake(seconds=4.0)], 10.0, silence=0)

        [search] = scouts(of, 10.0)
        assert search.spans == {"default": [Span(0, claim.BEGINNING, horizon(9.0))]}

    @pytest.mark.parametrize(("seconds", "expected"), [(0.0, [60, 120, 180]), (0.7, [70, 140])])
    def test_are_looked_at_from_the_first_one_on_once_a_minute_or_less_often_where_it_takes_long(
        self, seconds, expected
    ):
        """Some may have come back without a word, or were paused when they were passed."""
        of = self.found()
        self.scouted(of, None, found=False, seconds=seconds)
        place = Place("default", 0, -60.0, None, False)
        looks = []
        for now in range(1, 200):
            of.woken([wake(seconds=now)], now, silence=0)
            for _ in range(2):  # a plain claim, then one after points
                for request in requests(of, now):
                    of.took(request, [], now, 0.0)
            of.surveyed([place], now, 0.0)
            for search in scouts(of, now):
                assert search.spans["default"][0].after == claim.BEGINNING
                looks.append(now)
                of.scouted(search, [Scouted("default", None, False)], now, seconds)

        assert looks == expected

    def test_of_a_queue_that_was_paused_are_looked_at_though_new_jobs_were_told_of(self):
        of = self.found()
        of.surveyed([Place("default", 0, -60.0, None, True)], 1.0, 0.0)
        of.woken([wake(seconds=2.0)], 2.0, silence=0)
        of.surveyed([Place("default", 0, -60.0, None, False)], 3.0, 0.0)

        [search] = scouts(of, 3.0)
        assert search.spans == {"default": [Span(0, claim.BEGINNING, horizon(3.0))]}

    def test_are_taken_in_portions_when_a_claim_takes_too_long(self):
        """Also those that it was on its way over: left to plain claims, they would wait behind others."""
        of = self.found()
        of.give_up_the_walk(60.0)

        [search] = scouts(of, 60.0)
        assert search.spans == {"default": [Span(0, claim.BEGINNING, horizon(60.0))]}
        [request] = requests(of, 60.0)
        assert request.plain

    def test_behind_points_too_when_a_claim_takes_too_long(self):
        of = settled(claiming())
        of.woken([wake(seconds=1.0)], 1.0, silence=0)
        of.give_up_the_walk(60.0)

        [search] = scouts(of, 60.0)
        after = Point(NOW + timedelta(seconds=1), 0)
        assert search.spans == {"default": [Span(0, after, horizon(60.0))]}

    def test_passed_during_a_short_pause_are_looked_at_from_the_first_one_on(self):
        of = self.found()
        self.scouted(of, Edge(0, Point(self.OLD, 7)), found=True)
        [request] = requests(of, 0.0)
        of.took(request, [], 0.0, 0.0)  # paused
        of.woken([], 1.0, silence=0)
        of.surveyed([Place("default", 0, -60.0, None, False)], 1.0, 0.0)

        assert unseen_of(of) == {0: claim.BEGINNING}

    def test_are_come_to_however_often_workers_are_asked_to_look_everywhere(self):
        of = self.found()
        deepest = claim.BEGINNING
        for step in range(1, 40):
            now = step / 4
            of.woken([], now, silence=0)
            of.surveyed([Place("default", 0, -60.0, None, False)], now, 0.0)
            assert of.due_at is None or of.due_at > now
            for search in scouts(of, now):
                at = search.spans["default"][0].after
                deepest = max(deepest, at)
                edge = Edge(0, Point(self.OLD, at.id + 1))
                of.scouted(search, [Scouted("default", edge, False)], now, 0.0)

        assert deepest.id >= 4

    def test_have_no_edge_once_some_before_it_came_back(self):
        unseen = Unseen()
        unseen.begin(0, Point(self.OLD, 5), horizon(0.0))
        assert unseen.take_edge(Edge(0, Point(self.OLD, 9)), unseen.spans())

        unseen.begin(0, Point(self.OLD, 6), horizon(0.0))
        assert unseen.edges is not None
        unseen.begin(0, Point(self.OLD, 4), horizon(0.0))
        assert unseen.edges is None

    def test_have_no_edge_once_a_claim_came_behind_it(self):
        unseen = Unseen()
        unseen.begin(0, Point(self.OLD, 5), horizon(0.0))
        unseen.take_edge(Edge(0, Point(self.OLD, 9)), unseen.spans())

        unseen.begin(0, Point(self.OLD, 10), horizon(0.0))
        assert unseen.edges is None

    @pytest.mark.parametrize("priority", [0, 5])
    def test_take_no_edge_from_a_scout_that_began_behind_some_of_them(self, priority):
        unseen = Unseen()
        unseen.begin(0, Point(self.OLD, 5), horizon(0.0))
        searched = unseen.spans()
        unseen.begin(priority, Point(self.OLD, 4), horizon(0.0))

        assert not unseen.take_edge(Edge(0, Point(self.OLD, 9)), searched)
        assert unseen.edges is None

    def test_begin_no_later_for_a_job_that_is_told_of(self):
        of = self.found()
        of.woken([wake(seconds=-60)], 1.0, silence=0)

        assert unseen_of(of) == {0: claim.BEGINNING}

    def test_begin_earlier_for_an_older_job_that_is_told_of(self):
        of = self.found()
        of.reaches["sync"].unseen["default"].begins[0] = Point(NOW - timedelta(seconds=30), 7)
        of.woken([wake(seconds=-60)], 1.0, silence=0)

        assert unseen_of(of) == {0: Point(NOW - timedelta(seconds=60), 0)}

    def test_that_new_jobs_queue_up_behind_are_seen_in_full(self):
        """A claim filled by what is newer than its point leaves the older rows where they were."""
        reach = self.found().reaches["sync"]
        reach.advance(
            claimed_job(id=1, run_after=NOW + timedelta(seconds=5)), horizon(9.0), full=True, plain=False
        )

        assert reach.unseen["default"].begins == {0: claim.BEGINNING}
        assert reach.points["default"] == {0: horizon(9.0)}


class TestManyPriorities:
    """Each one that a claim names costs time, whether the claim comes to it or not."""

    EVERY = list(range(100, -101, -1))

    def with_jobs_at(self, priorities):
        """Return what knows that young jobs wait at these priorities, its plain claims made."""
        of = settled(claiming())
        of.surveyed([Place("default", priority, -0.5, None, False) for priority in priorities], 0.0, 0.0)
        [request] = requests(of, 0.0)
        of.took(request, [], 0.0, 60.0)
        return of

    def claim(self, of, given=()):
        """Have the next claim of two find jobs at the `given` priorities; return those that it names."""
        [request] = requests(of, 1.0, free=2)
        assert not request.plain
        of.took(request, [job(1, priority=priority) for priority in given], 1.0, 0.0)
        return [span.priority for span in request.rooms[0].spans]

    def test_are_all_named_first(self):
        assert self.claim(self.with_jobs_at(self.EVERY)) == self.EVERY

    def test_are_named_to_a_little_behind_the_one_that_filled_the_last_claim(self):
        of = self.with_jobs_at(self.EVERY)
        self.claim(of, given=(100, 98))

        assert self.claim(of, given=(98, 97)) == self.EVERY[: 3 + FURTHER_PLACES]
        assert self.claim(of) == self.EVERY[: 4 + FURTHER_PLACES]

    @pytest.mark.parametrize("given", [(), (98,)])
    def test_are_all_named_again_at_once_after_a_claim_that_the_first_did_not_fill(self, given):
        of = self.with_jobs_at(self.EVERY)
        self.claim(of, given=(100, 98))
        self.claim(of, given)

        assert seconds_left(of, 1.0) == 0
        assert self.claim(of) == self.EVERY
        assert seconds_left(of, 1.0) > 0

    def test_are_not_passed_over_by_a_claim_that_did_not_name_them(self):
        of = self.with_jobs_at(self.EVERY)
        before = dict(of.reaches["sync"].points["default"])
        self.claim(of, given=(100, 98))
        self.claim(of)

        points = of.reaches["sync"].points["default"]
        named = set(self.EVERY[: 3 + FURTHER_PLACES])
        assert {p for p in self.EVERY if points[p] != before[p]} == named

    @pytest.mark.parametrize("count", [20, 50])
    def test_are_named_as_far_as_a_claim_of_one_job_each_comes(self, count):
        of = self.with_jobs_at(self.EVERY)
        for first in (0, count):
            [request] = requests(of, 1.0, free=count)
            given = [job(1, priority=priority) for priority in self.EVERY[first : first + count]]
            of.took(request, given, 1.0, 0.0)

        [request] = requests(of, 1.0, free=count)

        assert len(request.rooms[0].spans) == 3 * count

    def test_of_which_a_claim_named_some_are_seen_to_their_end(self):
        """What a claim left there is not for it, so no scout goes over it once more."""
        of = self.with_jobs_at(self.EVERY)
        self.claim(of, given=(100, 98))
        [request] = requests(of, 5.0, free=2)
        of.took(request, [claimed_job(id=1, priority=98, run_after=NOW + timedelta(seconds=2))], 5.0, 0.0)

        assert not request.rooms[0].whole
        assert of.reaches["sync"].unseen == {}

    def test_of_one_queue_are_named_whatever_filled_another(self):
        of = self.with_jobs_at(self.EVERY)
        self.claim(of, given=(100, 98))
        of.woken([wake("other", priority=priority) for priority in self.EVERY], 1.0, silence=0)

        [request] = requests(of, 1.0)

        named = {room.queue_name: len(room.spans) for room in request.rooms}
        assert named == {"other": len(self.EVERY), "default": 3 + FURTHER_PLACES}

    def test_are_forgotten_with_their_queue(self):
        of = self.with_jobs_at(self.EVERY)
        self.claim(of, given=(100, 98))
        of.surveyed([], 60.0, 0.0)

        assert of.reaches["sync"].filled == {}


class TestPoints:
    def test_only_move_forward(self):
        reach = claiming().reaches["sync"]
        for number in (3, 1, 2):
            reach.advance(job(number), horizon(0.0), full=False, plain=False)

        assert reach.points == {"default": {0: Point(NOW + timedelta(3), 3)}}

    def claims(self, of, found, *, plain, now=5.0, free=2):
        """Have the next claim, of the given kind, find these jobs, and return it."""
        if plain:
            of.look_everywhere()
        of.reaches["sync"].hungry = True
        [request] = requests(of, now, free=free)
        assert request.plain == plain
        spans = list(request.rooms[0].spans)
        of.took(request, found, now, 0.0)
        return spans

    def test_pass_over_what_a_claim_saw_and_left(self):
        """Such as a million jobs of the event loop, which no claim for threads may take."""
        of = settled(claiming())
        of.surveyed([Place("default", 0, -0.5, None, False)], 0.0, 0.0)
        self.claims(of, [], plain=True, now=0.0)
        first = self.claims(of, [], plain=False)
        second = self.claims(of, [], plain=False)

        assert first == [Span(0, claim.BEGINNING)]
        assert second == [Span(0, horizon(5.0))]

    def test_pass_over_nothing_when_a_claim_came_back_full(self):
        of = settled(claiming())
        of.surveyed([Place("default", 0, -60.0, None, False)], 0.0, 0.0)
        old = [claimed_job(id=number, run_after=NOW - timedelta(1)) for number in (1, 2)]
        self.claims(of, [], plain=True, now=0.0)
        self.claims(of, old, plain=False)

        assert unseen_of(of) == {0: Point(NOW - timedelta(1), 2)}

    def test_go_back_to_what_a_plain_claim_found_when_there_may_be_more(self):
        """Such as after a pause, during which claims found nothing."""
        of = settled(claiming())
        of.surveyed([Place("default", 0, -60.0, None, False)], 0.0, 0.0)
        old = [claimed_job(id=number, run_after=NOW - timedelta(1)) for number in (1, 2)]
        self.claims(of, [], plain=True, now=0.0)
        self.claims(of, [], plain=False)
        self.claims(of, old, plain=True)

        assert unseen_of(of) == {0: Point(NOW - timedelta(1), 2)}

    def test_are_kept_for_what_is_due_soon(self):
        of = settled(claiming())
        places = [Place("default", 0, 2.0, 2.0, False), Place("default", 9, 3600.0, 3600.0, False)]
        of.surveyed(places, 0.0, 0.0)

        assert of.reaches["sync"].points == {"default": {0: claim.BEGINNING}}

    def test_are_kept_by_queue_and_priority(self):
        reach = claiming().reaches["sync"]
        for queue, priority in [("a", 0), ("a", 1), ("b", 0)]:
            reach.advance(job(1, queue=queue, priority=priority), horizon(0.0), full=False, plain=False)

        assert {queue: set(points) for queue, points in reach.points.items()} == {"a": {0, 1}, "b": {0}}


@given(
    st.lists(st.tuples(st.floats(0.05, 2.0), st.booleans()), min_size=1, max_size=8),
    st.sampled_from([0.0005, 0.02, 0.1]),
)
def test_what_is_due_is_claimed_within_milliseconds_whether_it_was_told_of_or_not(scheduled, took):
    """Also while a survey isn't allowed, since the last one took long."""
    of = settled(claiming())
    for seconds, told in scheduled:
        if told:
            of.woken([wake(seconds=1.0 + seconds)], 1.0, silence=0)
    of.look_everywhere()  # as after a silence, in which the others came
    waiting = sorted(1.0 + seconds for seconds, _ in scheduled)
    now, late = 1.0, []
    while waiting and now < 10.0:
        for request in requests(of, now):
            after = NOW if request.plain else request.rooms[0].spans[-1].after.run_after
            found = [at for at in waiting if at <= now and NOW + timedelta(seconds=at) > after]
            late += [now - at for at in found]
            waiting = [at for at in waiting if at not in found]
            given = [claimed_job(id=1, run_after=NOW + timedelta(seconds=at)) for at in found]
            of.took(request, given, now, 0.0005)
        if of.is_survey_due(now):
            left = [at - now for at in waiting]
            following = min((seconds for seconds in left if seconds > 0), default=None)
            of.surveyed([Place("default", 0, min(left), following, False)] if left else [], now, took)
        now += max(0.0005, seconds_left(of, now))

    assert not waiting
    assert max(late) < 0.01


KNOWN = [jobs.ok.module_path]

queue_names = st.sampled_from(["a", "b"])
priorities = st.sampled_from([0, 0, 5, 7])
minutes = st.integers(1, 9)
STEPS = st.one_of(
    st.tuples(st.just("insert others"), queue_names, priorities, minutes, st.integers(1, 5)),
    st.tuples(st.just("insert"), queue_names, priorities, minutes, st.booleans()),
    st.tuples(st.just("commit late"), queue_names, priorities, minutes, st.booleans()),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("hand back"), st.integers(0, 3)),
    st.tuples(st.just("rescue"), st.integers(0, 3)),
    st.tuples(st.just("let pass"), st.sampled_from([0.001, 0.1, 1.0, 6.0])),
)


class Simulation:
    """One worker's claims on the real table, by a clock of its own, with others' inserts in between."""

    def __init__(self, cursor):
        self.cursor = cursor
        self.now = 0.0
        self.claiming = claiming(queues=("a",))
        self.claimed = []
        self.late = []

    def insert_others(self, queue, priority, age, count):
        """Insert jobs of a task that this worker doesn't know, one microsecond after the other."""
        self.cursor.execute(
            "INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt,"
            " uncounted, meta, enqueued_at, run_after)"
            " SELECT %s, 'others.task', '[]', '{}', %s, 'READY', 0, 0, '{}', now(),"
            " now() - %s * interval '1 minute' + n * interval '1 us' FROM generate_series(1, %s) AS n",
            [queue, priority, age, count],
        )

    def insert(self, queue, priority, age, notified):
        self.cursor.execute(
            "INSERT INTO django_jobs_job (queue_name, task_path, args, kwargs, priority, state, attempt,"
            " uncounted, meta, enqueued_at, run_after)"
            " VALUES (%s, %s, '[]', '{}', %s, 'READY', 0, 0, '{}', now(), now() - %s * interval '1 minute')"
            " RETURNING run_after",
            [queue, KNOWN[0], priority, age],
        )
        if notified:
            due = self.cursor.fetchone()[0]
            self.claiming.woken([Wake(queue, priority, due)], self.now, silence=0)

    def commit_late(self, queue, priority, age, notified):
        """Insert what has an older due time than what was claimed meanwhile."""
        self.insert(queue, priority, age * 100, notified)

    def claim(self, free):
        for request in requests(self.claiming, self.now, free=free):
            make = claim.claim if request.plain else claim.claim_after
            found = claim.claimed(run(self.cursor, make(WORKER, request.rooms, KNOWN, request.limit)))
            assert len(found) <= free
            self.claimed += found
            self.claiming.took(request, found, self.now, 0.002)
        for search in scouts(self.claiming, self.now, free=free):
            rows = run(self.cursor, scout.scout(search.spans, KNOWN, search.walk))
            self.claiming.scouted(search, scout.scouted(rows), self.now, 0.001)
        if self.claiming.is_survey_due(self.now):
            places = claim.surveyed(run(self.cursor, claim.survey()))
            self.claiming.surveyed(places, self.now, 0.001)

    def hand_back(self, number):
        """Have a job that was claimed become READY where it was before: all that was claimed is behind it."""
        if number < len(self.claimed):
            back = self.claimed.pop(number)
            Job.objects.filter(pk=back.id).update(state=State.READY, worker=None)

    def rescue(self, number):
        """Have a job of another worker, claimed by nobody here, become READY long after it was due."""
        self.insert("b", 0, 50 + number, False)

    def let_pass(self, seconds):
        self.now += seconds

    def come_to_rest(self):
        """Go on for three polls without news, as a worker would that has enough room."""
        end = self.now + 3 * POLL
        while self.now < end:
            self.claim(100)
            self.now += max(0.0005, seconds_left(self.claiming, self.now, free=100))


@pytest.fixture
def small_portions(monkeypatch):
    """So that a few rows are many, and few priorities too."""
    monkeypatch.setattr(reach_module, "FURTHER_PLACES", 0)
    monkeypatch.setattr(requests_module, "PORTION", 2)
    monkeypatch.setattr(requests_module, "SMALLEST_PORTION", 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=25))
def test_whatever_happens_every_job_is_claimed(db, small_portions, steps):
    with transaction.atomic(), connection.cursor() as cursor:
        simulation = Simulation(cursor)
        for name, *arguments in steps:
            getattr(simulation, name.replace(" ", "_"))(*arguments)
        simulation.come_to_rest()

        assert not Job.objects.filter(state=State.READY, task_path=KNOWN[0]).exists()
        assert len({(job.id, job.attempt) for job in simulation.claimed}) == len(simulation.claimed)
        transaction.set_rollback(True)
