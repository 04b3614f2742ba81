"""How many statements, round trips and commits a worker's jobs cost, counted on its connection."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from time import monotonic

import pytest
from django.db import connection
from django.utils import timezone

from django_jobs.core.records import Captured, ClaimedJob, Completed, Ended, Wake
from django_jobs.core.states import State
from django_jobs.models import Job
from django_jobs.store.claim import FLUSH
from django_jobs.worker.asking import FLUSH_SECONDS
from django_jobs.worker.dispatcher import FEW
from django_jobs.worker.duties import Duties
from django_jobs.worker.options import WorkerOptions
from django_jobs.worker.process import Worker
from tests import jobs

SLOTS = 100
SOME = 2 * FEW


class Wheel:
    """A dispatcher whose wheel is turned by hand; jobs that it hands to its slots end when the test says."""

    def __init__(self, **options):
        self.worker = Worker(WorkerOptions(threads=SLOTS, **options))
        self.dispatcher = self.worker.dispatcher
        self.started: list[ClaimedJob] = []
        self.worker.threads.submit = self.started.extend  # type: ignore[method-assign, assignment]
        self.dispatcher.announce = lambda end: None  # it would start a thread
        self.dispatcher.open()
        self.counts: Counter[str] = Counter()
        self.sent: list[str] = []
        link = self.dispatcher.connection
        self.counted(link, "execute", "statements")
        self.counted(link, "pipeline", "round trips")

    def counted(self, link, name, what):
        plain = getattr(link, name)

        def counting(*arguments, **options):
            self.counts[what] += 1
            self.sent += [str(text) for text in arguments[:1]]
            return plain(*arguments, **options)

        setattr(link, name, counting)

    def turn(self):
        """Turn it once, and return what that cost."""
        self.counts.clear()
        self.sent.clear()
        self.dispatcher.cycle()
        return dict(self.counts)

    def end_all(self, captured=None, *, stored=False):
        """Have all jobs that were started complete."""
        done, self.started[:] = list(self.started), []
        outcome = Completed(return_value=None, keep=None)
        for job in done:
            ended = Ended(job, outcome, seconds=1.0, captured=captured, stored=stored)
            self.dispatcher.events.put(ended)
        self.dispatcher.wait(0)
        return done


@pytest.fixture
def wheel(transactional_db):
    found = Wheel()
    yield found
    found.dispatcher.reset()


def test_a_hundred_jobs_are_two_statements_in_one_round_trip_and_one_commit(wheel):
    jobs.ok.enqueue_many(() for _ in range(4 * SLOTS))
    for _ in range(2):  # the first survey has the event loop look once for jobs of its own
        wheel.turn()
        done = wheel.end_all()
        assert len(done) == SLOTS

    cost = wheel.turn()

    assert cost == {"statements": 2, "round trips": 1}
    assert len(wheel.started) == SLOTS
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT xmin::text) FROM django_jobs_job WHERE state = 'RUNNING' OR id = ANY(%s)",
            [[job.id for job in done]],
        )
        assert cursor.fetchone() == (1,)
    assert Job.objects.filter(state=State.SUCCESSFUL).count() == 2 * SLOTS


class TestWhileTheServerIsAtTheNextBatch:
    """The last one's answer is dealt with then, and not while the server has nothing to do."""

    @pytest.fixture
    def busy(self, wheel, monkeypatch):
        """A wheel with jobs in all slots; `did` counts what it does by how many statements it had sent."""
        wheel.did = Counter()

        def begin(given):
            wheel.did["begun", wheel.counts["statements"]] += len(given)

        def tell(end):
            wheel.did["told", wheel.counts["statements"]] += 1

        monkeypatch.setattr(wheel.worker.threads, "submit", begin)
        monkeypatch.setattr(wheel.dispatcher, "announce", tell)
        jobs.ok.enqueue_many(() for _ in range(3 * SLOTS))
        while wheel.turn():
            pass
        wheel.did.clear()
        return wheel

    def end_some(self, wheel, count=SOME, *, more):
        """Turn the wheel when some jobs have ended and, or not, something `more` is at hand."""
        for job in list(wheel.dispatcher.ledger.in_flight.values())[:count]:
            wheel.dispatcher.events.put(Ended(job, Completed(return_value=None, keep=None), seconds=1.0))
        wheel.dispatcher.wait(0)
        if more:
            wheel.dispatcher.nudge()
        wheel.turn()

    def test_what_was_claimed_begins_and_what_was_stored_is_told(self, busy):
        self.end_some(busy, more=True)
        assert not busy.did

        self.end_some(busy, more=True)

        assert busy.did == {("begun", 2): SOME, ("told", 2): SOME}

    def test_but_at_once_where_no_batch_is_at_hand(self, busy):
        self.end_some(busy, more=False)

        assert busy.did == {("begun", 2): SOME, ("told", 2): SOME}

    def test_nor_do_few_jobs_wait_for_it(self, busy):
        self.end_some(busy, FEW, more=True)

        assert busy.did == {("begun", 2): FEW}

    def test_and_also_when_it_gets_none_after_all(self, busy):
        self.end_some(busy, more=True)
        busy.dispatcher.claiming.wants_survey = False
        for reach in busy.dispatcher.claiming.reaches.values():
            reach.hungry = reach.wants_plain = reach.streak = False

        assert busy.turn() == {}
        assert busy.did == {("begun", 0): SOME, ("told", 0): SOME}

    def test_what_was_claimed_goes_back_when_the_worker_is_to_stop(self, busy):
        self.end_some(busy, more=True)
        busy.dispatcher.stop()
        busy.dispatcher.wait(0)
        busy.turn()
        busy.dispatcher.wait(0)
        busy.turn()

        assert ("begun", 0) not in busy.did
        assert Job.objects.filter(state=State.RUNNING).count() == SLOTS - SOME

    def test_what_was_stored_last_is_told_before_the_worker_ends(self, busy):
        """Later would be after the announcer has ended."""
        busy.dispatcher.stopping = True
        for job in list(busy.dispatcher.ledger.in_flight.values()):
            busy.dispatcher.events.put(Ended(job, Completed(return_value=None, keep=None), seconds=1.0))
        busy.dispatcher.wait(0)
        busy.dispatcher.nudge()

        assert busy.dispatcher.tick() is None
        assert sum(busy.did.values()) == SLOTS

    def test_what_was_claimed_begins_when_the_connection_is_lost(self, busy):
        self.end_some(busy, more=True)
        busy.counts.clear()

        busy.dispatcher.reset()

        assert busy.did == {("begun", 0): SOME, ("told", 0): SOME}


