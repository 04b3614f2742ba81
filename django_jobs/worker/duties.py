"""
Duties: the periodic work of a worker, one table of plain functions.

They run on the dispatcher's thread and connection, between two cycles, each for some milliseconds. What
must happen once in the cluster is guarded by its statement, not by believing to be the leader.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg

from django_jobs.conf import Settings
from django_jobs.core.records import Asked, ClaimedJob, Ended, Failed, Outcome, Released, Trace, Wake
from django_jobs.core.states import Kind, State, Wish
from django_jobs.exceptions import UnknownTask
from django_jobs.store import finish, prune, rescue, workers
from django_jobs.store.link import run_together
from django_jobs.store.notify import hello, notification
from django_jobs.telemetry import logger
from django_jobs.worker import board
from django_jobs.worker.counting import Counting
from django_jobs.worker.loop import one_line
from django_jobs.worker.memory import resident_bytes

if TYPE_CHECKING:
    from django_jobs.store.cursor import Rows, Statement
    from django_jobs.worker.dispatcher import Dispatcher

HELLO_SECONDS = 5.0
"""How long a worker's hello may take to its own listener."""

PRUNE_PAUSE = 0.2
"""Seconds between two batches of pruning, so that claims go on."""

LOOKS_TOGETHER = 5
"""How many workers look for dead ones as often as the settings say; of more, each looks less often."""

ORPHANS_FACTOR, ORPHANS_FACTOR_ALONE = 10, 30
"""Orphans that nobody buried just now are looked for this many times less often: whoever buried their worker
has died in between."""

FIGURES_PATIENCE = 3600.0
"""Seconds until figures are tried again that the database refused."""

DOUBT_SHARE = 0.6
"""A worker whose last heartbeat is older than this share of what makes it dead doesn't claim. More than half,
which is the longest time between two heartbeats that the settings' check allows."""

SETTLED_SECONDS = 10.0
"""How long a connection must have stood before its worker declares others dead whose lock it never saw: after
an outage of the database every worker looks dead until it has reconnected. One whose lock was seen on this
very connection was not cut off by such an outage: the connection still stands."""

WALK_SHARE = 100.0
"""
What looks at the runs of all workers, or at its own, takes under 1 % of the time: while a transaction is held
open elsewhere, it walks over all that were claimed since. After a death it is due at once all the same.
"""


@dataclass(slots=True)
class Duty:
    """One piece of periodic work; `run` may return the seconds until its next time."""

    name: str
    every: float
    run: Callable[[Duties, Dispatcher], float | None]
    due_at: float = 0.0
    share: float = 0.0
    """As many times its own last duration it waits at the least, unless it is to go on at once."""


