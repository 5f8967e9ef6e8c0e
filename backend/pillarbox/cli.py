"""The command line: serve, worker, drain, migrate, settings, openapi."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import asyncpg
import click
import msgspec
from sqlalchemy.exc import DBAPIError

from pillarbox.database.engine import Database
from pillarbox.database.migrate import downgrade, is_current, upgrade
from pillarbox.errors import PillarboxError
from pillarbox.logs import configure as configure_logs
from pillarbox.settings import VARIABLES, Settings, load
from pillarbox.version import VERSION

P = ParamSpec("P")
R = TypeVar("R")


def _one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """An error of ours is one line and exit code 1, never a traceback."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except PillarboxError as error:
            raise click.ClickException(str(error)) from error
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, DBAPIError) as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error).splitlines()
            raise click.ClickException(reason[0] if reason else type(error).__name__) from error

    return run


@click.group()
@click.version_option(VERSION, prog_name="pillarbox")
def main() -> None:
    """Notifications and background work on PostgreSQL alone."""


@main.command()
@_one_line_errors
def serve() -> None:
    """Start everything: the embedded PostgreSQL (unless DATABASE_URL is set), the page, the drain."""
    from pillarbox.serving import listen, serve_on

    settings = load()
    configure_logs(settings.log_format)
    with _terminating(), listen(settings) as listening, _database_url(settings, start=True) as url:
        asyncio.run(_migrate(url, settings))
        serve_on(listening, settings, url)


@main.command()
@_one_line_errors
def worker() -> None:
    """Run the drain without HTTP, beside as many others as wanted, on the database of DATABASE_URL."""
    from pillarbox.runtime import Runtime

    settings = load()
    configure_logs(settings.log_format)

    async def run(url: str) -> None:
        runtime = Runtime(settings, url)
        _stop_on_signals(runtime.stop)
        async with runtime.loops():
            click.echo("worker ready", err=True)
            await runtime.stopping.wait()

    with _database_url(settings) as url:
        _require_current(url, settings)
        _run(run(url))


@main.command()
@click.option("--limit", type=click.IntRange(min=1), help="Claim at most this many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one line of JSON.")
@_one_line_errors
def drain(limit: int | None, as_json: bool) -> None:
    """Drain once: until nothing is due, or LIMIT rows are claimed."""
    from pillarbox.runtime import Runtime

    settings = load()
    configure_logs(settings.log_format)

    async def run(url: str) -> None:
        runtime = Runtime(settings, url)
        _stop_on_signals(runtime.stop)
        try:
            report = await runtime.drain.run_once(runtime.stopping, limit=limit)
            try:
                await runtime.sampler.fold()
            except (PillarboxError, asyncpg.PostgresError) as error:
                click.echo(f"the depth counters were not folded: {error}", err=True)
        finally:
            await runtime.aclose()
        if as_json:
            click.echo(msgspec.json.encode(report).decode())
        else:
            click.echo(
                f"claimed {report.claimed}, sent {report.sent}, retried {report.retried}, "
                f"failed {report.failed}, dead {report.dead}, released {report.released}, "
                f"reaped {report.reaped}, stale {report.stale}"
            )

    with _database_url(settings) as url:
        _require_current(url, settings)
        _run(run(url))


@main.command()
@click.option("--down", is_flag=True, help="Drop everything Pillarbox has in the database.")
@_one_line_errors
def migrate(down: bool) -> None:
    """Bring the database to the newest schema."""
    settings = load()
    if down:
        click.confirm("This deletes every notification and delivery. Go on?", abort=True)
    with _database_url(settings, start=True) as url:
        asyncio.run(_migrate(url, settings, down=down))
    click.echo("the schema is gone" if down else "the schema is current")


@main.command()
@_one_line_errors
def settings() -> None:
    """List every setting with the value in force (secrets and passwords hidden)."""
    in_force = load()
    for field, variable in VARIABLES.items():
        value = getattr(in_force, field)
        if value is not None and (field.endswith(("_secret", "_url"))):
            value = "(set)"
        click.echo(f"{variable}={'' if value is None else value}")


@main.command()
def openapi() -> None:
    """Print the OpenAPI document."""
    from pillarbox.app import create_app

    document = create_app(
        Settings(webhook_secret="whsec_" + "A" * 43 + "="), "postgresql://nowhere/nothing"
    ).openapi_schema.to_schema()
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


@contextmanager
def _database_url(settings: Settings, *, start: bool = False) -> Generator[str]:
    """The database to use: the one set, or the embedded one (started here, or already running)."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    from pillarbox.database.embedded import EmbeddedServer

    if not start and (url := EmbeddedServer.running_url(settings.data_dir)) is not None:
        yield url
        return
    with EmbeddedServer.start(settings.data_dir) as server:
        yield server.url


async def _migrate(url: str, settings: Settings, *, down: bool = False) -> None:
    database = _open(url, settings)
    try:
        await (downgrade if down else upgrade)(database.engine)
    finally:
        await database.aclose()


def _require_current(url: str, settings: Settings) -> None:
    async def check() -> bool:
        database = _open(url, settings)
        try:
            return await is_current(database.engine)
        finally:
            await database.aclose()

    if not asyncio.run(check()):
        raise PillarboxError("the database is not at this version's schema; run `pillarbox migrate` first")


def _open(url: str, settings: Settings) -> Database:
    return Database(url, pooled=settings.database_pooled, deadline_seconds=settings.database_deadline_seconds)


def _stop_on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def _run(coroutine: Any) -> None:
    import uvloop

    uvloop.run(coroutine)


@contextmanager
def _terminating() -> Generator[None]:
    """SIGTERM and Ctrl-C end the process through its clean-up, so that the embedded server stops with it."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(0 if number == signal.SIGINT else 128 + number)

    former = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
