"""One connection kept for many statements, with a deadline around each and no second chance."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg

from pillarbox.errors import PillarboxError

Connect = Callable[[], Coroutine[Any, Any, asyncpg.Connection]]

# InternalClientError: a connection that broke in the middle of an exchange leaves asyncpg's protocol in a
# state it then complains of.
_CONNECTION_LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


class DatabaseUnreachableError(PillarboxError):
    """The database refused, broke off or did not answer in time; the statement may or may not have run."""


class Lane:
    """Runs single statements, each its own transaction, on a connection of its own.

    Whatever goes wrong with the connection — an error of the wire, a deadline passed, a caller
    cancelled — it is thrown away without a farewell, since a peer that has gone silent would never answer
    one; the next statement opens another. Not for concurrent use: one statement at a time.
    """

    def __init__(self, connect: Connect, deadline_seconds: float) -> None:
        self._connect = connect
        self._deadline_seconds = deadline_seconds
        self._connection: asyncpg.Connection | None = None

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """Run one statement and answer its rows.

        Raises:
            DatabaseUnreachableError: no answer within the deadline, or no connection to ask on.
            asyncpg.PostgresError: the server answered with an error.
            ValueError: an argument cannot be encoded.
        """
        try:
            async with asyncio.timeout(self._deadline_seconds):
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._connect()
                return await self._connection.fetch(sql, *arguments)
        except TimeoutError as error:
            self.discard()
            raise DatabaseUnreachableError(
                f"the database did not answer within {self._deadline_seconds:g} s"
            ) from error
        except ValueError:
            # An argument that cannot be encoded, also where asyncpg makes it an InterfaceError.
            raise
        except _CONNECTION_LOST as error:
            self.discard()
            raise DatabaseUnreachableError(f"the database cannot be reached: {error}") from error
        except asyncpg.PostgresError:
            raise
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Drop the connection at once; the next statement opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def __aenter__(self) -> "Lane":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.discard()
