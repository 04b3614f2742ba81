"""
What became of a request to workers, in words: for their pages and `manage.py jobs`.

It imports nothing of the admin, so that the command works in projects without one.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils.translation import gettext

from django_jobs import conf
from django_jobs.core.states import Wish
from django_jobs.dashboard.shown import span
from django_jobs.store.steering import Answer, Verdict


def told(answer: Answer, wish: Wish) -> str:
    """Return what became of `wish` at one worker."""
    words = {"worker": f"{answer.name} #{answer.worker}", "host": answer.host, "pid": answer.pid}
    match answer.verdict:
        case Verdict.ASKED:
            asked = (
                gettext("Asked %(worker)s to drain: it claims nothing more, and ends when all it runs has.")
                if wish == Wish.DRAIN
                else gettext(
                    "Asked %(worker)s to stop: what it still runs after its time of grace is handed back."
                )
            )
            silent = answer.silent_seconds > conf.current().dead_after_seconds
            return f"{asked % words} {doubt(answer.silent_seconds)}" if silent else asked % words
        case Verdict.REPEATED:
            return gettext("Skipped: %(by)s asked %(worker)s to %(wish)s %(span)s ago.") % {
                **words,
                "by": answer.asked_before_by or gettext("somebody"),
                "wish": gettext("stop") if answer.asked_before == Wish.STOP else gettext("drain"),
                "span": span(timedelta(seconds=answer.asked_seconds or 0)),
            }
        case Verdict.ENDING:
            return gettext("Skipped: %(worker)s ends already, without having been asked here.") % words
        case Verdict.ENDED:
            return gettext("Skipped: %(worker)s has ended.") % words
        case Verdict.LOST:
            return gettext("Skipped: %(worker)s was declared dead.") % words
        case Verdict.TOO_OLD:
            says = gettext(
                "Skipped: %(worker)s runs a version of django_jobs that can’t be asked. Send SIGTERM to "
                "process %(pid)s on %(host)s."
            )
            return says % words


def doubt(silent_seconds: float) -> str:
    """Return what is to be said of a worker that may be dead."""
    says = gettext("Nothing has been heard of it for %(span)s: if it is dead, it won’t hear of this.")
    return says % {"span": span(timedelta(seconds=silent_seconds))}
