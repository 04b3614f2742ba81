"""Behind PgBouncer in transaction mode: with a listener of its own, and with none."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections, transaction

from django_jobs.models import Job
from tests.eventually import eventually
from tests.scenarios import tasks
from tests.scenarios.facts import begun, is_done, lock_holders, rows, usual, waits
from tests.scenarios.marks import marks

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
REQUIRED = bool(os.environ.get("REQUIRE_PGBOUNCER"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAM is None and not REQUIRED,
        reason="PgBouncer isn't installed (on Debian: apt install pgbouncer)",
    ),
]


@pytest.fixture
def pooler(proxy, database) -> Iterator[int]:
    """The port of a PgBouncer in transaction mode, before the scenarios' server."""
    assert PROGRAM is not None, "REQUIRE_PGBOUNCER is set, and there is none"
    folder = Path(tempfile.mkdtemp(prefix="bouncer-"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    user = connections["default"].settings_dict["USER"] or "postgres"
    (folder / "users").write_text(f'"{user}" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n{database} = host=127.0.0.1 port={proxy.port} user={user}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\npool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n"
        "ignore_startup_parameters = extra_float_digits,options\n"
    )
    folder.chmod(0o755)
    words = [PROGRAM, str(folder / "ini")]
    if os.geteuid() == 0:  # it refuses to be run by root
        words[1:1] = ["-u", "nobody"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", port)) == 0

    eventually(answers)
    yield port
    process.kill()
    process.wait()
    shutil.rmtree(folder)


@pytest.fixture
def pooled(pooler, monkeypatch) -> None:
    """Have this process enqueue through the pooler too."""
    settings = connections["default"].settings_dict
    connections["default"].close()
    monkeypatch.setitem(settings, "HOST", "127.0.0.1")
    monkeypatch.setitem(settings, "PORT", str(pooler))


SETTINGS = {"prepared_statements": False, "poll_seconds": 0.5}


class TestTransactionMode:
    def test_a_listener_with_a_connection_of_its_own_is_woken_15_16(self, runjobs, pooler, pooled):
        worker = runjobs(
            "--poll-interval",
            "600",
            settings={**SETTINGS, "listen_database": "direct"},
            variables={"SCENARIO_PORT": str(pooler)},
        ).is_ready()

        assert usual(sorted(waits(tasks.quick.enqueue())[0] for _ in range(5))) < 1.0
        assert len(lock_holders()) == 1
        self.check_load(worker)

    def test_without_a_listener_jobs_are_found_by_polling_15_16(self, runjobs, pooler, pooled):
        worker = runjobs(
            settings={**SETTINGS, "notify": False}, variables={"SCENARIO_PORT": str(pooler)}
        ).is_ready(listening=False)

        self.check_load(worker)
        assert not lock_holders()

    def check_load(self, worker) -> None:
        """Run jobs of every kind, more at once than the pooler has sessions."""
        with transaction.atomic():
            results = [tasks.quick.enqueue(str(number)) for number in range(60)]
        results += [tasks.transfer.enqueue("effect") for _ in range(10)]
        results += [tasks.flaky.enqueue(1) for _ in range(5)]

        is_done(*results)

        assert len(marks("effect")) == 10
        assert not Job.objects.filter(state="RUNNING").exists()
        said = worker.said()
        assert "prepared statement" not in said
        assert "trying again" not in said
        eventually(
            lambda: (
                not rows(
                    "SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%'"
                    " AND datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        )

    def test_an_error_leaves_no_transaction_open_in_the_pool_16(self, runjobs, pooler, pooled):
        worker = runjobs(
            settings={**SETTINGS, "notify": False}, variables={"SCENARIO_PORT": str(pooler)}
        ).is_ready(listening=False)
        result = tasks.held.enqueue("open", end=False)
        begun("open")
        rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        runjobs.open("open")

        is_done(result)
        self.check_idle(worker)

    def check_idle(self, worker) -> None:
        is_done(*[tasks.quick.enqueue() for _ in range(10)])
        assert len(marks("begin", "open")) == 1
        assert worker.status is None

    def test_a_listener_that_goes_through_the_pooler_notices_and_says_what_to_do_15(
        self, runjobs, pooler, pooled
    ):
        worker = runjobs(settings=SETTINGS, variables={"SCENARIO_PORT": str(pooler)}).is_ready(
            listening=False
        )

        eventually(lambda: "notifications don't arrive" in worker.said(), 30)
        assert "listen_database" in worker.said()
        is_done(tasks.quick.enqueue())
        assert not rows("SELECT 1 FROM django_jobs_worker WHERE holds_lock")
