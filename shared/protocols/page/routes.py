"""The routes of the page: /, its files below /page, /config and /auth_setup."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from shared.domain.errors import NotFound
from shared.files.headers import matches_etag
from shared.http.call import Reply, acceptable_values
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Handler, Route
from shared.protocols.openapi.operation import Operation
from shared.protocols.page.config import PageConfig
from shared.protocols.page.description import describe_app, describe_sign_in, list_categories

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str  # the value of the header, with quotes


def load_asset(name: str) -> Asset | None:
    """Read a file of the page by its path in its folder; None if there is none. Raises OSError.

    A change of the file is seen at once.
    """
    path = FOLDER / name
    inside = "\0" not in name and path.resolve().is_relative_to(FOLDER.resolve())
    if not inside or path.suffix not in MEDIA_TYPES or not path.is_file():
        return None
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _load(path: Path, _modified: int) -> Asset:
    content = path.read_bytes()
    etag = f'"{sha256(content).hexdigest()[:32]}"'
    return Asset(MEDIA_TYPES[path.suffix], content, gzip.compress(content, mtime=0), etag)


# Scripts and styles are the page's own files alone, and nothing is fetched from elsewhere. What an
# answer or a document contains becomes part of the page only through the sanitizer.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}


FILE = {200: "The file.", 304: "The client has the file."}
NO_PAGE = "This deployment has no page (PAGE)."


async def page(exchange: Exchange) -> Reply:
    """Answer with the page. `HEAD` also tells OpenSearch's clients that the app runs."""
    if exchange.call.method == "HEAD" and not exchange.app.config(PageConfig).enabled:
        return exchange.json_reply({})
    return await _asset(exchange, "index.html")


async def page_file(exchange: Exchange) -> Reply:
    """Answer with a file of the page. Raises NotFound."""
    return await _asset(exchange, exchange.call.path)


async def _asset(exchange: Exchange, name: str) -> Reply:
    if not exchange.app.config(PageConfig).enabled:
        raise NotFound(NO_PAGE)
    asset = await asyncio.to_thread(load_asset, name)
    if asset is None:
        raise NotFound
    return _reply(exchange, asset)


def _reply(exchange: Exchange, asset: Asset) -> Reply:
    headers = exchange.call.headers
    own = {**HEADERS, "ETag": asset.etag}
    if matches_etag(headers.get("if-none-match", ""), asset.etag):
        return Reply(304, asset.media_type, b"", own)
    if "gzip" in acceptable_values(headers.get("accept-encoding", "")):
        return Reply(200, asset.media_type, asset.compressed, {**own, "Content-Encoding": "gzip"})
    return Reply(200, asset.media_type, asset.content, own)


async def config(exchange: Exchange) -> Reply:
    """Answer with what the app can do here. Raises ChatErrors."""
    categories = await list_categories(exchange)
    return exchange.json_reply(await asyncio.to_thread(describe_app, exchange, categories))


async def auth_setup(exchange: Exchange) -> Reply:
    """Answer with how to sign in."""
    return exchange.json_reply(describe_sign_in(exchange))


def _operation(summary: str, **options: Any) -> Mapping[str, Operation]:
    error = context_json.ERROR_SCHEMA
    return {"GET": Operation(tag="Page", summary=summary, error=error, **options)}


def _route(path: str, handler: Handler, **options: Any) -> Route:
    return Route(
        path=path,
        methods=READ,
        handler=handler,
        errors=context_json.ERRORS,
        auth="anonymous",
        **options,
    )


ROUTES = (
    _route(
        "/",
        page,
        operations=_operation("The page", media_types=("text/html",), statuses=FILE, errors=(404,)),
    ),
    _route(
        "/page/{path}",
        page_file,
        operations=_operation(
            "A file of the page", media_types=("*/*",), statuses=FILE, errors=(404,)
        ),
        name="page",
        pattern="page/{*path}",
    ),
    _route("/config", config, operations=_operation("Say what the app can do for a chat page")),
    _route("/auth_setup", auth_setup, operations=_operation("Say how a page can sign in")),
)
