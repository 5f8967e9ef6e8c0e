"""Liveness and readiness for whoever restarts or routes to this process."""

from http import HTTPStatus
from typing import Literal

import msgspec
from litestar import Controller, get
from sqlalchemy import text

from pillarbox.database.engine import Database
from pillarbox.problems import documented


class Health(msgspec.Struct, frozen=True):
    """The process is well in the sense asked for."""

    status: Literal["live", "ready"]


class HealthController(Controller):
    """`/health`."""

    path = "/health"
    tags = ("health",)

    @get("/live", operation_id="readLiveness", sync_to_thread=False)
    def live(self) -> Health:
        """The process answers."""
        return Health("live")

    @get("/ready", operation_id="readReadiness", responses=documented(HTTPStatus.SERVICE_UNAVAILABLE))
    async def ready(self, database: Database) -> Health:
        """The process can do its work: its database answers."""
        async with database.session() as session:
            await session.execute(text("SELECT 1"))
        return Health("ready")
