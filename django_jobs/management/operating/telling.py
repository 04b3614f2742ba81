"""Everything about one job, for `manage.py jobs show`. What has a sensitive name is masked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections

from django_jobs import conf
from django_jobs.captures import Line
from django_jobs.core.masking import masked, masked_positional
from django_jobs.dashboard.explaining import Explanation
from django_jobs.dashboard.story import captures_of, runs_of
from django_jobs.management.operating.printing import lines, moment, plain, span
from django_jobs.models import Attempt, Capture, Job
from django_jobs.signatures import positional_names
from django_jobs.store.overview import worker_names

MASKED_ALL = (
    "hidden: this process doesn't know the task, so its sensitive arguments can't be told from the others"
)


def told(job: Job, most_runs: int) -> dict[str, Any]:
    """Return a job as the documented object."""
    names = conf.current().sensitive_names
    parameters = positional_names(job.task_path)
    runs, earlier = runs_of(job)
    if len(runs) > most_runs:
        runs, earlier = runs[-most_runs:], earlier + len(runs) - most_runs
    captures = captures_of(job, runs)
    ids = sorted({run.worker for run in runs if run.worker is not None} | {job.worker or 0} - {0})
    with connections[str(job._state.db)].cursor() as cursor:
        workers = worker_names(cursor, ids)
    return {
        "id": job.pk,
        "task": job.task_path,
        "task_is_known": parameters is not None,
        "queue": job.queue_name,
        "state": job.state.lower(),
        "label": job.phase,
        "priority": job.priority,
        "attempts": job.counted_attempt,
        "max_attempts": job.max_attempts,
        "reason": job.reason,
        "args": masked_positional(job.args, parameters, names) if isinstance(job.args, list) else job.args,
        "kwargs": masked(job.kwargs, names),
        "meta": masked(job.meta, names),
        "return_value": masked(job.return_value, names),
        "worker": job.worker,
        "worker_name": workers.get(job.worker or 0),
        "enqueued_at": job.enqueued_at,
        "run_after": job.run_after,
        "started_at": job.started_at,
        "last_attempted_at": job.last_attempted_at,
        "finished_at": job.finished_at,
        "expires_at": job.expires_at,
        "cancel_requested_at": job.cancel_requested_at,
        "duration_seconds": job.duration,
        "earlier_runs": earlier,
        "runs": [told_run(run, workers, captures.get(run.number)) for run in runs],
    }


def told_run(run: Attempt, workers: Mapping[int, str], capture: Capture | None) -> dict[str, Any]:
    """Return one run as the documented object."""
    return {
        "number": run.number,
        "worker": run.worker,
        "worker_name": workers.get(run.worker or 0),
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "duration_seconds": run.duration,
        "result": (run.kind or ("successful" if run.decision else "running")).lower(),
        "decision": run.decision.lower(),
        "exception_class": run.exception_class,
        "message": run.message,
        "traceback": run.traceback,
        "next_run_after": run.next_run_after,
        "captured": None if capture is None else told_capture(capture),
    }


def told_capture(capture: Capture) -> dict[str, Any]:
    """Return what was captured of a run as the documented object."""
    return {
        "log": [line._asdict() for line in capture.log() if isinstance(line, Line)],
        "cut": capture.cut,
        "cut_at": capture.cut_at,
        "queries": capture.queries,
        "query_seconds": capture.query_seconds,
    }


def explained_json(found: Mapping[int, Explanation]) -> dict[str, Any]:
    """Return why jobs aren't running as the documented object."""
    return {
        "jobs": [
            {
                "id": key,
                "exists": explanation.exists,
                "state": explanation.state.lower(),
                "reasons": [
                    {"id": reason.key, "message": reason.says, "remedy": reason.remedy}
                    for reason in explanation.reasons
                ],
            }
            for key, explanation in found.items()
        ]
    }


def explained_text(found: Mapping[int, Explanation]) -> str:
    """Return why jobs aren't running for people."""
    told = []
    for key, explanation in found.items():
        told.append(f"#{key} {explanation.state.lower()}".rstrip())
        for reason in explanation.reasons:
            told.append(f"  {plain(reason.says)}")
            told += [f"    -> {plain(reason.remedy)}"] if reason.remedy else []
    return "\n".join(told)


def as_text(found: Mapping[str, Any]) -> str:
    """Return a job for people."""
    limit = "any number" if found["max_attempts"] is None else found["max_attempts"]
    state = found["label"] + (", asked to stop" if found["cancel_requested_at"] else "")
    facts: list[tuple[str, str]] = [
        ("state", state),
        ("queue", f"{found['queue']}, priority {found['priority']}"),
        ("attempts", f"{found['attempts']} of {limit}"),
    ]
    facts += [("reason", found["reason"])] if found["reason"] else []
    for name in ("args", "kwargs", "meta", "return_value"):
        if found[name] not in (None, [], {}):
            facts.append((name.replace("_", " "), json.dumps(found[name], ensure_ascii=False, default=str)))
    if found["args"] and not found["task_is_known"]:
        facts.append(("", MASKED_ALL))
    for name, words in (
        ("enqueued_at", "enqueued"),
        ("run_after", "due"),
        ("started_at", "first started"),
        ("finished_at", "finished"),
        ("expires_at", "kept until"),
    ):
        if found[name] is not None:
            facts.append((words, moment(found[name])))
    width = max(len(name) for name, _ in facts)
    head = [f"#{found['id']} {plain(found['task'])}"]
    head += [f"  {name:<{width}}  {plain(value)}" for name, value in facts]
    return "\n".join([*head, *runs_text(found["runs"], found["earlier_runs"])])


def runs_text(runs: Sequence[Mapping[str, Any]], earlier: int) -> list[str]:
    """Return the history of a job."""
    if not runs:
        return ["  no runs yet"]
    told = ["  runs" + (f" ({earlier} earlier ones left out)" if earlier else "")]
    for run in runs:
        worker = run["worker_name"] or (f"worker {run['worker']}" if run["worker"] else "no worker")
        decision = f" -> {run['decision']}" if run["decision"] else ""
        due = f", due {moment(run['next_run_after'])}" if run["next_run_after"] else ""
        told.append(
            f"    {run['number']}  {moment(run['started_at'])}  {span(run['duration_seconds'])}  "
            f"{run['result']}{decision}{due}  ({plain(worker)})"
        )
        text = run["traceback"] or ": ".join(
            part for part in (run["exception_class"], run["message"]) if part
        )
        told += [f"       {line}" for line in lines(text.rstrip())] if text else []
        told += captured_text(run["captured"]) if run["captured"] else []
    return told


def captured_text(found: Mapping[str, Any]) -> list[str]:
    """Return what was captured of a run for people."""
    told = []
    if found["queries"] is not None:
        told.append(f"       {found['queries']} queries in {found['query_seconds']:.3f} s")
    log = [f"{moment(line['at'])} {line['level']} {line['logger']}: {line['text']}" for line in found["log"]]
    if found["cut"]:
        log.insert(found["cut_at"], f"… {found['cut']} lines cut …")
    return told + [f"       {part}" for line in log for part in lines(line)]
