"""The routes of the page: /, its files below /page, /config and /auth_setup."""

from __future__ import annotations

import asyncio

from shared.domain.errors import NotFound
from shared.files.headers import matches_etag
from shared.http.call import Reply
from shared.http.json_encoding import acceptable_values
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Handler, Route
from shared.protocols.page.assets import Asset, load_asset
from shared.protocols.page.description import describe_app, describe_sign_in

# Scripts and styles are the page's own files alone, and nothing is fetched from elsewhere. What an
# answer or a document contains becomes part of the page only through the sanitizer.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",
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
NO_PAGE = "This deployment has no page (PAGE)."


async def page(exchange: Exchange) -> Reply:
    """Answer with the page. `HEAD` also tells OpenSearch's clients that the app runs."""
    if exchange.call.method == "HEAD" and not exchange.app.has_page:
        return exchange.json_reply({})
    return await _asset(exchange, "index.html")


async def page_file(exchange: Exchange) -> Reply:
    """Answer with a file of the page. Raises NotFound."""
    return await _asset(exchange, exchange.call.path)


async def _asset(exchange: Exchange, name: str) -> Reply:
    if not exchange.app.has_page:
        raise NotFound(NO_PAGE)
    asset = await asyncio.to_thread(load_asset, name)
    if asset is None:
        raise NotFound
    return _answer(exchange, asset)


def _answer(exchange: Exchange, asset: Asset) -> Reply:
    headers = exchange.call.headers
    own = {**HEADERS, "ETag": asset.etag}
    if matches_etag(headers.get("if-none-match", ""), asset.etag):
        return Reply(304, asset.media_type, b"", own)
    if "gzip" in acceptable_values(headers.get("accept-encoding", "")):
        return Reply(200, asset.media_type, asset.compressed, {**own, "Content-Encoding": "gzip"})
    return Reply(200, asset.media_type, asset.content, own)


async def config(exchange: Exchange) -> Reply:
    """Answer with what the app can do here. Raises ChatErrors."""
    return exchange.json_reply(await asyncio.to_thread(describe_app, exchange))


async def auth_setup(exchange: Exchange) -> Reply:
    """Answer with how to sign in."""
    return exchange.json_reply(describe_sign_in(exchange))


def _route(path: str, handler: Handler, **options: str) -> Route:
    return Route(
        path=path,
        methods=READ,
        handler=handler,
        errors=context_json.ERRORS,
        auth="anonymous",
        **options,
    )


ROUTES = (
    _route("/", page),
    _route("/page/{path}", page_file, name="page", pattern="page/{*path}"),
    _route("/config", config),
    _route("/auth_setup", auth_setup),
)
