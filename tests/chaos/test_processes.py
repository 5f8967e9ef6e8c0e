"""Whole processes, killed, frozen and crowded: nothing lost, nothing doubled beyond what at-least-once allows."""

import asyncio
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from pillarbox.inbox.holds import Holds
from pillarbox.inbox.received import ReceivedMail
from pillarbox.inbox.smtp import InboxSmtpServer
from tests.outbox import OutboxBench
from tests.pooler import pgbouncer
from tests.processes import pillarbox


class MailServer:
    """A receiver that counts, and holds answers back on request."""

    def __init__(self) -> None:
        self.holds = Holds()
        self.received: Counter[object] = Counter()
        self.url = ""
        self._arrived = asyncio.Event()

    async def store(self, mail: ReceivedMail) -> None:
        self.received[mail.delivery_id] += 1
        self._arrived.set()

    async def until(self, total: int, seconds: float = 30) -> None:
        """Wait until this many mails have arrived, copies included."""
        async with asyncio.timeout(seconds):
            while self.received.total() < total:
                self._arrived.clear()
                await self._arrived.wait()


@asynccontextmanager
async def mail_server() -> AsyncIterator[MailServer]:
    mails = MailServer()
    server = InboxSmtpServer("127.0.0.1", 0, mails.store, holds=mails.holds)
    await server.start()
    mails.url = f"smtp://127.0.0.1:{server.port}"
    try:
        yield mails
    finally:
        await server.stop()


@pytest.fixture
async def mails() -> AsyncIterator[MailServer]:
    async with mail_server() as server:
        yield server


@pytest.fixture
def installation(database_url: str, mails: MailServer, tmp_path: Path) -> dict[str, object]:
    """Settings every process of one installation shares."""
    return {
        "DATABASE_URL": database_url,
        "PILLARBOX_SMTP_URL": mails.url,
        "PILLARBOX_DATA_DIR": tmp_path,
        "PILLARBOX_DELIVERY_TICK": 0.5,
    }


async def address(outbox: OutboxBench, *ids: object, to: str) -> None:
    await outbox.lane.fetch(
        "UPDATE notifications.notification_deliveries SET address = $2 WHERE id = ANY ($1)", list(ids), to
    )


async def test_four_processes_at_once_send_every_row_exactly_once(
    outbox: OutboxBench, mails: MailServer, installation: dict[str, object]
) -> None:
    ids = await outbox.fill(800)

    async def drain() -> int:
        async with pillarbox("drain", "--json", settings=installation) as process:
            assert await process.end() == 0
            return process.report()["sent"]

    sent = await asyncio.gather(*(drain() for _ in range(4)))
    assert sum(sent) == 800
    assert mails.received == Counter(ids)
    assert await outbox.counts() == {"sent": 800}


async def test_a_worker_killed_in_mid_send_loses_nothing(
    outbox: OutboxBench, mails: MailServer, installation: dict[str, object]
) -> None:
    ids = await outbox.fill(30)
    await address(outbox, ids[0], to="hold@example.org")
    async with pillarbox("worker", settings=installation) as worker:
        await mails.holds.arrival(ids[0])
        worker.send(signal.SIGKILL)
        assert await worker.end() == -signal.SIGKILL
    row = await outbox.row(ids[0])
    assert (row["status"], row["attempts"]) == ("processing", 1)
    async with pillarbox("drain", "--json", settings=installation) as early:
        await early.end()
        assert early.report()["reaped"] == 0, "within the lease nobody may take the row"
    await outbox.let_lease_lapse(*ids)
    async with pillarbox("drain", "--json", settings=installation) as later:
        await later.end()
        assert later.report()["reaped"] >= 1
    assert await outbox.counts() == {"sent": 30}
    assert set(mails.received) == set(ids)


async def test_a_frozen_worker_that_comes_back_late_changes_nothing(
    outbox: OutboxBench, mails: MailServer, installation: dict[str, object]
) -> None:
    (id_,) = await outbox.fill(1)
    await address(outbox, id_, to="hold@example.org")
    async with pillarbox("drain", "--json", settings=installation) as frozen:
        await mails.holds.arrival(id_)
        frozen.send(signal.SIGSTOP)
        await outbox.let_lease_lapse(id_)
        async with pillarbox("drain", "--json", settings=installation) as other:
            await other.end()
            assert (other.report()["reaped"], other.report()["sent"]) == (1, 1)
        before = await outbox.row(id_)
        mails.holds.release(id_)
        frozen.send(signal.SIGCONT)
        await frozen.end()
        assert (frozen.report()["sent"], frozen.report()["stale"]) == (0, 1)
    after = await outbox.row(id_)
    assert {**after, "wait": 0} == {**before, "wait": 0}
    assert mails.received[id_] == 2, "at-least-once: the receiver tells the copies apart by their key"


