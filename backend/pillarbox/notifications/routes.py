"""The outbox over HTTP: enqueue, depth, stream, recent deliveries, and the mechanism itself."""

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Controller, Request, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.params import Parameter
from litestar.response import Stream
from msgspec import Meta

from pillarbox.notifications.service import Delivery
from pillarbox.notifications.trial import Channel, Rehearsal, Trial, TrialOutbox
from pillarbox.notifications.view import Mechanism
from pillarbox.problems import documented
from pillarbox.queue.sampler import DepthReading, DepthSampler
from pillarbox.queue.streams import EventStreams
from pillarbox.security import is_local


class Enqueue(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What to enqueue. `rehearsal` picks how the receiving side behaves; `address` is one of your own."""

    channel: Channel
    rehearsal: Rehearsal = "deliver"
    count: Annotated[int, Meta(ge=1, le=1000)] = 1
    title: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    body: Annotated[str, Meta(max_length=10_000)] | None = None
    address: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None


class Enqueued(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many deliveries were written, and the ids of the first 25."""

    enqueued: int
    delivery_ids: list[UUID]


class Deliveries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of deliveries, the newest first."""

    items: list[Delivery]


class OutboxController(Controller):
    """`/api/outbox`."""

    path = "/api/outbox"
    tags = ("outbox",)

    @post(
        "/notifications",
        operation_id="enqueueNotifications",
        status_code=HTTPStatus.CREATED,
        responses=documented(
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.FORBIDDEN,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        ),
    )
    async def enqueue(self, data: Enqueue, trial: TrialOutbox, request: Request[Any, Any, Any]) -> Enqueued:
        """Write notifications and their deliveries in one transaction."""
        if data.address is not None and not is_local(request):
            raise PermissionDeniedException(
                "An address of your own is taken only on the machine Pillarbox runs on, until accounts exist."
            )
        ids = await trial.enqueue(
            Trial(
                channel=data.channel,
                rehearsal=data.rehearsal,
                count=data.count,
                title=data.title,
                body=data.body,
                address=data.address,
            )
        )
        return Enqueued(enqueued=len(ids), delivery_ids=ids[:25])

    @get(
        "/deliveries",
        operation_id="listRecentDeliveries",
        responses=documented(HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    async def deliveries(
        self, trial: TrialOutbox, limit: Annotated[int, Parameter(ge=10, le=100)] = 25
    ) -> Deliveries:
        """The newest deliveries."""
        return Deliveries(items=await trial.recent(limit))

    @get("/depth", operation_id="readDepth", responses=documented(HTTPStatus.SERVICE_UNAVAILABLE))
    async def depth(self, sampler: DepthSampler) -> DepthReading:
        """How full the outbox is now."""
        return await sampler.read()

    @get("/mechanism", operation_id="readMechanism", sync_to_thread=False)
    def mechanism(self, outbox_mechanism: Mechanism) -> Mechanism:
        """The statements that really run, and the numbers in force."""
        return outbox_mechanism

    @get(
        "/stream",
        operation_id="streamOutbox",
        media_type="text/event-stream",
        responses=documented(HTTPStatus.SERVICE_UNAVAILABLE),
    )
    async def stream(self, streams: EventStreams) -> Stream:
        """Server-sent events `depth`, `drain`, `incident` and `inbox`; the newest of each."""
        return streams.response()
