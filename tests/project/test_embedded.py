"""The PostgreSQL server that comes with the project's environment."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from example_project.embedded import EmbeddedServerError, binaries, database_url, example, for_tests, join
from example_project.embedded.server import LONGEST_SOCKET_PATH, secure
from tests.eventually import eventually
from tests.project.conftest import (
    CHECKOUT,
    STAY,
    address_of,
    is_alive,
    modes,
    pid_of,
    program_of,
    watchdog_of,
)

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
only_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a child of its parent's end"
)


def query(address: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


class TestStart:
    def test_a_first_command_has_its_server_within_five_seconds(self, cold_place):
        def seconds_of_a_first_start() -> float:
            cold_place.clear()
            started = time.monotonic()
            address_of(cold_place.user())
            return time.monotonic() - started

        # One try in three may meet a busy machine: on an idle one it takes a second and a half.
        assert any(seconds_of_a_first_start() < 5 for _ in range(3))

    def test_commands_that_start_at_once_share_one_server(self, place):
        commands = [place.user() for _ in range(4)]

        addresses = {address_of(command) for command in commands}

        assert addresses == {place.server.url}
        started = "starting PostgreSQL"
        assert place.server.log.read_text().count(started) == 1

    def test_servers_of_two_checkouts_that_start_at_once_are_apart(self, cold_place):
        join_other = STAY.replace(
            "embedded.database_url()", "(embedded.join(s := embedded.example('/elsewhere')), s.url)[1]"
        )
        ours, theirs = cold_place.user(), cold_place.python(join_other)

        assert address_of(ours) != address_of(theirs)
        assert pid_of(cold_place.server.folder) != pid_of(example(Path("/elsewhere")).folder)

    @pytest.mark.parametrize("version", [16, 18])
    def test_the_version_is_the_one_asked_for(self, place, version):
        address = address_of(place.user(DJANGO_JOBS_PG=str(version)))

        assert str(query(address, "SHOW server_version")[0][0]).startswith(f"{version}.")
        assert query(address, "SHOW server_encoding") == [("UTF8",)]

    def test_another_version_is_refused_with_those_that_are_there(self, cold_place, monkeypatch):
        monkeypatch.setenv("DJANGO_JOBS_PG", "9.6")

        with pytest.raises(EmbeddedServerError, match=r"'9\.6'.*only: 16, 18"):
            database_url()

    def test_with_database_url_nothing_is_started(self, cold_place, monkeypatch):
        monkeypatch.setenv("DATABASE_URL", "postgresql://somebody@elsewhere/name")

        assert database_url() == "postgresql://somebody@elsewhere/name"
        assert not cold_place.base.exists()

    def test_settings_and_commands_without_a_query_start_nothing(self, cold_place):
        cold_place.run(
            "from django.core.management import execute_from_command_line as run;"
            "run(['manage.py', 'help', 'migrate']); run(['manage.py', 'check'])",
            DJANGO_SETTINGS_MODULE="example_project.settings",
        )

        assert not cold_place.base.exists()

    def test_the_first_query_through_django_starts_it(self, place):
        shown = place.run(
            "from django.db import connection as made;"
            "made.ensure_connection(); print(made.vendor, made.settings_dict['HOST'])",
            DJANGO_SETTINGS_MODULE="example_project.settings",
        )

        assert shown == f"postgresql {place.server.sockets}"

    def test_a_failed_start_shows_the_log_and_what_to_do(self, place):
        place.run("from example_project import embedded; embedded.database_url()")
        eventually(lambda: not (place.server.data / "postmaster.pid").exists())
        with (place.server.data / "postgresql.conf").open("a") as settings:
            settings.write("no_such_setting = 1\n")

        failed = place.user()

        message = failed.communicate(timeout=60)[1]
        assert failed.returncode == 1
        assert 'unrecognized configuration parameter "no_such_setting"' in message
        assert f"delete {place.server.folder}" in message
        assert "DATABASE_URL" in message

    def test_without_the_wheel_the_error_says_what_to_install(self, cold_place, monkeypatch):
        monkeypatch.setattr(binaries, "PACKAGE", "no_such_package")

        with pytest.raises(EmbeddedServerError, match=r"pip install '\.\[demo\]'.*DATABASE_URL"):
            database_url()


class TestEnd:
    @pytest.mark.parametrize("end", ["leaves", "is killed"])
    def test_it_ends_when_its_last_user(self, place, end):
        first, last = place.user(), place.user()
        address_of(first), address_of(last)
        server, watchdog = pid_of(place.server.folder), watchdog_of(place.server.folder)
        first.kill()

        last.kill() if end == "is killed" else last.communicate()

        eventually(lambda: not is_alive(server) and not is_alive(watchdog))

    def test_it_stays_while_one_user_does(self, place):
        first, last = place.user(), place.user()
        address_of(first)
        address = address_of(last)
        server = pid_of(place.server.folder)
        first.kill()
        first.wait()
        third = place.user()
        address_of(third)
        third.communicate()

        assert query(address, "SELECT 1") == [(1,)]
        assert pid_of(place.server.folder) == server

    def test_a_fork_keeps_it_when_its_parent_is_killed(self, place):
        parent = place.python(
            "import os, sys\n"
            "from example_project import embedded\n"
            "address = embedded.database_url()\n"
            "if os.fork() == 0:\n"
            "    print(address, os.getpid(), flush=True)\n"
            "sys.stdin.read()\n"
        )
        address, child = address_of(parent).rsplit(" ", 1)
        server = pid_of(place.server.folder)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        try:
            # A newcomer that comes and goes would find it gone, or let the watchdog see that nobody is left.
            place.run("from example_project import embedded; embedded.database_url()")
            assert query(address, "SELECT 1") == [(1,)]
            assert is_alive(int(child))
        finally:
            os.kill(int(child), signal.SIGKILL)

        eventually(lambda: not is_alive(server))

    def test_ctrl_c_in_the_terminal_does_not_reach_it(self, place):
        user = place.user()
        address_of(user)

        assert os.getsid(pid_of(place.server.folder)) != os.getsid(user.pid)
        assert os.getpgid(pid_of(place.server.folder)) != os.getpgid(user.pid)

    @only_linux
    def test_it_ends_with_its_watchdog(self, place):
        user = place.user()
        address_of(user)
        server = pid_of(place.server.folder)

        os.kill(watchdog_of(place.server.folder), signal.SIGKILL)

        eventually(lambda: not is_alive(server))

    def test_a_user_finds_it_again_after_its_watchdog_was_killed(self, place):
        user = place.user()
        address = address_of(user)
        query(address, "CREATE TABLE kept (id int)")
        os.kill(watchdog_of(place.server.folder), signal.SIGKILL)

        again = address_of(place.user())

        assert query(again, "SELECT count(*) FROM kept") == [(0,)]

    def test_a_server_that_outlived_its_watchdog_is_replaced(self, place):
        user = place.user()
        address_of(user)
        old, watchdog = pid_of(place.server.folder), watchdog_of(place.server.folder)
        os.kill(old, signal.SIGSTOP)  # it can't end, though the kernel tells it to
        os.kill(watchdog, signal.SIGKILL)
        newcomer = place.user()
        eventually(lambda: "outlived its watchdog" in place.server.log_tail())
        os.kill(old, signal.SIGCONT)

        assert query(address_of(newcomer), "SELECT 1") == [(1,)]
        assert not is_alive(old)
        assert pid_of(place.server.folder) != old

    def test_all_killed_at_once_the_next_start_recovers(self, place):
        user = place.user()
        address = address_of(user)
        query(address, "CREATE TABLE kept (id int)")
        server, watchdog = pid_of(place.server.folder), watchdog_of(place.server.folder)
        for pid in (watchdog, server, user.pid):
            os.kill(pid, signal.SIGKILL)
        assert (place.server.data / "postmaster.pid").exists()

        assert query(address_of(place.user()), "SELECT count(*) FROM kept") == [(0,)]

    def test_a_pid_file_that_names_a_strangers_process_does_not_stop_the_start(self, place):
        user = place.user()
        address_of(user)
        server, watchdog = pid_of(place.server.folder), watchdog_of(place.server.folder)
        for pid in (watchdog, server, user.pid):
            os.kill(pid, signal.SIGKILL)
        pid_file = place.server.data / "postmaster.pid"
        pid_file.write_text(pid_file.read_text().replace(str(server), str(os.getpid()), 1))

        assert query(address_of(place.user()), "SELECT 1") == [(1,)]


class TestData:
    def test_the_examples_data_stays_between_commands(self, place):
        first = place.user()
        query(address_of(first), "CREATE TABLE kept (id int)")
        server = pid_of(place.server.folder)
        first.communicate()
        eventually(lambda: not is_alive(server))

        assert query(address_of(place.user()), "SELECT count(*) FROM kept") == [(0,)]

    def test_the_examples_data_is_safe_from_a_power_cut(self, place):
        address = address_of(place.user())

        assert query(address, "SHOW fsync") == [("on",)]

    def test_the_data_of_a_test_run_goes_with_its_last_process(self, place):
        place.run("from example_project import embedded; embedded.join(embedded.for_tests('run'))")

        eventually(lambda: not list(place.base.glob("*-trun*")))

    def test_what_a_killed_test_run_left_is_swept_by_the_next(self, place):
        stay = "import sys; from example_project import embedded; embedded.join(embedded.for_tests('{}'));"
        stay += "print('joined', flush=True); sys.stdin.read()"
        killed = place.python(stay.format("first"))
        address_of(killed)
        first = for_tests("first")
        os.kill(watchdog_of(first.folder), signal.SIGKILL)
        killed.kill()

        address_of(place.python(stay.format("next")))

        assert not first.folder.exists()
        assert for_tests("next").folder.exists()

    def test_deleted_data_is_made_anew(self, place):
        address_of(place.user())
        old = pid_of(place.server.folder)
        shutil.rmtree(place.server.data)

        assert query(address_of(place.user()), "SELECT 1") == [(1,)]
        eventually(lambda: not is_alive(old))

    def test_an_unfinished_cluster_is_made_anew(self, place):
        server = place.server
        secure(server.base)
        secure(server.folder)
        server.data.mkdir()
        (server.data / "PG_VERSION").write_text("18\n")

        assert query(address_of(place.user()), "SELECT 1") == [(1,)]

    def test_the_last_start_makes_all_its_files_young(self, place):
        """Whatever clears old files from the temporary folder takes the data whole or not at all."""
        server = place.server
        place.run("from example_project import embedded; embedded.database_url()")
        eventually(lambda: not (server.data / "postmaster.pid").exists())
        old = server.data / "PG_VERSION"
        os.utime(old, (0, 0))

        address_of(place.user())

        assert old.stat().st_mtime > time.time() - 3600


class TestSafety:
    def test_no_permission_is_changed_outside_the_servers_folder(self, cold_place):
        wheel = binaries.installed(18).parent
        outside = [cold_place.folder, *cold_place.folder.parents, *wheel.parents, *wheel.rglob("*"), CHECKOUT]
        before = modes(outside)

        address_of(cold_place.user())

        assert modes(outside) == before

    def test_the_wheels_own_code_is_not_loaded(self, place):
        loaded = place.run(
            "import sys; from example_project import embedded; embedded.database_url();"
            "print(sorted(name for name in sys.modules if 'pgserver' in name))"
        )

        assert loaded == "[]"

    def test_only_the_servers_user_can_reach_its_socket_and_its_data(self, place):
        address = address_of(place.user())

        for folder in (place.server.sockets, place.server.data):
            assert folder.stat().st_mode & 0o777 == 0o700
        assert query(address, "SHOW listen_addresses") == [("",)]

    @only_root
    def test_another_local_user_is_kept_out(self, place):
        address_of(place.user())
        socket = place.server.sockets / ".s.PGSQL.5432"

        with pytest.raises(AssertionError, match="Permission denied"):
            place.run(
                "import os, socket; os.setgroups([]); os.setgid(12345); os.setuid(12345);"
                f"socket.socket(socket.AF_UNIX).connect({str(socket)!r})"
            )

    @only_root
    def test_roots_server_runs_as_an_unprivileged_user_from_a_copy(self, cold_place):
        address_of(cold_place.user())

        assert cold_place.server.data.stat().st_uid != 0
        (copy,) = cold_place.base.glob("postgresql-*")
        assert program_of(pid_of(cold_place.server.folder)).startswith(f"{copy}/")
        for path in (copy, *copy.rglob("*")):
            assert path.stat().st_uid == 0
            assert path.stat().st_mode & 0o022 == 0

    @only_root
    def test_a_copy_that_was_not_finished_is_made_again(self, cold_place):
        secure(cold_place.base)
        secure(cold_place.base / "copy.unfinished")
        (cold_place.base / "copy.unfinished" / "half").touch()

        assert query(address_of(cold_place.user()), "SELECT 1") == [(1,)]
        assert not (cold_place.base / "copy.unfinished").exists()

    @pytest.mark.parametrize("trap", ["a link", "writable by others", "a file"])
    def test_a_folder_that_others_could_have_prepared_is_refused(self, cold_place, trap):
        if trap == "a link":
            (cold_place.folder / "theirs").mkdir()
            cold_place.base.symlink_to(cold_place.folder / "theirs")
        elif trap == "a file":
            cold_place.base.touch()
        else:
            cold_place.base.mkdir()
            cold_place.base.chmod(0o777)

        with pytest.raises(EmbeddedServerError, match=r"only you .* can write.*Remove it, or set TMPDIR"):
            join(cold_place.server)

    @only_root
    def test_a_folder_that_belongs_to_another_user_is_refused(self, cold_place):
        cold_place.base.mkdir()
        os.chown(cold_place.base, 12345, 12345)

        with pytest.raises(EmbeddedServerError, match="it has owner 12345"):
            join(cold_place.server)

    def test_a_temporary_folder_with_a_long_path_is_passed_over(self, cold_place, monkeypatch):
        deep = cold_place.folder / ("long" * 25)
        deep.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(deep))

        socket = example().sockets / ".s.PGSQL.5432"

        assert deep not in socket.parents
        assert len(os.fsencode(socket)) <= LONGEST_SOCKET_PATH

    @only_root
    def test_a_temporary_folder_closed_to_the_servers_user_is_passed_over(self, cold_place, monkeypatch):
        closed = cold_place.folder / "closed"
        closed.mkdir(mode=0o700)
        monkeypatch.setattr(tempfile, "tempdir", str(closed))

        assert closed not in example().base.parents
