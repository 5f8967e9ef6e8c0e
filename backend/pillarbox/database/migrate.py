"""Brings a database to the newest schema, or back; safe to call from several processes at once."""

from pathlib import Path

from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

VERSION_TABLE = "pillarbox_migrations"

OWN_SCHEMAS = frozenset({"accounts", "notifications", "queue", "inbox"})

# Any constant of our own: whoever migrates the same database waits for the one who came first.
_LOCK_KEY = 0x50494C4C


async def upgrade(engine: AsyncEngine, revision: str = "head") -> None:
    """Migrate up to `revision`, everything in one transaction."""
    async with engine.begin() as connection:
        await connection.run_sync(_upgrade, revision)


async def downgrade(engine: AsyncEngine, revision: str = "base") -> None:
    """Migrate down to `revision`, everything in one transaction."""
    async with engine.begin() as connection:
        await connection.run_sync(_downgrade, revision)


async def is_current(engine: AsyncEngine) -> bool:
    """Whether the database has the newest schema."""
    async with engine.connect() as connection:
        return await connection.run_sync(_is_current)


def run_script(sql: str) -> None:
    """Run a migration's SQL, many statements at once, inside its transaction."""
    connection = op.get_bind()
    # The first statement through SQLAlchemy opens the transaction; what goes past it does not.
    connection.exec_driver_sql("SELECT 1")
    adapted = connection.connection.dbapi_connection
    assert adapted is not None
    adapted.run_async(lambda driver: driver.execute(sql))


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether autogenerate may look at it: a database can be shared with the application it serves."""
    return name in OWN_SCHEMAS if kind == "schema" else True


def configuration(connection: Connection) -> Config:
    """Alembic's configuration, bound to an open connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection, revision: str) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    command.upgrade(configuration(connection), revision)


def _downgrade(connection: Connection, revision: str) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    command.downgrade(configuration(connection), revision)


def _is_current(connection: Connection) -> bool:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    heads = ScriptDirectory.from_config(configuration(connection)).get_heads()
    return set(context.get_current_heads()) == set(heads)
