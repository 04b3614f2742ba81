"""Jobs as lines of text: the history of each, attempt by attempt, and the dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from django_jobs.models import Attempt, Job, KindChoices

WIDTHS = (6, 14, 11, 3, 40)
"""Columns: job, task, what for, attempt, result; the decision ends the line."""


def history(jobs: Iterable[Job]) -> Iterator[str]:
    """Yield a line for each attempt of each job: number, result, decision."""
    yield line("job", "task", "for", "run", "result", "decision")
    for job in jobs:
        first = (str(job.pk), name(job), about(job))
        for run in job.history():
            yield line(*first, str(run.number), result(run), decision(run))
            first = ("", "", "")


def dead_letters(jobs: Iterable[Job]) -> Iterator[str]:
    """Yield a line for each job that waits for a person, with the reason."""
    for job in jobs:
        last = job.history()[-1]
        why = f"{last.exception_class.rpartition('.')[2]}: {last.message}"
        yield line(str(job.pk), name(job), about(job), f"{job.counted_attempt}", shortened(why, 60), "")


def line(*cells: str) -> str:
    """Return the cells in columns."""
    padded = [f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=False)]
    return "  ".join([*padded, *cells[len(WIDTHS) :]]).rstrip()


def name(job: Job) -> str:
    return job.task_path.rpartition(".")[2]


def about(job: Job) -> str:
    """What the job is for, from its meta."""
    if "order" in job.meta:
        return f"order {job.meta['order']}"
    return str(job.meta.get("title", job.meta.get("day", "")))


def result(run: Attempt) -> str:
    if not run.kind:
        return "successful" if run.decision else "running"
    kind = str(run.get_kind_display())
    says_more = run.message and run.kind not in (KindChoices.TIMEOUT, KindChoices.LOST)
    return shortened(f"{kind}: {run.message}" if says_more else kind, WIDTHS[4])


def decision(run: Attempt) -> str:
    """The decision with the delay, if there is one."""
    text = str(run.get_decision_display()) if run.decision else ""
    if run.next_run_after and run.ended_at and run.next_run_after > run.ended_at:
        return f"{text.removesuffix(' later')} in {delay(run.ended_at, run.next_run_after)}"
    return text


def delay(start: datetime, end: datetime) -> str:
    return f"{(end - start).total_seconds():.1f} s"


def shortened(text: str, width: int) -> str:
    """Return the first line of a text, cut to `width`."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= width else f"{first[: width - 1]}…"
