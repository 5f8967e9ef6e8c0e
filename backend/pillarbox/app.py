"""Builds the Litestar application; nothing else wires HTTP."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

from litestar import Litestar, Router
from litestar.config.compression import CompressionConfig
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from pillarbox import web
from pillarbox.health import HealthController
from pillarbox.inbox.holds import Holds
from pillarbox.inbox.routes import InboxController, receive_webhook
from pillarbox.inbox.smtp import InboxSmtpServer
from pillarbox.inbox.webhook import WebhookReceiver
from pillarbox.notifications.routes import OutboxController
from pillarbox.notifications.trial import TrialOutbox
from pillarbox.notifications.view import mechanism
from pillarbox.platform import PlatformController, PlatformView
from pillarbox.problems import handlers
from pillarbox.queue.streams import EventStreams
from pillarbox.runtime import Runtime
from pillarbox.security import SECURITY_HEADERS, same_origin_json
from pillarbox.settings import Settings
from pillarbox.showcase.incidents import Incidents
from pillarbox.showcase.routes import IncidentController
from pillarbox.version import VERSION


def create_app(settings: Settings, database_url: str) -> Litestar:
    """The application of one process on one database that is already migrated."""
    runtime = Runtime(settings, database_url)
    holds = Holds() if settings.smtp_url is None else None
    trial = TrialOutbox(
        runtime.database,
        webhook_url=runtime.webhook_url,
        budget=settings.delivery_max_attempts,
        announce=runtime.announcer.announce,
    )
    incidents = Incidents(
        database=runtime.database,
        trial=trial,
        drain=runtime.drain,
        holds=holds,
        board=runtime.board,
        changed=runtime.changed,
        lease_seconds=settings.delivery_claim_lease,
        worker_environment=runtime.patient_worker_environment,
    )

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            loop = asyncio.get_running_loop()
            stack.enter_context(_stopping_first(lambda: loop.call_soon_threadsafe(runtime.stop)))
            if holds is not None:
                server = InboxSmtpServer(
                    "127.0.0.1", settings.inbox_smtp_port, runtime.inbox.store_mail, holds=holds
                )
                await server.start()
                stack.push_async_callback(server.stop)
            await stack.enter_async_context(runtime.loops())
            stack.push_async_callback(incidents.end)
            yield

    return Litestar(
        route_handlers=[
            Router(
                path="/",
                route_handlers=[OutboxController, InboxController, IncidentController, PlatformController],
                before_request=same_origin_json,
            ),
            receive_webhook,
            HealthController,
            web.asset,
            web.home,
            web.page,
        ],
        lifespan=[lifespan],
        dependencies={
            "trial": _given(trial),
            "incidents": _given(incidents),
            "sampler": _given(runtime.sampler),
            "inbox": _given(runtime.inbox),
            "database": _given(runtime.database),
            "streams": _given(EventStreams(runtime.board, runtime.stopping)),
            "receiver": _given(WebhookReceiver(runtime.inbox, runtime.webhook_secret)),
            "outbox_mechanism": _given(mechanism(runtime.statements, settings.delivery_policy)),
            "platform": _given(PlatformView(settings, runtime.drain, runtime.listener)),
        },
        exception_handlers=handlers(),
        response_headers=SECURITY_HEADERS,
        logging_config=None,
        # A stream is left alone: compressing would hold its events back until a block is full.
        compression_config=CompressionConfig("gzip", minimum_size=1024, exclude=["/api/outbox/stream"]),
        request_max_body_size=settings.max_body_bytes,
        openapi_config=OpenAPIConfig(
            title="Pillarbox",
            version=VERSION,
            path="/api/openapi.json",
            render_plugins=[JsonRenderPlugin(path="/")],
        ),
    )


def _given(value: Any) -> Provide:
    return Provide(lambda: value, sync_to_thread=False)


@contextmanager
def _stopping_first(stop: Callable[[], object]) -> Generator[None]:
    """End the streams on SIGINT and SIGTERM before the server waits for them.

    A server asks its lifespan to end only when all connections are closed, and an event stream closes
    only when told: without this each waits for the other.
    """

    def chain(former: Any) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            stop()
            if callable(former):
                former(number, frame)

        return handle

    former = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            former[number] = signal.signal(number, chain(signal.getsignal(number)))
        except ValueError:
            # Not the main thread (a test client): whoever runs the loop there stops it otherwise.
            break
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
