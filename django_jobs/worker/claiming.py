"""
When to claim, from where, and how much: the dispatcher's plan, without any SQL or clock of its own.

`Claiming` keeps, for each kind of slot (threads and event loop), how far its claims have come in each queue
and priority. Its rules:

- A claim after points is made when something may be there: after a notification (which sets the point back
  to the new job), when a due time has come, or when the last claim came back full.
- A plain claim, from the front, is made after a poll that found due jobs, when a streak of full
  claims ends, and now and then during one: whenever those of late, and surveys, took under 3 % of the time.
- Points move forward, but for a notification of an earlier job, or a plain claim that came back full.
- After one that was filled, a claim after points names the first priorities alone. One that wasn't filled has
  seen all that it named, so the points of these move up to the present: what it left is for others.
- Rows that are older than that and that no claim has seen are taken in portions: claims go up to an edge, and
  scouts find the next one. They take under 10 % of the time where they find nothing for this kind of slot.
- Each claim leaves room for several of the queues with due jobs, and begins with those just told of.

Source: the measurements behind DESIGN section 5; `tests/worker/test_claiming.py` has them as properties.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime

from django_jobs.core.records import ClaimedJob, Point, Wake
from django_jobs.store.claim import Place, Room
from django_jobs.store.scout import Scouted
from django_jobs.worker.again import Again
from django_jobs.worker.reach import Reach
from django_jobs.worker.requests import ASYNC, Request, Search, Served

FRONT_SHARE = 33
"""
What begins at the front of the index, plain claims and surveys, waits this many times its own last duration,
and as many times that as there are kinds of it: together they take under 3 % of the time. While a transaction
is held open elsewhere, each walks over all that was claimed since.
"""

SCOUT_SHARE = 9
"""A scout waits this many times the duration of the last one that found nothing: under 10 % of the time."""

SILENCE_MARGIN = 0.01
"""Seconds after the end of a sender's silence until what it didn't tell is looked for."""

SOON_POLLS = 2
"""Places whose first job is due within so many polls are claimed from; others can wait for a later survey."""

STALE_POLLS = 2
"""Polls after which a point is stale that no claim has moved."""

HORIZON_SECONDS = 1.0
"""How far behind the present points stay, for jobs whose transactions take a moment to commit."""

NEXT_DUE_SECONDS = 0.005
"""How often due jobs are looked for while it isn't known when the next one is due."""

LATELY_SECONDS = 1.0
"""How long a place is kept in mind where nothing waits any more: what comes there may be told late."""

GLANCE_SECONDS = 0.005
"""How often all workers together look for jobs while a sender keeps silent, as far as slots are free."""


