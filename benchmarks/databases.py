"""Fresh databases on one embedded server with its default durability, for us and for each peer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from pillarbox.accounts.people import ensure_person
from pillarbox.database.engine import Database
from pillarbox.database.migrate import upgrade
from pillarbox.notifications.service import Draft, Target, send


@asynccontextmanager
async def fresh_database(server_url: str, name: str) -> AsyncGenerator[str]:
    """The URL of an empty database, dropped at the end."""
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


class Outbox:
    """Our own tables in a database of their own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url)
        self.lane = self.database.lane()

    async def __aenter__(self) -> "Outbox":
        await upgrade(self.database.engine)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.lane.discard()
        await self.database.aclose()

    async def drafts(self, count: int) -> list[Draft]:
        """Notifications to one person by mail."""
        async with self.database.session() as session:
            person = await ensure_person(session, name="Ada", email="ada@example.org")
        draft = Draft(
            person_id=person,
            type="system",
            title="Your export is ready",
            body="It can be fetched for seven days.",
            targets=(Target("email", "ada@example.org"),),
        )
        return [draft] * count

    async def send(self, drafts: list[Draft]) -> None:
        """One transaction."""
        async with self.database.session() as session:
            await send(session, drafts, budget=5)

    async def fill(self, count: int) -> None:
        """Exactly `count` due deliveries, the tables vacuumed and analysed."""
        await self.lane.fetch("TRUNCATE notifications.notifications CASCADE")
        await self.send(await self.drafts(count))
        for name in (
            "notifications.notification_deliveries",
            "notifications.notifications",
            "queue.depth_deltas",
        ):
            await self.lane.fetch(f"VACUUM ANALYZE {name}")

    async def sent(self) -> int:
        """Deliveries that were sent, counted one by one."""
        sql = "SELECT count(*) FROM notifications.notification_deliveries WHERE status = 'sent'"
        return (await self.lane.fetch(sql))[0][0]