@dataclass(slots=True)
class Duties:
    """The duties of one worker, and what they remember from one time to the next."""

    settings: Settings
    on_new_identity: Callable[[], None] = lambda: None
    """Called when the worker got an id."""
    on_asked: Callable[[Asked], None] = lambda asked: None
    """Called with each heartbeat after someone asked this worker to end."""
    dead_for_certain: list[int] = field(default_factory=list)
    """Workers whose parent saw them die."""
    alive_at: float = field(default_factory=monotonic)
    """When this worker was last seen to be taken for alive."""
    hello_said: bool = False
    """Whether the listener is expected to hear a hello."""
    suspects: set[int] = field(default_factory=set)
    """Workers whose lock was gone at the last look."""
    met: set[int] = field(default_factory=set)
    """Workers whose lock was seen on the present connection."""
    met_at: float = 0.0
    """When that connection was opened."""
    pruned_to: datetime = prune.BEGINNING
    """How far the pruning under way has come."""
    counting: Counting = field(default_factory=Counting)
    """What this worker did since it was last written down."""
    boards: list[Path] = field(default_factory=list)
    """Boards of the workers that were buried here, until their jobs are taken over."""
    table: list[Duty] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings, now = self.settings, monotonic()
        self.table = [
            Duty("heartbeat", settings.heartbeat_seconds, heartbeat, now),
            Duty("greet", float("inf"), greet, float("inf")),
            Duty("rescue", settings.rescue_seconds, rescue_jobs, now),
            Duty("orphans", settings.rescue_seconds * ORPHANS_FACTOR, adopt_orphans, now, WALK_SHARE),
            Duty("cancel", 1.0, pass_on_cancel_requests, now),
            Duty("stock", 120.0, take_stock, now + 120.0, WALK_SHARE),
            Duty(
                "prune",
                settings.prune_seconds,
                prune_expired,
                now + spread(0.1, settings.prune_seconds),
            ),
            Duty("figures", 60.0, write_figures, now + spread(1.0, 60.0)),
            Duty("unknown", 300.0, fail_unknown_tasks, now + spread(5, 60)),
        ]

    def run_due(self, dispatcher: Dispatcher) -> None:
        """Do what is due."""
        for duty in self.table:
            began = monotonic()
            if began >= duty.due_at:
                pause = duty.run(self, dispatcher)
                now = monotonic()
                wanted = duty.every if pause is None else pause
                least = duty.share * (now - began) if wanted else 0.0
                duty.due_at = now + max(wanted * spread(0.9, 1.1), least)

    def is_doubtful(self) -> bool:
        """
        Whether this worker may have been declared dead without its knowledge: it was stopped, or cut off, for
        so long that it must not claim under its name before a heartbeat was answered.
        """
        return monotonic() - self.alive_at > self.settings.dead_after_seconds * DOUBT_SHARE

    def seconds_left(self) -> float:
        """Return the time until the next duty."""
        return max(0.0, min(duty.due_at for duty in self.table) - monotonic())

    def hurry(self, name: str) -> None:
        """Make a duty due at once."""
        for duty in self.table:
            if duty.name == name:
                duty.due_at = 0.0


def spread(least: float, most: float) -> float:
    """Return a random time in between, so that workers started together don't act together."""
    return random.uniform(least, most)  # noqa: S311  (no secret)


def ask(dispatcher: Dispatcher, statement: Statement) -> Rows:
    """Run one statement on the dispatcher's connection."""
    assert dispatcher.connection is not None
    [rows] = run_together(dispatcher.connection, [statement])
    return rows


def pass_on(dispatcher: Dispatcher, wakes: Sequence[Wake]) -> None:
    """Have jobs be found that are ready again: by others at once, and here once there is room."""
    if not wakes:
        return
    dispatcher.claiming.woken(wakes, monotonic(), silence=0)
    settings = dispatcher.duties.settings
    if settings.notify and dispatcher.connection is not None:
        ask(dispatcher, notification(settings.channel, wakes))


def wake_of(job: ClaimedJob, run_after: datetime) -> Wake:
    """Return what workers must know about a job that is ready again."""
    return Wake(job.queue_name, job.priority, run_after)


def heartbeat(duties: Duties, dispatcher: Dispatcher) -> float | None:
    """Renew the worker's row, and hear what it was asked; register anew when it was declared dead."""
    statement = workers.heartbeat(
        dispatcher.worker,
        stopping=dispatcher.stopping,
        holds_lock=dispatcher.holds_lock,
        memory=resident_bytes(),
    )
    rows = ask(dispatcher, statement)
    if not rows:
        dispatcher.sign_on_again()
        duties.alive_at = monotonic()
        return 0.0  # the new row has what the old one was asked
    now, others, wish, all_processes, by = rows[0]
    duties.alive_at = monotonic()
    dispatcher.claiming.set_clock(now, monotonic())
    if others and not dispatcher.claiming.others:  # no longer alone: from now on look for deaths often
        duties.hurry("rescue")
    dispatcher.claiming.others = others
    if wish in set(Wish):
        duties.on_asked(Asked(Wish(wish), all_processes, by))
    return None


def greet(duties: Duties, dispatcher: Dispatcher) -> float | None:
    """
    Try whether notifications arrive, once the listener has a session; warn when they don't.

    Behind a pooler that lends sessions for a transaction, LISTEN and the lock end up on a session that isn't
    ours: nothing arrives, and the lock would be no sign of life.
    """
    if dispatcher.greeted or not dispatcher.lock_taken:
        duties.hello_said = False
    elif not duties.hello_said:
        duties.hello_said = True
        ask(dispatcher, hello(duties.settings.channel, dispatcher.worker))
        return HELLO_SECONDS
    else:
        duties.hello_said = False
        logger.warning(
            "notifications don't arrive: the listener's connection seems to go through a pooler. Jobs are "
            "found by polling. Set DJANGO_JOBS['listen_database'] to a direct connection, or --no-listen."
        )
    return None