@pytest.fixture
def limited(transactional_db):
    """A wheel that runs two jobs of the queue at once."""
    found = Wheel(limits={"default": 2})
    yield found
    found.dispatcher.reset()


def test_a_queue_at_its_limit_gives_the_next_job_as_soon_as_one_ends(limited):
    """Also when nothing else was found in that turn, or it would wait for the poll."""
    jobs.ok.enqueue_many(() for _ in range(20))
    while limited.turn():
        pass
    for _ in range(9):
        assert len(limited.end_all()) == 2
        limited.turn()
        if not limited.started:  # the event loop's claim had the room
            assert limited.dispatcher.seconds_left() == 0
            limited.turn()

    assert Job.objects.filter(state=State.SUCCESSFUL).count() == 18


def test_what_was_captured_of_a_hundred_jobs_is_one_more_in_the_same_round_trip_and_commit(wheel):
    jobs.ok.enqueue_many(() for _ in range(4 * SLOTS))
    captured = Captured(lines="[]", cut=0, cut_at=0, queries=1, query_seconds=0.1)
    for _ in range(2):
        wheel.turn()
        wheel.end_all(captured)

    assert wheel.turn() == {"statements": 3, "round trips": 1}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(DISTINCT log.xmin::text) FROM django_jobs_capture AS log"
            "  JOIN django_jobs_job AS job ON job.id = log.job_id AND job.xmin::text = log.xmin::text"
        )
        assert cursor.fetchone() == (2 * SLOTS, 2)


