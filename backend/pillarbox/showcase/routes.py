"""Incidents over HTTP. They start and kill processes, so they answer only on the machine itself."""

from http import HTTPStatus

import msgspec
from litestar import Controller, delete, get, post

from pillarbox.problems import documented
from pillarbox.security import local_only
from pillarbox.showcase.incidents import Action, Incident, Incidents, Kind


class Begin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which incident to play."""

    kind: Kind


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do next."""

    action: Action


class Current(msgspec.Struct, frozen=True):
    """The incident being played, if any."""

    incident: Incident | None


class IncidentController(Controller):
    """`/api/showcase/incident`."""

    path = "/api/showcase/incident"
    tags = ("showcase",)

    @get(operation_id="readIncident", sync_to_thread=False)
    def current(self, incidents: Incidents) -> Current:
        """The incident being played."""
        return Current(incident=incidents.current)

    @post(
        operation_id="beginIncident",
        guards=[local_only],
        status_code=HTTPStatus.CREATED,
        responses=documented(HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT),
    )
    async def begin(self, data: Begin, incidents: Incidents) -> Incident:
        """Start a worker of its own on a delivery whose receiver will not answer."""
        return await incidents.begin(data.kind)

    @post(
        "/step",
        operation_id="stepIncident",
        guards=[local_only],
        status_code=HTTPStatus.OK,
        responses=documented(HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT),
    )
    async def step(self, data: Step, incidents: Incidents) -> Incident:
        """Take the next step."""
        return await incidents.step(data.action)

    @delete(operation_id="endIncident", guards=[local_only], responses=documented(HTTPStatus.FORBIDDEN))
    async def end(self, incidents: Incidents) -> None:
        """End the incident, its worker with it."""
        await incidents.end()
