"""A real PostgreSQL for every test that asks: one server a run, one database a test, copied from a template."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from pillarbox.database.embedded import EmbeddedServer
from pillarbox.database.engine import Database
from pillarbox.database.lane import Lane
from pillarbox.database.migrate import upgrade
from pillarbox.queue.drain import Drain
from tests.outbox import OutboxBench

_numbers = count(1)


def run_apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end on a thread: this one may have a loop of its own (Playwright's)."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


@contextmanager
def copied_database(server_url: str, template: str) -> Iterator[str]:
    """A migrated database, dropped at the end."""
    name = f"copy_{os.getpid()}_{next(_numbers)}"

    async def run(sql: str) -> None:
        connection = await asyncpg.connect(server_url)
        await connection.execute(sql)
        await connection.close()

    run_apart(run(f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield with_database(server_url, name)
    run_apart(run(f"DROP DATABASE {name} WITH (FORCE)"))


def with_database(url: str, name: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """A server for the whole run: PILLARBOX_TEST_DATABASE_URL, or the embedded one."""
    if url := os.environ.get("PILLARBOX_TEST_DATABASE_URL"):
        yield url
        return
    folder = Path(tempfile.mkdtemp(prefix="pillarbox-test-"))
    try:
        with EmbeddedServer.start(folder) as server:
            yield server.url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """The name of a migrated database to copy from."""
    name = f"template_{os.getpid()}"

    async def make() -> None:
        connection = await asyncpg.connect(server_url)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()
        database = Database(with_database(server_url, name))
        await upgrade(database.engine)
        await database.aclose()

    run_apart(make())
    return name


@pytest.fixture(scope="module")
def module_database_url(server_url: str, template: str) -> Iterator[str]:
    """A migrated database that the tests of one module share."""
    with copied_database(server_url, template) as url:
        yield url


@pytest.fixture
async def database_url(server_url: str, template: str) -> AsyncIterator[str]:
    """A migrated database of the test's own."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    connection = await asyncpg.connect(server_url)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield with_database(server_url, name)
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The test's database as the product reaches it."""
    database = Database(database_url, deadline_seconds=5)
    yield database
    await database.aclose()


@pytest.fixture
async def lane(database: Database) -> AsyncIterator[Lane]:
    """A lane of the test's own."""
    async with database.lane() as lane:
        yield lane


@pytest.fixture
async def outbox(database: Database, lane: Lane) -> OutboxBench:
    """The outbox with shortcuts to fill it, move its rows and look at them."""
    return OutboxBench(database, lane)


@pytest.fixture
def drain_factory(database: Database) -> Callable[..., Drain]:
    """Makes drains on the test's database."""
    from tests.outbox import make_drain

    def make(run: object, **changes: object) -> Drain:
        return make_drain(database, run, **changes)

    return make
