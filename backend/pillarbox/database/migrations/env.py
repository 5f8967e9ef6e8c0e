"""Alembic's entry: migrates on the connection it is handed, never on one of its own."""

from alembic import context

from pillarbox.database.metadata import metadata
from pillarbox.database.migrate import VERSION_TABLE, is_ours

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    include_schemas=True,
    include_name=is_ours,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
