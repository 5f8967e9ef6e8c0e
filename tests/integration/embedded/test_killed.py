"""Supervisor and server killed at the worst moments."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from pillarbox.database.embedded import EmbeddedServer
from tests.embedded import (
    Supervisor,
    connect,
    has_ended,
    on_linux,
    query,
)


@on_linux
def test_a_killed_supervisor_takes_the_server_with_it_and_the_data_survives(used_data_dir: Path) -> None:
    with Supervisor(used_data_dir) as doomed:
        postmaster, _ = doomed.wait_until_running()
        doomed.kill()
        postmaster.wait(5)

    with EmbeddedServer.start(used_data_dir) as server:
        assert query(server.url, "SELECT answer FROM kept") == 42


def test_a_server_killed_under_its_application_is_seen_as_down_and_recovers_at_the_next_start(
    used_data_dir: Path,
) -> None:
    server = EmbeddedServer.start(used_data_dir)
    query(server.url, "INSERT INTO kept VALUES (43)")
    postmaster = psutil.Process(server.pid)
    os.kill(server.pid, signal.SIGKILL)
    postmaster.wait(5)
    assert not server.is_running()
    server.stop()

    with EmbeddedServer.start(used_data_dir) as recovered:
        assert query(recovered.url, "SELECT sum(answer) FROM kept") == 85


def test_backends_that_outlive_a_killed_server_and_supervisor_do_not_block_the_next_start(
    used_data_dir: Path,
) -> None:
    async def leave_a_busy_backend_behind(
        url: str, supervisor: Supervisor, postmaster: psutil.Process
    ) -> None:
        busy: Any = await connect(url)
        backend = psutil.Process(await busy.fetchval("SELECT pg_backend_pid()"))
        # While it computes, a backend does not look whether its postmaster lives.
        endless = "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000000) b"
        computing: asyncio.Future[Any] = asyncio.ensure_future(busy.execute(endless))
        watcher: Any = await connect(url)
        active = "SELECT state = 'active' FROM pg_stat_activity WHERE pid = $1"
        while not await watcher.fetchval(active, backend.pid):
            pass
        postmaster.kill()
        supervisor.kill()
        postmaster.wait(5)
        assert not has_ended(backend)

        with EmbeddedServer.start(used_data_dir) as server:
            assert has_ended(backend)
            fresh: Any = await connect(server.url)
            assert await fresh.fetchval("SELECT answer FROM kept") == 42
            await fresh.close()
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await computing
        watcher.terminate()

    with Supervisor(used_data_dir) as doomed:
        postmaster, url = doomed.wait_until_running()
        asyncio.run(leave_a_busy_backend_behind(url, doomed, postmaster))


def test_a_first_start_killed_half_way_leaves_nothing_that_passes_for_whole(data_dir: Path) -> None:
    with Supervisor(data_dir) as doomed:
        while not list(data_dir.glob("postgres.new-*/PG_VERSION")):
            assert doomed.process.poll() is None
        doomed.kill()
    assert not (data_dir / "postgres").exists()

    with EmbeddedServer.start(data_dir) as server:
        assert query(server.url, "SELECT 1") == 1
    assert not list(data_dir.glob("postgres.new-*"))
