"""Every error over HTTP as problem details (RFC 9457)."""

from http import HTTPStatus
from typing import Any, cast

import asyncpg
import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pillarbox.database.lane import DatabaseUnreachableError
from pillarbox.errors import PillarboxError

log = structlog.get_logger(__name__)


_DATA_EXCEPTION = "22"
"""The SQLSTATE class of values PostgreSQL refuses to hold."""


_UNAVAILABLE = ("08", "53", "57P0")
"""Connections that break, a server that is full, starting, stopping or recovering."""


class FieldProblem(msgspec.Struct, frozen=True):
    """What is wrong with one place of the request."""

    path: str
    message: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Problem details: `title` is the same for every problem of its status, `detail` speaks of this one."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    errors: tuple[FieldProblem, ...] = ()


class ConflictError(PillarboxError):
    """The request is well formed and does not fit the present state."""


def documented(*statuses: HTTPStatus) -> dict[int, ResponseSpec]:
    """OpenAPI entries of the problems a route can answer with."""
    return {
        status.value: ResponseSpec(
            data_container=Problem,
            generate_examples=False,
            description=status.phrase,
            media_type="application/problem+json",  # type: ignore[arg-type]
        )
        for status in statuses
    }


def _respond(problem: Problem, headers: dict[str, str] | None = None) -> Response[Problem]:
    return Response(
        problem,
        status_code=problem.status,
        media_type="application/problem+json",
        headers=headers,
    )


def _http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    status = HTTPStatus(error.status_code)
    errors: tuple[FieldProblem, ...] = ()
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        errors = tuple(
            FieldProblem(path=str(entry.get("key", "")), message=str(entry.get("message", "")))
            for entry in cast("list[object]", error.extra)
            if isinstance(entry, dict)
        )
    detail = str(error.detail)
    if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        detail = f"The body may hold {request.app.request_max_body_size} bytes at most."
    return _respond(
        Problem(status=status.value, title=status.phrase, detail=detail, errors=errors),
        dict(error.headers or {}),
    )


def _conflict(_: Request[Any, Any, Any], error: ConflictError) -> Response[Problem]:
    return _respond(Problem(status=409, title=HTTPStatus.CONFLICT.phrase, detail=str(error)))


def _unreachable(_: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    log.warning("a request found no database", error=str(error))
    return _respond(
        Problem(
            status=503,
            title=HTTPStatus.SERVICE_UNAVAILABLE.phrase,
            detail="The database did not answer. Nothing was changed; try again in a moment.",
        ),
        {"retry-after": "2"},
    )


def _unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    log.exception("a request failed unexpectedly", path=request.url.path, exc_info=error)
    return _respond(
        Problem(
            status=500,
            title=HTTPStatus.INTERNAL_SERVER_ERROR.phrase,
            detail="Something here broke; it has been logged.",
        )
    )


def handlers() -> dict[Any, Any]:
    """Exception type to handler, for the application."""
    return {
        HTTPException: _http,
        ConflictError: _conflict,
        DatabaseUnreachableError: _unreachable,
        asyncpg.PostgresConnectionError: _unreachable,
        ConnectionError: _unreachable,
        TimeoutError: _unreachable,
        PoolTimeoutError: _unreachable,
        DBAPIError: _database,
        RecursionError: _too_deep,
        Exception: _unexpected,
    }


def _too_deep(_: Request[Any, Any, Any], error: RecursionError) -> Response[Problem]:
    return _respond(
        Problem(
            status=400,
            title=HTTPStatus.BAD_REQUEST.phrase,
            detail="The body is nested too deeply.",
        )
    )


def _database(request: Request[Any, Any, Any], error: DBAPIError) -> Response[Problem]:
    state: str = getattr(error.orig, "sqlstate", None) or ""
    if state.startswith(_UNAVAILABLE):
        return _unreachable(request, error)
    if state.startswith(_DATA_EXCEPTION):
        return _respond(
            Problem(
                status=400,
                title=HTTPStatus.BAD_REQUEST.phrase,
                detail="The request holds a value that cannot be stored (a NUL character, say).",
            )
        )
    if error.connection_invalidated or isinstance(error, InterfaceError | OperationalError):
        return _unreachable(request, error)
    return _unexpected(request, error)
