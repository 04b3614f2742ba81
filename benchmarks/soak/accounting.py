"""What must hold after a soak, read off the tables: each broken promise is one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TABLES = """
    CREATE TABLE soak_mark (
        id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, event text NOT NULL, job bigint NOT NULL,
        attempt int NOT NULL, pid int NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE TABLE soak_ending (job bigint NOT NULL, attempt int NOT NULL, state text NOT NULL);
    CREATE FUNCTION soak_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO soak_ending VALUES (NEW.id, NEW.attempt, NEW.state); RETURN NULL; END $$;
    CREATE TRIGGER soak_note AFTER UPDATE ON django_jobs_job FOR EACH ROW
        WHEN (NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL) EXECUTE FUNCTION soak_note();
"""
"""Marks of bodies, and a note of each time that a job came to an end."""

RULES = {
    "an acknowledged job is gone": """
        SELECT acked.id FROM unnest(%(acked)s::bigint[]) AS acked (id)
         WHERE NOT EXISTS (SELECT FROM django_jobs_job AS job WHERE job.id = acked.id)""",
    "an acknowledged job came to no end": """
        SELECT id FROM django_jobs_job WHERE id = ANY(%(acked)s::bigint[]) AND finished_at IS NULL""",
    "a job ended twice": """
        SELECT job FROM soak_ending GROUP BY job HAVING count(*) > 1""",
    "a body began twice in one attempt": """
        SELECT mark.job FROM soak_mark AS mark JOIN django_jobs_job AS job ON job.id = mark.job
         WHERE mark.event = 'begin' AND job.uncounted = 0
         GROUP BY mark.job, mark.attempt HAVING count(*) > 1""",
    "a body began more often than the job was claimed": """
        SELECT job.id FROM django_jobs_job AS job
         WHERE job.attempt < (SELECT count(*) FROM soak_mark WHERE job = job.id AND event = 'begin')""",
    "a successful job never began": """
        SELECT job.id FROM django_jobs_job AS job
         WHERE job.state = 'SUCCESSFUL' AND NOT EXISTS (SELECT FROM soak_mark WHERE job = job.id)
           AND job.task_path NOT LIKE '%%.nothing%%'""",
    "a transactional effect isn't there exactly once": """
        SELECT job.id FROM django_jobs_job AS job
         WHERE job.task_path LIKE '%%.transfer'
           AND (SELECT count(*) FROM soak_mark WHERE job = job.id AND event = 'effect')
               <> CASE WHEN job.state = 'SUCCESSFUL' THEN 1 ELSE 0 END""",
    "an attempt that ended has no record": """
        SELECT job.id FROM django_jobs_job AS job
         WHERE job.finished_at IS NOT NULL
           AND (SELECT count(*) FROM django_jobs_attempt AS tried WHERE tried.job_id = job.id)
               + CASE WHEN job.state = 'SUCCESSFUL' THEN 1 ELSE 0 END < job.attempt - job.uncounted""",
    "a job runs under a worker that doesn't live": """
        SELECT id FROM django_jobs_job AS job
         WHERE state = 'RUNNING' AND NOT EXISTS (
               SELECT FROM django_jobs_worker AS live
                WHERE live.id = job.worker AND live.state IN ('RUNNING', 'STOPPING'))""",
}


def violations(connection: Any, acked: list[int]) -> Iterator[str]:
    """Yield a sentence for each rule that doesn't hold, with some of the jobs."""
    connection.execute("CREATE INDEX IF NOT EXISTS soak_mark_job ON soak_mark (job)")
    connection.execute("ANALYZE soak_mark, soak_ending, django_jobs_job, django_jobs_attempt")
    for sentence, query in RULES.items():
        found = [row[0] for row in connection.execute(query, {"acked": acked}).fetchall()]
        if found:
            yield f"{sentence}: {len(found)} jobs, such as {found[:5]}"
