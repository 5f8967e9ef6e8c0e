"""Starting, stopping, and starting again on the same data directory."""

import asyncio
import socket
import stat
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest

from pillarbox.database.embedded import EmbeddedServer
from tests.embedded import (
    connect,
    in_child,
    query,
    refusal,
)


def test_a_restart_has_the_data_the_address_and_the_password_of_the_first_start(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server:
        assert server.is_running()
        first = server.url
        query(server.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert not server.is_running()
    assert not psutil.pid_exists(server.pid)

    with EmbeddedServer.start(data_dir) as server:
        assert server.url == first
        assert query(server.url, "SELECT answer FROM kept") == 42


def test_the_server_is_durable_and_listens_on_loopback_alone(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        shown = "current_setting('fsync') || current_setting('synchronous_commit')"
        assert query(server.url, f"SELECT {shown}") == "onon"
        listening = {c.laddr.ip for c in psutil.Process(server.pid).net_connections() if c.status == "LISTEN"}
        assert listening == {"127.0.0.1"}


def test_only_the_password_opens_and_only_for_a_role_without_superuser_rights(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        address = urlsplit(server.url)
        base = f"127.0.0.1:{address.port}/pillarbox"
        with pytest.raises(asyncpg.InvalidPasswordError):
            query(f"postgresql://pillarbox:wrong@{base}", "SELECT 1")
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
            query(f"postgresql://postgres:{address.password}@{base}", "SELECT 1")
        assert query(server.url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert stat.S_IMODE((used_data_dir / "postgres.password").stat().st_mode) == 0o600
    assert stat.S_IMODE((used_data_dir / "postgres").stat().st_mode) == 0o700


def test_a_port_taken_meanwhile_is_given_up_for_another(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        port = urlsplit(server.url).port
        assert port is not None
    with socket.create_server(("127.0.0.1", port)), EmbeddedServer.start(used_data_dir) as server:
        moved = urlsplit(server.url).port
        assert moved != port
        assert query(server.url, "SELECT 1") == 1
    with EmbeddedServer.start(used_data_dir) as server:
        assert urlsplit(server.url).port == moved


def test_a_lost_password_file_locks_nobody_out(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        old = server.url
    (used_data_dir / "postgres.password").unlink()

    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42
        with pytest.raises(asyncpg.InvalidPasswordError):
            query(old, "SELECT 1")


def test_a_grown_log_is_cut_to_its_newest_lines(used_data_dir: Path) -> None:
    log = used_data_dir / "postgres.log"
    log.write_text("old line\n" * 600_000 + "newest line\n")
    with EmbeddedServer.start(used_data_dir):
        pass
    assert log.stat().st_size < 1_000_000
    assert log.read_text().startswith("old line\n")
    assert "newest line\n" in log.read_text()


def test_stopping_twice_is_as_good_as_once_and_clients_do_not_hold_it_up(used_data_dir: Path) -> None:
    server = EmbeddedServer.start(used_data_dir)

    async def stop_while_a_client_sleeps() -> None:
        connection: Any = await connect(server.url)
        asleep: asyncio.Future[Any] = asyncio.ensure_future(connection.execute("SELECT pg_sleep(60)"))
        watcher: Any = await connect(server.url)
        running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
        while await watcher.fetchval(running) == 0:
            pass
        await asyncio.wait_for(asyncio.to_thread(server.stop), 2)
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await asleep

    asyncio.run(stop_while_a_client_sleeps())
    server.stop()
    assert not server.is_running()


def test_a_forked_child_that_ends_does_not_stop_the_server(used_data_dir: Path) -> None:
    with EmbeddedServer.start(used_data_dir) as server:
        in_child(server.stop)
        assert server.is_running()
        assert query(server.url, "SELECT 1") == 1


def test_starting_from_another_thread_is_refused_because_the_server_would_end_with_it(data_dir: Path) -> None:
    messages: list[str] = []
    thread = threading.Thread(target=lambda: messages.append(refusal(data_dir)))
    thread.start()
    thread.join()
    assert "start it from the main one" in messages[0]