def test_the_last_jobs_cost_one_statement_and_what_is_left_to_look_for(wheel):
    jobs.ok.enqueue_many(() for _ in range(SLOTS))
    wheel.turn()
    wheel.end_all()
    wheel.turn()

    assert not wheel.dispatcher.ledger.in_flight
    assert Job.objects.filter(state=State.SUCCESSFUL).count() == SLOTS
    assert wheel.turn().get("statements", 0) <= 2  # a plain claim ends the streak; a survey may come with it


class TestWhenTheDiskMustHaveIt:
    """A body begins before the disk has its claim, if nothing else is stored then; the disk gets it soon."""

    @pytest.fixture
    def idle(self, wheel, monkeypatch):
        """A wheel that has looked everywhere and waits."""
        monkeypatch.setattr(Duties, "seconds_left", lambda duties: 60.0)
        while wheel.turn():
            pass
        return wheel

    def turn(self, wheel):
        """Turn it once, and return whether it claimed early, in the usual way, and flushed."""
        wheel.turn()
        early = [text for text in wheel.sent if "synchronous_commit" in text]
        usual = [text for text in wheel.sent if "SET state = 'RUNNING'" in text and text not in early]
        return bool(early), bool(usual), FLUSH in wheel.sent

    def claim(self, wheel):
        jobs.ok.enqueue()
        wake = Wake("default", 0, timezone.now() - timedelta(minutes=1), False)
        wheel.dispatcher.claiming.woken([wake], monotonic(), silence=0)
        return self.turn(wheel)

    def test_a_claim_by_itself_is_early_and_flushed_within_milliseconds(self, idle):
        assert self.claim(idle) == (True, False, False)
        assert idle.dispatcher.seconds_left() <= FLUSH_SECONDS
        assert self.turn(idle) == (False, False, False)

        idle.dispatcher.flush_at = monotonic()

        assert idle.dispatcher.seconds_left() == 0
        assert self.turn(idle) == (False, False, True)
        assert idle.dispatcher.seconds_left() > FLUSH_SECONDS
        assert self.turn(idle) == (False, False, False)

    def test_further_claims_do_not_put_that_off(self, idle):
        self.claim(idle)
        first = idle.dispatcher.flush_at

        assert self.claim(idle) == (True, False, False)

        assert idle.dispatcher.flush_at == first

    def test_a_claim_beside_the_flush_waits_for_it(self, idle):
        self.claim(idle)
        idle.dispatcher.flush_at = monotonic()

        assert self.claim(idle) == (False, True, True)
        assert idle.dispatcher.flush_at is None

    def test_so_does_one_beside_an_outcome_which_needs_no_flush(self, idle):
        self.claim(idle)
        idle.end_all()

        assert self.claim(idle) == (False, True, False)
        assert idle.dispatcher.flush_at is None

    def test_an_outcome_that_a_transactional_body_stored_flushes_no_later_claim(self, idle):
        """The body committed, then a job was claimed early, and only then the end of the first arrived."""
        self.claim(idle)
        first = idle.dispatcher.flush_at
        idle.end_all(stored=True)

        self.turn(idle)

        assert idle.dispatcher.flush_at == first

    def test_what_was_found_stored_by_someone_else_flushes_nothing(self, idle):
        """Nothing was written, so nothing waited for the disk."""
        self.claim(idle)
        first = idle.dispatcher.flush_at
        Job.objects.update(worker=1)
        idle.end_all()

        self.turn(idle)

        assert idle.dispatcher.flush_at == first

    def test_a_claim_that_finds_nothing_is_not_flushed(self, idle):
        idle.dispatcher.claiming.look_everywhere()
        self.turn(idle)

        assert idle.dispatcher.flush_at is None

    def test_a_worker_that_stops_does_not_wait_for_it(self, idle):
        self.claim(idle)
        idle.dispatcher.flush_at = monotonic()
        idle.dispatcher.stopping = True

        assert idle.dispatcher.seconds_left() > 0


def test_a_worker_with_nothing_to_do_asks_nothing(wheel):
    wheel.turn()
    wheel.turn()

    assert [wheel.turn() for _ in range(20)].count({}) >= 19
