"""One holder a directory, and the operating system as its witness."""

import os
import signal
from pathlib import Path

import pytest

from pillarbox.database.directory_lock import DirectoryInUseError, DirectoryLock


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path / "lock")
    with pytest.raises(DirectoryInUseError) as refused:
        DirectoryLock(tmp_path / "lock")
    assert refused.value.pid == os.getpid()

    first.release()
    DirectoryLock(tmp_path / "lock").release()


def test_a_number_left_by_a_dead_holder_does_not_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")

    DirectoryLock(tmp_path / "lock").release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_outlives_its_killed_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    alive, report = os.pipe()
    until, let_go = os.pipe()
    holder = os.fork()
    if holder == 0:
        lock = DirectoryLock(tmp_path / "lock")
        if os.fork() == 0:
            os.close(let_go)
            os.write(report, b".")
            os.read(until, 1)
            os._exit(0)
        signal.pause()
        lock.release()
    try:
        assert os.read(alive, 1) == b"."
        with pytest.raises(DirectoryInUseError):
            DirectoryLock(tmp_path / "lock")
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)

        DirectoryLock(tmp_path / "lock").release()
    finally:
        for descriptor in (alive, report, until, let_go):
            os.close(descriptor)