class Claiming:
    """Decides what to claim next. Times are `time.monotonic()` seconds."""

    def __init__(
        self,
        served: Served,
        *,
        kinds: Sequence[str],
        queues: Iterable[str],
        poll_seconds: float,
        jitter: Callable[[], float] = lambda: random.uniform(0.9, 1.1),  # noqa: S311  (no secret)
    ) -> None:
        self.served = served
        self.reaches = {kind: Reach() for kind in kinds}
        self.front_share = FRONT_SHARE * (len(self.reaches) + 1)
        self.own = frozenset(name for name in {*queues, *(served.names or ())} if name in served)
        """Queues that the code or the command line names."""
        self.queues = sorted(self.own)
        """Queues that are claimed from, in this order, rotated: our own, and those in which jobs wait."""
        self.poll_seconds = poll_seconds
        self.jitter = jitter
        self.clock_offset = 0.0
        """The database's time as seconds since 1970, less `time.monotonic()`."""
        self.wants_survey = True
        self.survey_not_before = 0.0
        self.poll_at = 0.0
        self.due_at: float | None = None
        """When the next job that isn't due yet will be."""
        self.again = Again()
        self.paused: set[tuple[str, int]] = set()
        """Places that were paused at the last survey: of what waits there nothing was seen."""
        self.look_again_at: float | None = None
        """When the first silence of a sender will be over."""
        self.silent_until = 0.0
        """When the last one will be."""
        self.glance_at = 0.0
        """When to look next at what comes untold until then."""
        self.lively: dict[tuple[str, int], float] = {}
        """When a job of each queue and priority was last told of or claimed, as of lately."""
        self.others = 0
        """Other live workers; all share the looks at what comes untold."""
        self.turn = 0
        """Place in `queues` of the one that is claimed from first."""
        self.called: set[str] = set()
        """Queues of which a notification told since the last claim; they go first."""
        self.backwards = True
        self.withheld = False
        """Whether some claim left room in a queue to one of another kind, and so has to be made again."""
        self.busy = 1
        """Queues with due jobs at the last survey: each claim leaves room for several of them."""

    def requests(self, now: float, free: Mapping[str, int], in_flight: Mapping[str, int]) -> list[Request]:
        """Return the claims to make now, at most one for each kind with free slots."""
        self.pass_deadlines(now)
        if now < self.silent_until:  # jobs come that nobody tells of
            self.glance_at = now + GLANCE_SECONDS * (1 + self.others) * self.jitter()
            for reach in self.reaches.values():
                reach.hungry |= bool(reach.points)
        taken = Counter(in_flight)  # and what a claim of another kind may take in this very cycle
        self.withheld = False
        found = []
        for kind, reach in self.kinds_in_turn():
            if free[kind] > 0 and (reach.hungry or reach.wants_plain):
                request = self.request(kind, reach, now, free[kind], in_flight, taken)
                if request.rooms:
                    found.append(request)
                    taken.update({room.queue_name: room.room for room in request.rooms})
                self.withheld |= request.partial
        return found

    def kinds_in_turn(self) -> list[tuple[str, Reach]]:
        """Return the kinds of slots, each time in the other order, since they share the limits of queues."""
        self.backwards = not self.backwards
        return list(self.reaches.items())[:: -1 if self.backwards else 1]

    def request(
        self,
        kind: str,
        reach: Reach,
        now: float,
        free: int,
        in_flight: Mapping[str, int],
        taken: Mapping[str, int],
    ) -> Request:
        """Return the claim to make for one kind; one without rooms where there is none to make now."""
        plain = now >= reach.plain_not_before and (reach.wants_plain or reach.streak or not reach.points)
        if not plain and not reach.hungry:
            return Request(kind, plain, (), 0, partial=False)
        rooms, partial = [], False
        share = max(1, -(-2 * free // self.busy))
        for name in self.rotated():
            room = min(share, self.room(name, free, taken))
            partial |= room < min(share, self.room(name, free, in_flight))
            if room > 0 and (plain or name in reach.points):
                rooms.append(Room(name, room) if plain else reach.room(name, room))
        return Request(kind, plain, rooms, min(free, sum(room.room for room in rooms)), partial=partial)

    def room(self, queue_name: str, free: int, in_flight: Mapping[str, int]) -> int:
        """Return how many jobs of a queue may be claimed into `free` slots."""
        limit = self.served.limits.get(queue_name)
        return free if limit is None else min(free, limit - in_flight.get(queue_name, 0))

    def rotated(self) -> list[str]:
        """Return the queues, those that were called for first, then each time beginning with another one."""
        if not self.queues:
            return []
        self.turn = (self.turn + 1) % len(self.queues)
        turned = self.queues[self.turn :] + self.queues[: self.turn]
        return sorted(turned, key=lambda name: name not in self.called) if self.called else turned

    def turn_past(self, request: Request, jobs: Sequence[ClaimedJob]) -> None:
        """Have the next claim begin behind the last queue that this one came to before it was full."""
        self.called.clear()
        given = {job.queue_name for job in jobs}
        for room in reversed(request.rooms if len(jobs) >= request.limit else ()):
            if room.queue_name in given and room.queue_name in self.queues:
                self.turn = self.queues.index(room.queue_name)
                return

    def took(self, request: Request, jobs: Sequence[ClaimedJob], now: float, seconds: float) -> None:
        """Take in what a claim brought, and how long it took."""
        reach = self.reaches[request.kind]
        # A plain claim looks at the front alone: what lies behind points is still to be claimed.
        left_behind = request.plain and reach.hungry and any(reach.points.values())
        counts = Counter([job.queue_name for job in jobs])
        unfilled = self.unfilled(request, counts)
        full = sum(room.whole for room in unfilled.values()) < len(request.rooms)
        horizon = self.horizon(now - seconds)
        last = {(job.queue_name, job.priority): job for job in jobs}  # they are in order
        for job in last.values():
            reach.advance(job, horizon, full=job.queue_name not in unfilled, plain=request.plain)
            self.lively[job.queue_name, job.priority] = now
        self.turn_past(request, jobs)
        if request.plain:
            reach.plain_not_before = now + self.front_share * seconds
        else:
            reach.spend(counts)
            places = Counter([name for name, _ in last])
            reach.filled |= {name: (priority, places[name]) for name, priority in last}
            for room in unfilled.values():
                reach.pass_over(room, horizon)
        reach.hungry = full or request.partial or left_behind
        if full:
            reach.streak = True
        elif request.plain:
            reach.wants_plain = request.partial
            reach.streak = False
        elif reach.streak:
            reach.wants_plain = True

    @staticmethod
    def unfilled(request: Request, counts: Counter[str]) -> dict[str, Room]:
        """Return the queues, by name, in which a claim came to the end of what it was to walk over."""
        rooms = request.rooms
        if counts.total() >= request.limit:  # it didn't come to those behind the last one that gave any
            rooms = rooms[: max(place for place, room in enumerate(rooms) if room.queue_name in counts)]
        return {room.queue_name: room for room in rooms if counts[room.queue_name] < room.room}

    def horizon(self, at: float) -> Point:
        """Return the point before which all is old: what came there has had a moment to commit."""
        return Point(self.instant(at - HORIZON_SECONDS), 0)

    def give_up_the_walk(self, now: float) -> None:
        """
        Take in that a claim took longer than the session allows: take what is old in portions.

        It was on its way over very many waiting rows that this worker, or that kind of slot, may not take.
        """
        for reach in self.reaches.values():
            reach.give_up_the_walk(self.horizon(now))
        self.look_everywhere()

    def searches(self, now: float, free: Mapping[str, int]) -> list[Search]:
        """Return the scouts to send now, for kinds with free slots."""
        return [
            Search(kind, spans)
            for kind, reach in self.reaches.items()
            if free[kind] > 0 and (spans := reach.to_scout(now))
        ]

    def scouted(self, search: Search, found: Sequence[Scouted], now: float, seconds: float) -> None:
        """Take in what a scout found, and how long it took."""
        reach = self.reaches[search.kind]
        self.again.scouted(now, seconds)
        for scouted in found:
            reach.take_edge(scouted, search)
            reach.hungry |= scouted.found
            if not scouted.found:
                reach.scout_not_before = now + SCOUT_SHARE * seconds

    def woken(self, wakes: Sequence[Wake], now: float, *, silence: float) -> None:
        """Take in a notification; one without wakes means "look everywhere"."""
        if silence:
            self.silent_until = max(self.silent_until, now + silence + SILENCE_MARGIN)
            if self.look_again_at is None:  # or it would be put off for as long as notifications come
                self.look_again_at = self.silent_until
        if not wakes:
            self.look_everywhere()
            self.again.asked = True
        present, horizon = Point(self.instant(now), 0), self.horizon(now)
        for wake in wakes:
            if wake.queue_name not in self.served:
                continue
            self.know(wake.queue_name)
            self.called.add(wake.queue_name)
            self.lively[wake.queue_name, wake.priority] = now
            wait = wake.run_after.timestamp() - self.clock_offset - now
            for kind, reach in self.reaches.items():
                if wake.is_async in (None, kind == ASYNC):
                    reach.set_back(wake, present, horizon)
                    reach.hungry = reach.hungry or wait <= 0
            if wait > 0:
                self.due_in(wait, now)

    def due_in(self, seconds: float, now: float) -> None:
        """Take in that a job will be due in `seconds`."""
        at = now + seconds + 0.001
        if self.due_at is None or at < self.due_at:
            self.due_at = at

    def instant(self, at: float) -> datetime:
        """Return a time of `time.monotonic()` as one of the database's."""
        return datetime.fromtimestamp(self.clock_offset + at, UTC)

    def look_everywhere(self) -> None:
        """Have the next claims be plain, and the queues surveyed."""
        self.wants_survey = True
        for reach in self.reaches.values():
            reach.wants_plain = True

    def know(self, queue_name: str) -> None:
        """Add a queue to those that are claimed from."""
        if queue_name not in self.queues:
            self.queues = sorted([*self.queues, queue_name])

    def freed(self, queue_names: Iterable[str]) -> None:
        """Take in that jobs of these queues ended: one with a limit of its own may give more."""
        if not self.served.limits.keys().isdisjoint(queue_names):
            for reach in self.reaches.values():
                reach.hungry = True

    def pass_deadlines(self, now: float) -> None:
        """Act on the times that have come."""
        if now >= self.poll_at:
            self.wants_survey = True
        if self.due_at is not None and now >= self.due_at:
            # The next due time is known after a survey, which may have to wait for its share of the time.
            self.due_at = now + NEXT_DUE_SECONDS if now < self.survey_not_before else None
            self.wants_survey = True
            for reach in self.reaches.values():
                reach.hungry = True
        if self.look_again_at is not None and now >= self.look_again_at:
            self.look_again_at = self.silent_until if self.silent_until > now else None
            self.look_everywhere()

    def is_survey_due(self, now: float) -> bool:
        """Whether to survey now; surveys keep to the same share of the time as plain claims."""
        return self.wants_survey and now >= self.survey_not_before

    def surveyed(self, places: Sequence[Place], now: float, seconds: float) -> None:
        """Take in what waits where, and when the first of it is due."""
        self.wants_survey = False
        self.survey_not_before = now + self.front_share * seconds
        self.poll_at = now + self.poll_seconds * self.jitter()
        self.due_at = None
        self.lively = {place: at for place, at in self.lively.items() if now - at < LATELY_SECONDS}
        paused = {(place.queue_name, place.priority) for place in places if place.paused}
        waiting = {(place.queue_name, place.priority) for place in places}
        self.forget_all_but((self.lively.keys() | waiting) - paused - self.paused)
        self.paused = paused
        again = self.again.is_due(now)
        if self.again.is_restart_due(now):
            again = True
            for reach in self.reaches.values():
                reach.unseen.clear()
        if self.again.asked:
            self.due_in(self.again.restart_not_before - now, now)
        due = {place.queue_name for place in places if place.due_in <= 0 and not place.paused}
        self.busy = max(1, sum(name in self.served for name in due))
        horizon = self.horizon(now - seconds)
        stale = self.horizon(now - seconds - STALE_POLLS * self.poll_seconds)
        for place in places:
            if place.queue_name not in self.served or place.paused:
                continue
            self.know(place.queue_name)
            for reach in self.reaches.values():
                if place.due_in <= SOON_POLLS * self.poll_seconds:
                    old = place.due_in < -HORIZON_SECONDS
                    reach.find(place, old=old, again=again, horizon=horizon, stale=stale)
                if place.due_in <= 0:
                    reach.wants_plain = reach.hungry = True
            if place.next_due_in is not None:  # as of then; the answer may have waited for a commit since
                self.due_in(max(0.0, place.next_due_in), now - seconds)

    def forget_all_but(self, waiting: Set[tuple[str, int]]) -> None:
        """Forget other places, and queues that aren't our own: each customer may have one."""
        kept = self.own | {name for name, _ in waiting}
        self.queues = [name for name in self.queues if name in kept]
        for reach in self.reaches.values():
            reach.forget_all_but(waiting)

    def seconds_left(self, now: float, free: Mapping[str, int], in_flight: Mapping[str, int]) -> float:
        """Return how long there is nothing to do but wait for news, such as that a job ended."""
        if self.withheld:
            return 0.0
        times = [max(self.poll_at, self.survey_not_before)]
        if self.wants_survey:
            times.append(self.survey_not_before)
        if self.due_at is not None:
            times.append(self.due_at)
        if self.look_again_at is not None:
            times.append(self.look_again_at)
        roomy = []
        for kind, reach in self.reaches.items():
            open_queues = {name for name in self.queues if self.room(name, free[kind], in_flight) > 0}
            if open_queues:
                roomy.append(reach)
                times += reach.times(open_queues)
        times += [
            reach.plain_not_before
            for reach in roomy
            if reach.wants_plain or (reach.hungry and not reach.points)
        ]
        if now < self.silent_until and any(reach.points for reach in roomy):
            times.append(self.glance_at)
        return max(0.0, min(times) - now)

    def set_clock(self, database_time: datetime, now: float) -> None:
        """
        Take in what time it is in the database, or was a moment before `now`.

        Never a time that is yet to come: a job would be looked for before it is due, and not again.
        """
        self.clock_offset = database_time.astimezone(UTC).timestamp() - now
