"""The built-in inbox over HTTP: reading it, clearing it, and its webhook receiver."""

from http import HTTPStatus
from typing import Annotated, Any

from litestar import Controller, Request, Response, delete, get, post
from litestar.params import Parameter

from pillarbox.inbox.service import Inbox, InboxPage
from pillarbox.inbox.webhook import WebhookReceiver
from pillarbox.problems import documented
from pillarbox.security import local_only


class InboxController(Controller):
    """`/api/inbox`."""

    path = "/api/inbox"
    tags = ("inbox",)

    @get(
        "/messages",
        operation_id="listInbox",
        responses=documented(HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    async def messages(self, inbox: Inbox, limit: Annotated[int, Parameter(ge=1, le=100)] = 25) -> InboxPage:
        """The newest messages."""
        return await inbox.newest(limit)

    @delete(
        "/messages",
        operation_id="clearInbox",
        guards=[local_only],
        responses=documented(HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    async def clear(self, inbox: Inbox) -> None:
        """Delete every message."""
        await inbox.clear()


@post("/api/inbox/webhook", include_in_schema=False, status_code=HTTPStatus.NO_CONTENT, tags=("inbox",))
async def receive_webhook(request: Request[Any, Any, Any], receiver: WebhookReceiver) -> Response[None]:
    """Take a signed webhook as any receiver on the web would."""
    answer = await receiver.receive(
        await request.body(),
        dict(request.headers),
        request.query_params.get("rehearsal", "deliver"),
        str(request.url),
    )
    return Response(None, status_code=answer.status, headers=answer.headers)