def rescue_jobs(duties: Duties, dispatcher: Dispatcher) -> float | None:
    """Take over the jobs of workers that died."""
    settings = duties.settings
    dead_after = silence_of_the_dead(settings)
    for worker in duties.dead_for_certain:
        bury(duties, dispatcher, worker, dead_after, certain=True, ending="its parent process saw it die")
    duties.dead_for_certain = []
    if dispatcher.claiming.others:
        look_for_dead(duties, dispatcher, dead_after)
    return settings.rescue_seconds * (
        1 if duties.suspects else max(1, dispatcher.claiming.others / LOOKS_TOGETHER)
    )


def silence_of_the_dead(settings: Settings) -> timedelta:
    """
    Return how old the heartbeat of a worker that is taken for dead is.

    A little less than the setting, for the time until someone looks: the jobs are to run elsewhere by then.
    """
    room = min(2 * settings.rescue_seconds, 0.1 * settings.dead_after_seconds)
    return timedelta(seconds=settings.dead_after_seconds - room)


def look_for_dead(duties: Duties, dispatcher: Dispatcher, dead_after: timedelta) -> None:
    """Look at the other workers; bury those whose lock was gone at the last look too, or that are silent."""
    settled = dispatcher.connected_for() >= SETTLED_SECONDS
    if duties.met_at != dispatcher.opened_at:
        duties.met, duties.suspects, duties.met_at = set(), set(), dispatcher.opened_at
    look = rescue.look(dispatcher.worker, lock_class=duties.settings.lock_class, dead_after=dead_after)
    peers = rescue.looked(ask(dispatcher, look))
    dispatcher.claiming.others = len(peers)
    duties.met |= {peer.id for peer in peers if peer.locked}
    suspects = {peer.id for peer in peers if peer.lock_gone and (settled or peer.id in duties.met)}
    for peer in peers:
        if (peer.silent and settled) or peer.id in duties.suspects & suspects:
            why = "no heartbeat" if peer.silent and settled else "its session ended"
            bury(duties, dispatcher, peer.id, dead_after, certain=False, ending=why)
    duties.suspects = suspects


def bury(
    duties: Duties, dispatcher: Dispatcher, worker: int, dead_after: timedelta, *, certain: bool, ending: str
) -> None:
    """Declare a worker dead, unless it came back or someone else did."""
    statement = rescue.bury(
        worker,
        lock_class=duties.settings.lock_class,
        dead_after=dead_after,
        certain=certain,
        ending=ending,
    )
    for [started_at] in ask(dispatcher, statement):
        logger.warning("worker %s is dead (%s); its jobs are taken over", worker, ending)
        duties.boards.append(board_of(dispatcher, worker, started_at))
        duties.hurry("orphans")


def adopt_orphans(duties: Duties, dispatcher: Dispatcher) -> float | None:
    """Write the end of dead workers' runs, and have them announced; at once again when there are more."""
    orphans = rescue.found(ask(dispatcher, rescue.orphans()))
    for worker, group in groupby(sorted(orphans, key=attrgetter("worker")), attrgetter("worker")):
        if worker == dispatcher.worker:  # declared dead, and about to hear of it
            duties.hurry("heartbeat")
            continue
        jobs = list(group)
        begun = jobs_begun(dispatcher, jobs[0])
        ended = [
            Ended(orphan.job, end_of(dispatcher, orphan, has_begun=begun is None or orphan.job.id in begun))
            for orphan in jobs
        ]
        written: dict[int, Sequence[Any]] = {}
        for statement in finish.finish(worker, ended, keep_cancelled=dispatcher.keep_cancelled):
            written |= {row[0]: row for row in ask(dispatcher, statement)}
        mine = [(finish.as_stored(end, row), row) for end in ended if (row := written.get(end.job.id))]
        pass_on(dispatcher, [wake_of(end.job, row[2]) for end, row in mine if row[1] == State.READY])
        for end, _ in mine:
            dispatcher.announce(end)
    if len(orphans) >= rescue.ORPHANS_LIMIT:
        return 0.0
    while duties.boards:
        board.remove(duties.boards.pop())
    return None if dispatcher.claiming.others else duties.settings.rescue_seconds * ORPHANS_FACTOR_ALONE