async def test_a_worker_told_to_stop_hands_back_what_it_holds(
    outbox: OutboxBench, mails: MailServer, installation: dict[str, object]
) -> None:
    ids = await outbox.fill(25)
    await address(outbox, *ids, to="hold@example.org")
    async with pillarbox("worker", settings=installation) as worker:
        await asyncio.gather(*(mails.holds.arrival(id_) for id_ in ids[:5]))
        assert await worker.end(signal.SIGTERM, seconds=10) == 0
    rows = [await outbox.row(id_) for id_ in ids]
    assert {row["status"] for row in rows} == {"pending"}
    assert {row["max_attempts"] - row["attempts"] for row in rows} == {5}


async def test_a_worker_wakes_for_rows_another_process_announces(
    outbox: OutboxBench, mails: MailServer, installation: dict[str, object]
) -> None:
    async with pillarbox("worker", settings=installation | {"PILLARBOX_DELIVERY_TICK": 3600}) as worker:
        await worker.said("worker ready")
        listening = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        async with asyncio.timeout(10):
            while not (await outbox.lane.fetch(listening))[0][0]:
                await asyncio.sleep(0.05)
        await outbox.fill(1)
        await outbox.lane.fetch("SELECT pg_notify('pillarbox_outbox', '')")
        await mails.until(1)


@pytest.mark.parametrize("kill", [False, True], ids=["restarted", "killed"])
async def test_a_worker_survives_the_loss_of_its_database(
    kill: bool, mails: MailServer, tmp_path: Path
) -> None:
    from pillarbox.database.embedded import EmbeddedServer
    from pillarbox.database.engine import Database
    from pillarbox.database.migrate import upgrade

    with tempfile.TemporaryDirectory(prefix="pillarbox-chaos-") as folder:
        server = EmbeddedServer.start(Path(folder))
        url = server.url
        database = Database(url)
        await upgrade(database.engine)
        outbox = OutboxBench(database, database.lane())
        settings = {
            "DATABASE_URL": url,
            "PILLARBOX_SMTP_URL": mails.url,
            "PILLARBOX_DATA_DIR": tmp_path,
            "PILLARBOX_DELIVERY_TICK": 0.3,
        }
        try:
            async with pillarbox("worker", settings=settings) as worker:
                await outbox.fill(5)
                await mails.until(5)
                if kill:
                    import os

                    os.kill(server.pid, signal.SIGKILL)
                server.stop()
                await worker.said("waits for the database")
                server = EmbeddedServer.start(Path(folder))
                assert server.url == url
                outbox.lane.discard()
                await database.engine.dispose()
                await outbox.fill(5)
                await mails.until(10)
                assert worker.exit_code is None
        finally:
            outbox.lane.discard()
            await database.aclose()
            server.stop()


async def test_random_kills_while_draining_lose_nothing_and_double_only_what_was_cut(
    outbox: OutboxBench, mails: MailServer, installation: dict[str, object]
) -> None:
    ids = await outbox.fill(600)
    kills = 0
    while (await outbox.counts()).get("pending", 0) > 100:
        before = mails.received.total()
        async with pillarbox("worker", settings=installation) as worker:
            await mails.until(before + 90)
            await worker.end(signal.SIGKILL)
            kills += 1
    await outbox.let_lease_lapse(*ids)
    async with pillarbox("drain", settings=installation) as last:
        assert await last.end() == 0
    assert kills >= 3
    assert await outbox.counts() == {"sent": 600}
    assert set(mails.received) == set(ids)
    doubled = sum(count - 1 for count in mails.received.values())
    assert doubled <= kills * (5 + 100), "only what was sent and not yet settled may come twice"


async def test_a_worker_behind_a_pooler_without_a_direct_url_works_and_stops(
    outbox: OutboxBench, mails: MailServer, installation: dict[str, object], database_url: str
) -> None:
    async with pgbouncer(database_url) as pooled_url:
        pooled = {"DATABASE_URL": pooled_url, "PILLARBOX_DATABASE_POOLED": "true"}
        async with pillarbox("worker", settings=installation | pooled) as worker:
            await worker.said("worker ready")
            await outbox.fill(5)
            await mails.until(5)
            assert await worker.end(signal.SIGTERM, seconds=10) == 0


async def test_a_schema_that_is_not_there_is_one_clear_line(server_url: str, tmp_path: Path) -> None:
    connection = await asyncpg.connect(server_url)
    await connection.execute("CREATE DATABASE bare")
    await connection.close()
    bare = server_url.rpartition("/")[0] + "/bare"
    async with pillarbox("worker", settings={"DATABASE_URL": bare, "PILLARBOX_DATA_DIR": tmp_path}) as worker:
        assert await worker.end() == 1
        assert worker.errors == [
            "Error: the database is not at this version's schema; run `pillarbox migrate` first"
        ]


async def test_a_database_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    settings = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "PILLARBOX_DATA_DIR": tmp_path}
    for command in ("serve", "worker", "drain", "migrate"):
        async with pillarbox(command, settings=settings | {"PILLARBOX_PORT": 0}) as process:
            assert await process.end() == 1
            assert len(process.errors) == 1, process.errors
            assert process.errors[0].startswith("Error: ")
