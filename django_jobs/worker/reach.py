"""
How far the claims of one kind of slot have come: what `claiming` keeps of each queue and priority.

Behind a **point** lies what is new: few rows, which each claim walks over. Older rows that no claim has seen
yet may be millions, and none of them for this kind of slot, so they are taken in portions: from where the
unseen begins to an **edge**, which a scout finds some thousand rows further on (`store.scout`). Without an
edge, older rows are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from django_jobs.core.records import ClaimedJob, Point, Wake
from django_jobs.store.claim import BEGINNING, Place, Room, Span, point_of
from django_jobs.store.scout import Edge, Scouted
from django_jobs.worker.requests import Search

FURTHER_PLACES = 8
"""
How many priorities a claim names at least behind the one by which the last claim was filled. Each that is
named costs the sender and the server time, whether the claim comes to it or not: a millisecond with 201.
"""


@dataclass(slots=True)
class Unseen:
    """Older rows of a queue that no claim has seen yet."""

    begins: dict[int, Point] = field(default_factory=dict)
    """By priority: the last row that was seen."""
    ends: dict[int, Point] = field(default_factory=dict)
    """By priority: the last row that wasn't."""
    edges: dict[int, Point] | None = None
    """By priority: the last row that claims may come to; `None` until a scout has found them."""
    left: int = 0
    """How many jobs may be claimed before the next edge is looked for."""

    def begin(self, priority: int, at: Point, until: Point) -> None:
        """Have the unseen rows of a priority begin behind `at`, within the edge or without one."""
        known = self.begins.get(priority)
        self.begins[priority] = at
        self.ends[priority] = max(until, self.ends.get(priority, until))
        if known is None or at < known or at > (self.edges or {}).get(priority, BEGINNING):
            self.edges = None

    def drop(self, priority: int) -> bool:
        """Have no unseen rows in a priority; return whether there are none in any then."""
        self.begins.pop(priority, None)
        self.ends.pop(priority, None)
        return not self.begins

    def up_to(self, priority: int, point: Point) -> Iterable[Span]:
        """Yield what a claim may walk over before the priority's point."""
        begin, edge = self.begins.get(priority), (self.edges or {}).get(priority)
        if begin is not None and edge is not None and begin < (until := min(point, edge)):
            yield Span(priority, begin, until)

    def spans(self) -> list[Span]:
        """Return all of them, in the queue's order."""
        return [Span(p, self.begins[p], self.ends[p]) for p in sorted(self.begins, reverse=True)]

    def take_edge(self, edge: Edge | None, searched: Sequence[Span]) -> bool:
        """
        Take in how far a scout came; return whether that was any use.

        It is none when there is more before the edge by now: a claim that was sent together with the scout
        may have found jobs where none had been looked for.
        """
        asked = {span.priority: span for span in searched}
        self.edges = None
        if any(p not in asked or at < asked[p].after for p, at in self.begins.items()):
            return False
        self.edges = {
            p: edge.point if edge is not None and p == edge.priority else span.until
            for p, span in asked.items()
            if edge is None or p >= edge.priority
        }
        return True

    def pass_edge(self) -> bool:
        """Have the unseen rows begin behind the edge; return whether there are none then."""
        for priority, edge in (self.edges or {}).items():
            if priority in self.begins:
                if self.ends[priority] <= edge:
                    self.drop(priority)
                else:
                    self.begins[priority] = max(self.begins[priority], edge)
        self.edges = None
        return not self.begins


