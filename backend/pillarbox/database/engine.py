"""How this process reaches PostgreSQL: sessions for services, lanes for the queue core."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
from sqlalchemy import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from pillarbox.database.lane import Lane

_CLOSE_SECONDS = 1.0


class Database:
    """The one place that knows how to connect.

    Behind a pooler in transaction mode (`pooled`) nothing that outlives a transaction is used: no
    cached prepared statements, no LISTEN; a `direct_url` past the pooler brings the wake-ups back.
    """

    def __init__(
        self,
        url: str,
        *,
        direct_url: str | None = None,
        pooled: bool = False,
        pool_size: int = 10,
        deadline_seconds: float = 10.0,
    ) -> None:
        self.url = _plain(url)
        self.pooled = pooled
        self.deadline_seconds = deadline_seconds
        self._direct_url = _plain(direct_url) if direct_url else (None if pooled else self.url)
        self.engine = _engine(self.url, pooled=pooled, pool_size=pool_size, deadline_seconds=deadline_seconds)
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False)

    @property
    def listens(self) -> bool:
        """Whether wake-ups can arrive: a connection that is one session from end to end exists."""
        return self._direct_url is not None

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncSession]:
        """A session in a transaction of its own, committed at the end, rolled back on any error."""
        async with self._sessions.begin() as session:
            yield session

    def lane(self) -> Lane:
        """A connection outside the pool for single statements of the queue core."""
        return Lane(self._connect, self.deadline_seconds)

    async def connect_direct(self) -> asyncpg.Connection:
        """A connection past any pooler, for LISTEN.

        Raises:
            RuntimeError: there is none; ask `listens` first.
        """
        if self._direct_url is None:
            raise RuntimeError("behind a pooler and without a direct URL nothing can be listened to")
        return await _connect(self._direct_url, self.deadline_seconds)

    async def aclose(self) -> None:
        """Close the pool; a server that has gone silent is not waited for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.engine.dispose()

    async def _connect(self) -> asyncpg.Connection:
        # A kept statement keeps its plan, made for the table as it was: the plan for an empty queue reads the
        # whole of a full one, a hundred times slower, until something analyses the table. So for a second.
        cache = {"statement_cache_size": 0} if self.pooled else {"max_cached_statement_lifetime": 1}
        return await _connect(self.url, self.deadline_seconds, **cache)


async def _connect(url: str, timeout_seconds: float, **options: Any) -> asyncpg.Connection:
    return await asyncpg.connect(url, timeout=timeout_seconds, **options)  # pyright: ignore[reportArgumentType]


def _engine(url: str, *, pooled: bool, pool_size: int, deadline_seconds: float) -> AsyncEngine:
    arguments: dict[str, object] = {"timeout": deadline_seconds, "command_timeout": deadline_seconds}
    if pooled:
        arguments |= {
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            # Two clients of one pooler meet on the same server connection, so names must not repeat.
            "prepared_statement_name_func": lambda: f"__{uuid4()}__",
        }
    return create_async_engine(
        sqlalchemy_url(url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=deadline_seconds,
        pool_pre_ping=True,
        connect_args=arguments,
    )


def sqlalchemy_url(url: str) -> URL:
    """The same address in SQLAlchemy's notation, with asyncpg's names for libpq's parameters."""
    parsed = make_url(_plain(url)).set(drivername="postgresql+asyncpg")
    query = dict(parsed.query)
    if "sslmode" in query:
        query["ssl"] = query.pop("sslmode")
    return parsed.set(query=query)


def _plain(url: str) -> str:
    parts = urlsplit(url)
    # channel_binding is libpq's own; managed services put it into the URLs they hand out.
    query = [(key, value) for key, value in parse_qsl(parts.query) if key != "channel_binding"]
    return urlunsplit(parts._replace(scheme="postgresql", query=urlencode(query)))