def jobs_begun(dispatcher: Dispatcher, orphan: rescue.Orphan) -> Collection[int] | None:
    """Return the jobs that had begun in an orphan's dead process; `None` when that can't be known here."""
    if orphan.worker_started_at is None:
        return None
    return board.begun(board_of(dispatcher, orphan.worker, orphan.worker_started_at))


def board_of(dispatcher: Dispatcher, worker: int, started_at: datetime) -> Path:
    """Return where another worker's board is, if it is on this machine."""
    assert dispatcher.connection is not None
    return board.path_of(dispatcher.connection.info.dbname, worker, started_at)


def end_of(dispatcher: Dispatcher, orphan: rescue.Orphan, *, has_begun: bool) -> Outcome:
    """Return what becomes of an orphan: lost with its worker, or back in its queue as if never claimed."""
    name = f"worker {orphan.worker} ({orphan.worker_name or 'of which nothing is known'})"
    if not has_begun:
        return Released(started=False, reason=f"{name} died before it began")
    why = f"W{name[1:]} died while it ran attempt {orphan.job.counted_attempt}."
    return dispatcher.threads.executor.lost(orphan.job, why)


def pass_on_cancel_requests(duties: Duties, dispatcher: Dispatcher) -> None:
    """Tell bodies that have been running for a while when someone asked to cancel their jobs."""
    if not any(monotonic() - run.began > 0.5 for run in dispatcher.runs()):
        return
    for [job_id] in ask(dispatcher, workers.cancel_requests(dispatcher.worker)):
        dispatcher.cancel(job_id)


def take_stock(duties: Duties, dispatcher: Dispatcher) -> None:
    """Hand back jobs that run under this worker's name without its knowledge."""
    dispatcher.take_stock()


def prune_expired(duties: Duties, dispatcher: Dispatcher) -> float | None:
    """Delete a batch of expired jobs; the next one soon when there are more."""
    settings = duties.settings
    [[count, last]] = ask(dispatcher, prune.prune(settings.prune_batch, after=duties.pruned_to))
    if count:
        logger.debug("%d expired jobs were deleted", count)
    if count >= settings.prune_batch:
        duties.pruned_to = last
        return PRUNE_PAUSE
    duties.pruned_to = prune.BEGINNING
    ask(dispatcher, prune.prune_workers(settings.keep_workers))
    return None


def write_figures(duties: Duties, dispatcher: Dispatcher) -> float | None:
    """Add what was counted to the figures of all workers. No job waits for a table that can't be written."""
    try:
        ask(dispatcher, duties.counting.written())
    except (psycopg.ProgrammingError, psycopg.DataError) as error:  # no table, no right to it, or odd rows
        logger.warning("figures for the admin can't be written: %s", one_line(error))
        duties.counting.forget()
        return FIGURES_PATIENCE
    duties.counting.forget()
    return None


def fail_unknown_tasks(duties: Duties, dispatcher: Dispatcher) -> None:
    """Fail jobs that have been due for long while no live worker knew their task."""
    settings = duties.settings
    reason = f"No live worker has known this task for {settings.unknown_task_after}."
    rows = ask(
        dispatcher,
        rescue.fail_unknown(
            dispatcher.claiming.queues,
            wait=settings.unknown_task_after,
            keep=settings.keep_failed,
            reason=reason,
        ),
    )
    trace = Trace(
        exception_class=f"{UnknownTask.__module__}.{UnknownTask.__qualname__}", message=reason, traceback=""
    )
    for row in rows:
        outcome = Failed(kind=Kind.UNKNOWN_TASK, trace=trace, keep=settings.keep_failed)
        dispatcher.announce(Ended(ClaimedJob(*row), outcome, UnknownTask(reason)))