@dataclass(slots=True)
class Reach:
    """How far the claims of one kind of slot have come."""

    points: dict[str, dict[int, Point]] = field(default_factory=dict)
    """By queue and priority: all before it was seen, but for what is in `unseen`."""
    unseen: dict[str, Unseen] = field(default_factory=dict)
    """By queue."""
    filled: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By queue whose last claim was filled: the priority of its last job, and of how many it had jobs."""
    hungry: bool = True
    """Whether a claim may find something."""
    wants_plain: bool = True
    """Whether a plain claim is due as soon as the budget allows one."""
    streak: bool = False
    """Whether claims came back full since the last plain one that didn't."""
    plain_not_before: float = 0.0
    """When the budget allows the next plain claim."""
    scout_not_before: float = 0.0
    """When the budget allows the next scout."""

    def room(self, queue_name: str, room: int) -> Room:
        """Return what to walk over in a known queue: the first places alone, if these may fill the claim."""
        points = self.points[queue_name]
        unseen = self.unseen.get(queue_name)
        order = sorted(points, reverse=True)
        if queue_name in self.filled:
            last, count = self.filled[queue_name]
            order = order[: sum(priority >= last for priority in order) + max(FURTHER_PLACES, count)]
        spans: list[Span] = []
        for priority in order:
            if unseen is not None:
                spans += unseen.up_to(priority, points[priority])
            spans.append(Span(priority, points[priority]))
        return Room(queue_name, room, spans, whole=len(order) == len(points))

    def find(self, place: Place, *, old: bool, again: bool, horizon: Point, stale: Point) -> None:
        """
        Take in that jobs wait, the first of them longer ago than the horizon (`old`) or not.

        A `stale` point is from before all slots became busy: there may be much behind it. What is to be
        looked at `again` begins at the first row, unless older rows are being looked at already.
        """
        name, priority = place.queue_name, place.priority
        points = self.points.setdefault(name, {})
        known = points.get(priority)
        if not old:
            if (unseen := self.unseen.get(name)) is not None and unseen.drop(priority):
                del self.unseen[name]
            points.setdefault(priority, BEGINNING)
        elif known is None or known < stale or again:
            points[priority] = horizon if known is None else max(known, horizon)
            begun = self.unseen[name].begins.get(priority) if name in self.unseen else None
            self.begin_unseen(name, priority, begun or (BEGINNING if again else known) or BEGINNING)

    def begin_unseen(self, queue_name: str, priority: int, at: Point) -> None:
        """Have the unseen rows of a place begin behind `at`, and end at its point."""
        until = self.points[queue_name][priority]
        self.unseen.setdefault(queue_name, Unseen()).begin(priority, at, until)

    def advance(self, job: ClaimedJob, horizon: Point, *, full: bool, plain: bool) -> None:
        """
        Move on to a job, the last one of its place in a claim.

        A `full` claim has not seen what lies behind it; a plain one may come from before the point.
        """
        here = point_of(job)
        points = self.points.setdefault(job.queue_name, {})
        known = points.get(job.priority)
        if full and here < horizon:
            unseen = self.unseen.get(job.queue_name)
            begun = unseen.begins.get(job.priority) if unseen is not None else None
            points[job.priority] = horizon if known is None else max(known, horizon)
            at = here if begun is None or known is None or here <= known else begun
            self.begin_unseen(job.queue_name, job.priority, at)
        elif known is None or known < here or (full and plain):
            points[job.priority] = here

    def pass_over(self, room: Room, horizon: Point) -> None:
        """Take in that a claim saw all that it was to walk over in a queue, and left what it may not take."""
        self.filled.pop(room.queue_name, None)
        if room.whole:
            self.pass_edge(room.queue_name)
        points = self.points[room.queue_name]
        for span in room.spans:
            points[span.priority] = max(points[span.priority], horizon)

    def pass_edge(self, queue_name: str) -> None:
        """Take in that nothing is left to claim before the edge of a queue."""
        unseen = self.unseen.get(queue_name)
        if unseen is not None and unseen.pass_edge():
            del self.unseen[queue_name]

    def set_back(self, wake: Wake, present: Point, horizon: Point) -> None:
        """
        Have the next claim find the job of a wake.

        No point lies ahead of the `present`: others that nobody told of may be due before that job.
        """
        points = self.points.setdefault(wake.queue_name, {})
        known = points.get(wake.priority)
        at = Point(wake.run_after, 0)
        if known is not None and known < at:
            return
        at = min(at, present)
        if at >= horizon:
            points[wake.priority] = at
            return
        points[wake.priority] = known or horizon
        unseen = self.unseen.get(wake.queue_name)
        begun = unseen.begins.get(wake.priority, at) if unseen is not None else at
        self.begin_unseen(wake.queue_name, wake.priority, min(begun, at))
        self.scout_not_before = 0.0

    def forget_all_but(self, waiting: Set[tuple[str, int]]) -> None:
        """Forget all other places."""
        self.points = {
            name: left
            for name, points in self.points.items()
            if (left := {p: point for p, point in points.items() if (name, p) in waiting})
        }
        self.filled = {name: last for name, last in self.filled.items() if name in self.points}
        for name, unseen in list(self.unseen.items()):
            gone = [priority for priority in unseen.begins if (name, priority) not in waiting]
            if [priority for priority in gone if unseen.drop(priority)]:
                del self.unseen[name]

    def give_up_the_walk(self, horizon: Point) -> None:
        """Have all rows that are old by now be taken in portions, also those behind points."""
        for name, points in self.points.items():
            unseen = self.unseen.setdefault(name, Unseen())
            unseen.edges = None
            for priority, point in points.items():
                if point < horizon:
                    points[priority] = horizon
                    self.begin_unseen(name, priority, unseen.begins.get(priority, point))
            if not unseen.begins:
                del self.unseen[name]

    def spend(self, counts: Mapping[str, int]) -> None:
        """Take in how many jobs of each queue were claimed on the way to its edge."""
        for name, unseen in self.unseen.items():
            unseen.left -= counts.get(name, 0)

    def to_scout(self, now: float) -> dict[str, list[Span]]:
        """Return the unseen rows, by queue, in which an edge is to be found now."""
        return {
            name: unseen.spans()
            for name, unseen in self.unseen.items()
            if (unseen.left <= 0 if unseen.edges is not None else now >= self.scout_not_before)
        }

    def take_edge(self, scouted: Scouted, search: Search) -> None:
        """Take in what a scout found in a queue: claim up to its edge, or pass that where nothing is."""
        name = scouted.queue_name
        unseen = self.unseen.get(name)
        if unseen is not None and unseen.take_edge(scouted.edge, search.spans[name]):
            unseen.left = search.walk * 3 // 4  # so that the next edge is known before this one is reached
            if not scouted.found:
                self.pass_edge(name)

    def times(self, queue_names: Set[str]) -> list[float]:
        """Return the times when a claim after points or a scout of these queues can be sent."""
        if self.hungry and any(self.points.get(name) for name in queue_names):
            return [0.0]
        unseen = [found for name, found in self.unseen.items() if name in queue_names]
        return [self.scout_not_before] if any(found.edges is None for found in unseen) else []
