"""The board: what had begun in a process that died, as far as one can be sure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from django_jobs.worker import board
from django_jobs.worker.board import OLD_SECONDS, PLACES, Board, begun

OTHER_PROCESS = """
import os, sys, time
from pathlib import Path
from django_jobs.worker.board import Board
board = Board()
board.begin(1)
board.publish(Path(sys.argv[1]))
for job in (2, 3, 2**62):
    board.begin(job)
board.forget([2])
if sys.argv[2:] and os.fork() == 0:
    board.path.with_name("child").write_text(str(os.getpid()))
    print("ready", flush=True)
    time.sleep(60)
if not sys.argv[2:]:
    print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "django_jobs-1.board"


def started(path, *more):
    command = [sys.executable, "-c", OTHER_PROCESS, str(path), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"ready")
    return process


def kill(process):
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_killed_process_leaves_what_had_begun(path):
    kill(started(path))

    assert sorted(begun(path) or ()) == [1, 3, 2**62]


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGSTOP])
def test_a_process_that_lives_or_was_only_stopped_is_not_judged(path, number):
    process = started(path)
    process.send_signal(number)

    assert begun(path) is None
    kill(process)


def test_while_a_child_of_it_lives_nothing_is_sure(path):
    process = started(path, "and fork")
    kill(process)

    assert begun(path) is None
    os.kill(int(path.with_name("child").read_text()), signal.SIGKILL)


def test_a_board_that_is_closed_leaves_no_file(path):
    mine = Board()
    mine.publish(path)
    mine.begin(1)
    mine.close()
    mine.begin(2)
    mine.close()

    assert list(path.parent.iterdir()) == []
    assert begun(path) is None


def test_of_more_jobs_than_fit_nothing_is_sure(path):
    mine = Board()
    mine.publish(path)
    for job in range(1, PLACES + 2):
        mine.begin(job)
    for job in range(1, PLACES + 2):
        mine.forget([job])
    copy = path.with_name("copy.board")
    copy.write_bytes(path.read_bytes())
    mine.close()

    assert begun(copy) is None


def test_places_are_used_again(path):
    mine = Board()
    for job in range(1, 3 * PLACES):
        mine.begin(job)
        mine.forget([job])
    mine.begin(7)

    assert bytes(mine.memory).count(b"\7") == 1
    assert mine.memory[:8] == bytes(8)


@pytest.mark.parametrize("content", [b"", b"rubbish", bytes(8 * PLACES)])
def test_a_file_that_is_none_of_ours_is_not_believed(path, content):
    path.write_bytes(content)

    assert begun(path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_another_users_file_is_not_believed(path):
    kill(started(path))
    os.chown(path, 12345, -1)

    assert begun(path) is None


def test_a_link_is_not_followed(path, tmp_path):
    kill(started(tmp_path / "real"))
    path.symlink_to(tmp_path / "real")

    assert begun(path) is None


def test_without_a_folder_to_write_in_the_worker_goes_on(tmp_path):
    mine = Board()
    mine.publish(tmp_path / "missing" / "django_jobs-1.board")
    mine.begin(1)
    mine.forget([1])
    mine.close()


def test_old_boards_of_the_dead_are_swept_and_those_of_the_living_stay(path):
    dead, alive, young = (path.with_name(f"django_jobs-{name}.board") for name in ("dead", "alive", "young"))
    kill(started(dead))
    kill(started(young))
    process = started(alive)
    long_ago = time.time() - OLD_SECONDS - 1
    for old in (dead, alive):
        os.utime(old, (long_ago, long_ago))

    board.sweep(path.parent)

    assert set(path.parent.iterdir()) == {alive, young}
    kill(process)
