"""Damaged, foreign and starved data directories: one line that says what to do."""

import os
import resource
import shutil
import signal
from pathlib import Path

from pillarbox.database.embedded import EmbeddedServer
from tests.embedded import (
    in_child,
    needs_root,
    query,
    refusal,
)


def test_a_truncated_control_file_is_called_damage(used_data_dir: Path) -> None:
    os.truncate(used_data_dir / "postgres" / "global" / "pg_control", 0)

    message = refusal(used_data_dir)

    assert "is damaged: restore the folder from a backup" in message
    assert "pg_control" in message
    assert str(used_data_dir / "postgres.log") in message


def test_damage_that_only_shows_when_the_application_enters_is_found_at_start(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        oid = query(server.url, "SELECT oid FROM pg_database WHERE datname = 'pillarbox'")
    (used_data_dir / "postgres" / "base" / str(oid) / "pg_filenode.map").unlink()

    assert "is damaged: restore the folder from a backup" in refusal(used_data_dir)
    assert not (used_data_dir / "postgres" / "postmaster.pid").exists()


def test_a_database_of_another_major_version_is_named_with_both_versions(used_data_dir: Path) -> None:
    (used_data_dir / "postgres" / "PG_VERSION").write_text("14\n")

    message = refusal(used_data_dir)

    assert "made by PostgreSQL 14" in message
    assert "brings PostgreSQL 18" in message


def test_a_folder_with_other_files_in_it_is_not_taken_over(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    (data_dir / "postgres" / "letters.txt").write_text("mine")

    assert "no PostgreSQL database" in refusal(data_dir)
    assert (data_dir / "postgres" / "letters.txt").read_text() == "mine"


def test_a_data_directory_that_is_a_file_is_refused(data_dir: Path) -> None:
    data_dir.write_text("mine")

    assert "choose another data directory" in refusal(data_dir)
    assert data_dir.read_text() == "mine"


def names_in(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.iterdir()}


def fill(disk: Path, leave_bytes: int = 0) -> Path:
    ballast = disk / "ballast"
    size = shutil.disk_usage(disk).free - leave_bytes
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return ballast


@needs_root
def test_a_first_start_on_a_full_disk_says_so_and_leaves_nothing_half_made(tiny_disk: Path) -> None:
    ballast = fill(tiny_disk, leave_bytes=20 * 1024 * 1024)

    assert "is full: free some space and start again" in refusal(tiny_disk)

    assert names_in(tiny_disk) <= {"ballast", "pillarbox.lock"}
    ballast.unlink()
    with EmbeddedServer.start(tiny_disk) as server:
        assert query(server.url, "SELECT 1") == 1


@needs_root
def test_a_later_start_on_a_full_disk_says_so_and_loses_nothing(tiny_disk: Path) -> None:
    with EmbeddedServer.start(tiny_disk) as server:
        query(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    ballast = fill(tiny_disk)

    assert "is full: free some space and start again" in refusal(tiny_disk)

    ballast.unlink()
    with EmbeddedServer.start(tiny_disk) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42


def test_a_file_size_limit_that_stops_the_first_start_is_named(data_dir: Path) -> None:
    def start_with_small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 1024 * 1024, 4 * 1024 * 1024))
        EmbeddedServer.start(data_dir).stop()

    message = in_child(start_with_small_files)

    assert message.startswith("EmbeddedServerError: ")
    assert "ulimit -f" in message
    assert not (data_dir / "postgres").exists()
    assert not list(data_dir.glob("postgres.new-*"))
