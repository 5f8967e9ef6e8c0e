"""What the browser may do with our pages, and who may call what until accounts exist."""

from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.exceptions import ClientException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from litestar.status_codes import HTTP_415_UNSUPPORTED_MEDIA_TYPE

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "worker-src 'self' blob:",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "font-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)

SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "strict-origin-when-cross-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cross-origin-opener-policy": "same-origin",
}

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class UnsupportedMediaTypeError(ClientException):
    """The body is not of the one type the API takes."""

    status_code = HTTP_415_UNSUPPORTED_MEDIA_TYPE


def is_local(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Whether a request comes from this machine, by its peer, its Host header and no proxy between.

    The Host header counts, since a name of somebody else's may point here (DNS rebinding); a
    forwarding header counts, since behind a proxy on this machine every peer looks local.
    """
    forwarded = connection.headers.get("x-forwarded-for") or connection.headers.get("forwarded")
    peer = connection.client.host if connection.client else ""
    host = _split(f"//{connection.headers.get('host', '')}").hostname or ""
    return not forwarded and _is_loopback(peer) and (host == "localhost" or _is_loopback(host))


def local_only(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Guard: answers only requests from this machine."""
    if not is_local(connection):
        raise PermissionDeniedException(
            "This acts on the whole installation, so it answers only on the machine itself "
            "(open Pillarbox at 127.0.0.1 or localhost there)."
        )


async def same_origin_json(request: Request[Any, Any, Any]) -> None:
    """Refuse writes that another site's page sends, and bodies that are not JSON."""
    if request.method in _SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if (site is not None and site not in {"same-origin", "none"}) or (
        origin is not None and _split(origin).netloc != request.headers.get("host")
    ):
        raise PermissionDeniedException("This request was sent by a page of another site.")
    length = request.headers.get("content-length", "0")
    if length != "0" or "transfer-encoding" in request.headers:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise UnsupportedMediaTypeError(
                f"The body must be application/json, not {kind or 'of no stated type'}."
            )


def _split(address: str) -> SplitResult:
    """The address in parts, all empty where it is malformed."""
    try:
        return urlsplit(address)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
