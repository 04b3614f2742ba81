"""docs/reference/rights.md: a role with just the rights of that page enqueues, runs, operates and prunes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import ProgrammingError, connection

from django_jobs.core.states import State
from django_jobs.models import Job
from django_jobs.operations import Operations
from django_jobs.store import counting, prune, workers
from tests.docs import failing
from tests.docs.blocks import blocks
from tests.eventually import eventually

PAGE = settings.BASE_DIR / "docs" / "reference" / "rights.md"


@pytest.fixture
def use_role(transactional_db) -> Iterator[Callable[[str], None]]:
    """Has all new connections act as a role that got the rights of one block of the page."""
    made: list[str] = []
    usual = dict(connection.settings_dict["OPTIONS"])

    def use(grants: str) -> None:
        role = grants.rpartition(" TO ")[2].strip().rstrip(";")
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE ROLE {role}")
            made.append(role)
            cursor.execute(grants)
            cursor.execute(f"GRANT USAGE ON SCHEMA public TO {role}; GRANT {role} TO CURRENT_USER")
        connection.settings_dict["OPTIONS"] = {**usual, "options": f"-c role={role}"}
        connection.close()

    yield use
    connection.settings_dict["OPTIONS"] = usual
    connection.close()
    with connection.cursor() as cursor:
        for role in made:
            cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_the_rights_of_the_page_are_enough(use_role, start_worker):
    use_role(blocks(PAGE, "sql")[0].code)
    failing.returns.enqueue_many([(), ()])
    failing.fails_itself.enqueue()
    later = failing.returns.using(run_after=timedelta(days=1)).enqueue()

    worker = start_worker(listen=True)
    jobs = Job.objects
    eventually(lambda: jobs.filter(finished_at=None).count() == 1 and worker.is_healthy)
    assert jobs.get(state=State.FAILED).attempts.count() == 1
    operations = Operations()
    assert operations.pause("mail")
    assert operations.resume("mail")
    assert operations.cancel([int(later.id)])
    assert operations.retry([int(later.id)])
    eventually(lambda: not jobs.filter(finished_at=None).exists())
    assert worker.stop(10)
    with connection.cursor() as cursor:
        counting.census(cursor)
        cursor.execute(*prune.prune(10))
        cursor.execute(*prune.prune_workers(timedelta(days=1)))
        cursor.execute(*workers.cancel_requests(1))
    assert operations.discard(list(jobs.values_list("pk", flat=True)))


def test_a_role_that_only_enqueues_needs_less(use_role):
    use_role(blocks(PAGE, "sql")[1].code)

    failing.returns.enqueue()
    failing.returns.enqueue_many([(), ()])

    assert Job.objects.count() == 3
    with pytest.raises(ProgrammingError, match="permission denied"):
        Operations().pause("mail")
