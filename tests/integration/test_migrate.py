"""Migrations: up, down, up again, several at once, and no drift from the tables in code."""

import asyncio

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from pillarbox.database.engine import Database
from pillarbox.database.lane import Lane
from pillarbox.database.metadata import metadata
from pillarbox.database.migrate import VERSION_TABLE, downgrade, is_current, is_ours, upgrade
from tests.outbox import OutboxBench

_OURS = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('accounts', 'notifications', 'queue', 'inbox')"


async def test_down_leaves_nothing_and_up_again_works(
    database: Database, lane: Lane, outbox: OutboxBench
) -> None:
    await outbox.fill(3)
    await downgrade(database.engine)
    assert (await lane.fetch(_OURS))[0][0] == 0
    assert not await is_current(database.engine)
    await upgrade(database.engine)
    assert await is_current(database.engine)
    await outbox.fill(3)
    assert len(await outbox.claim()) == 3


async def test_several_processes_may_migrate_at_once(database: Database, lane: Lane) -> None:
    await downgrade(database.engine)
    others = [Database(database.url) for _ in range(4)]
    await asyncio.gather(*(upgrade(other.engine) for other in others))
    for other in others:
        await other.aclose()
    assert await is_current(database.engine)


async def test_the_tables_in_code_and_in_the_database_do_not_drift(database: Database) -> None:
    async with database.engine.connect() as connection:
        difference = await connection.run_sync(
            lambda sync: compare_metadata(
                MigrationContext.configure(
                    sync,
                    opts={
                        "include_schemas": True,
                        "include_name": is_ours,
                        "version_table": VERSION_TABLE,
                        "compare_server_default": True,
                        "compare_type": True,
                    },
                ),
                metadata,
            )
        )
    assert difference == []
