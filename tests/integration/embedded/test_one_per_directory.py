"""Never two servers on one data directory, whatever became of the first."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pillarbox.database.embedded import EmbeddedServer
from tests.embedded import (
    AS_ROOT,
    Supervisor,
    needs_root,
    query,
    refusal,
    serve_without_supervisor,
)


def test_a_second_start_is_refused_and_told_the_process_that_holds_the_directory(used_data_dir: Path) -> None:
    with Supervisor(used_data_dir) as other:
        _, url = other.wait_until_running()

        message = refusal(used_data_dir)

        assert f"process {other.process.pid}" in message
        assert "choose another data directory" in message
        assert query(url, "SELECT 1") == 1


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param((), id="plain"),
        # As in a container: root that may not look into other users' processes.
        pytest.param(("setpriv", "--bounding-set", "-sys_ptrace"), id="contained", marks=needs_root),
    ],
)
def test_a_server_that_lost_its_supervisor_is_stopped_before_another_starts(
    used_data_dir: Path, prefix: tuple[str, ...]
) -> None:
    if prefix and shutil.which(prefix[0]) is None:
        pytest.skip("needs setpriv")
    with serve_without_supervisor(used_data_dir) as orphan, Supervisor(used_data_dir, prefix) as next_run:
        _, url = next_run.wait_until_running()
        assert orphan.wait(5) == 0
        assert query(url, "SELECT answer FROM kept") == 42


def test_a_server_whose_pid_file_was_deleted_is_still_found_and_stopped(used_data_dir: Path) -> None:
    with serve_without_supervisor(used_data_dir) as orphan:
        (used_data_dir / "postgres" / "postmaster.pid").unlink()
        with EmbeddedServer.start(used_data_dir) as server:
            assert query(server.url, "SELECT 1") == 1
            orphan.wait(5)


def test_a_stale_pid_file_that_names_a_foreign_process_neither_blocks_nor_harms_it(
    used_data_dir: Path,
) -> None:
    cluster = used_data_dir / "postgres"
    owner = cluster.stat()
    # Of the server's own user: PostgreSQL itself gives way to such a one and refuses to start.
    with subprocess.Popen(["sleep", "60"], user=owner.st_uid if AS_ROOT else None) as foreign:
        pid_file = cluster / "postmaster.pid"
        pid_file.write_text(f"{foreign.pid}\n{cluster}\n1712346200\n15433\n\n127.0.0.1\n0 0\nready   \n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        with EmbeddedServer.start(used_data_dir) as server:
            assert query(server.url, "SELECT 1") == 1
        assert foreign.poll() is None
        foreign.kill()
