"""
Conditions for jobs that hold a value in their arguments or meta, for the admin's list. They become parts of
its statements, so their parameters are unnamed.

Only whole values are compared, and none that stands under a sensitive name: who searches must not be able to
guess what is masked. No index helps; the list looks no further than its reach, for a limited time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

# A look at the text tells most rows apart, in a tenth of the time.
MENTIONED = """
    (position(%s::text IN django_jobs_job.kwargs::text) > 0
     OR position(%s::text IN django_jobs_job.args::text) > 0
     OR position(%s::text IN django_jobs_job.meta::text) > 0)
"""

# PostgreSQL's `json` keeps escapes that its functions can't decode: NUL, and halves of surrogate pairs.
DECODABLE = r"django_jobs_job.{column}::text !~ '\\u(0000|[dD][89a-fA-F])'"

# Name and value: a keyword argument or meta, or a positional argument whose name is known.
NAMED = f"""
    CASE WHEN NOT {MENTIONED} THEN false
         WHEN {DECODABLE.format(column="args")} AND {DECODABLE.format(column="kwargs")}
         THEN COALESCE(django_jobs_job.kwargs ->> %s::text = %s::text, false)
           OR COALESCE(django_jobs_job.meta ->> %s::text = %s::text, false)
           OR EXISTS (SELECT FROM unnest(%s::text[], %s::int[]) AS known (path, place)
                       WHERE known.path = django_jobs_job.task_path
                         AND django_jobs_job.args ->> known.place = %s::text)
         ELSE false END
"""

# A value under any name that isn't sensitive, or at any place of a task without sensitive parameters.
ANYWHERE = f"""
    CASE WHEN NOT {MENTIONED} THEN false
         WHEN {DECODABLE.format(column="args")} AND {DECODABLE.format(column="kwargs")}
         THEN (CASE WHEN json_typeof(django_jobs_job.kwargs) = 'object' THEN EXISTS (
                    SELECT FROM json_each_text(django_jobs_job.kwargs) AS given
                     WHERE given.value = %s::text AND NOT EXISTS (
                           SELECT FROM unnest(%s::text[]) AS secret (part)
                            WHERE position(secret.part IN replace(lower(given.key), '-', '_')) > 0))
                    ELSE false END)
           OR (CASE WHEN jsonb_typeof(django_jobs_job.meta) = 'object' THEN EXISTS (
                    SELECT FROM jsonb_each_text(django_jobs_job.meta) AS given
                     WHERE given.value = %s::text AND NOT EXISTS (
                           SELECT FROM unnest(%s::text[]) AS secret (part)
                            WHERE position(secret.part IN replace(lower(given.key), '-', '_')) > 0))
                    ELSE false END)
           OR (CASE WHEN django_jobs_job.task_path = ANY(%s::text[])
                     AND json_typeof(django_jobs_job.args) = 'array' THEN EXISTS (
                    SELECT FROM json_array_elements_text(django_jobs_job.args) AS given
                     WHERE given.value = %s::text)
                    ELSE false END)
         ELSE false END
"""


def named_params(name: str, value: str, places: Mapping[str, int]) -> tuple[object, ...]:
    """Return the parameters of `NAMED`; `places` tells at which place tasks have an argument of that name."""
    return (*mentioned(value), name, value, name, value, list(places), list(places.values()), value)


def anywhere_params(value: str, secrets: Collection[str], tasks: Collection[str]) -> tuple[object, ...]:
    """Return the parameters of `ANYWHERE`; `tasks` are those without a sensitive parameter."""
    parts = [part.casefold().replace("-", "_") for part in secrets]
    return (*mentioned(value), value, parts, value, parts, list(tasks), value)


def mentioned(value: str) -> tuple[str, str, str]:
    """Return the parameters of `MENTIONED`: the value as JSON has it, without quotes around it."""
    text = json.dumps(value, ensure_ascii=False)[1:-1]
    return (text, text, text)
