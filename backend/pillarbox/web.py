"""The built page: hashed assets for a year, index never cached, unknown pages only for browsers."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.response import File, Redirect

WEB_ROOT = Path(__file__).parent / "web"

_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}
_NEVER = {"cache-control": "no-store", "vary": "cookie"}
_THEMES = frozenset({"light", "dark"})

# Not from the system's table, which differs from machine to machine: with nosniff a wrong type is a refusal.
_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}

_NOT_BUILT = (
    "<!doctype html><title>Pillarbox</title><p>The front end is not built. "
    "Run <code>npm ci &amp;&amp; npm run build</code>, or <code>make run</code>.</p>"
)


@get("/assets/{path:path}", include_in_schema=False, sync_to_thread=False)
def asset(path: Path) -> File:
    """A file whose name carries its hash."""
    return _file(WEB_ROOT / "assets", path, _IMMUTABLE)


@get(["/", "/de"], include_in_schema=False, sync_to_thread=False)
def home(request: Request[Any, Any, Any]) -> Redirect:
    """The page that explains itself."""
    language = request.url.path.rstrip("/")
    return Redirect(f"{language}/showcases/workers", status_code=307)


@get(["/{path:path}"], include_in_schema=False, sync_to_thread=False)
def page(request: Request[Any, Any, Any], path: Path) -> File | Response[str]:
    """A file at the top of the build, or the page itself for a browser that asks for HTML."""
    relative = str(path).lstrip("/")
    if relative.startswith("api/"):
        raise NotFoundException(f"There is nothing at {request.url.path}.")
    if relative != "index.html" and _is_file(WEB_ROOT / relative):
        return _file(WEB_ROOT, path, {"cache-control": "no-cache"})
    if "text/html" not in request.headers.get("accept", ""):
        raise NotFoundException(f"There is nothing at {request.url.path}.")
    return Response(
        _index(relative, request.cookies.get("theme", "")),
        media_type=MediaType.HTML,
        headers=_NEVER,
        status_code=HTTPStatus.OK if relative.removeprefix("de/") in PAGES else HTTPStatus.NOT_FOUND,
    )


PAGES = frozenset({"showcases/workers", "inbox"})
"""The pages there are, in the language without prefix; everything else is answered 404, with a page."""


def _index(relative: str, theme: str) -> str:
    index = WEB_ROOT / "index.html"
    if not index.is_file():
        return _NOT_BUILT
    language = "de" if relative == "de" or relative.startswith("de/") else "en"
    chosen = theme if theme in _THEMES else ""
    return index.read_text("utf-8").replace(
        '<html lang="en" data-theme="">', f'<html lang="{language}" data-theme="{chosen}">', 1
    )


def _file(root: Path, path: Path, headers: dict[str, str]) -> File:
    try:
        wanted = (root / str(path).lstrip("/")).resolve()
    except (ValueError, OSError) as error:
        raise NotFoundException("There is no such file.") from error
    if not wanted.is_relative_to(root.resolve()) or not _is_file(wanted):
        raise NotFoundException("There is no such file.")
    return File(
        wanted,
        filename=wanted.name,
        media_type=_MEDIA_TYPES.get(wanted.suffix, "application/octet-stream"),
        content_disposition_type="inline",
        headers=headers,
    )


def _is_file(path: Path) -> bool:
    """Whether there is one; a name no file can have is none."""
    try:
        return path.is_file()
    except (ValueError, OSError):
        return False
