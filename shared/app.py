"""Dispatches calls to the routes of the protocols.

May import the protocols and what they import; no adapter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from shared.domain.errors import ChatError, ClientDisconnected
from shared.http.call import Call, Reply, without_long_headers
from shared.protocols import content, feedback, health
from shared.protocols.ai_chat import routes as ai_chat
from shared.protocols.aog import routes as aog
from shared.protocols.exchange import CLIENT_GONE, JSON, AppContext, Exchange
from shared.protocols.mcp import routes as mcp
from shared.protocols.openai import routes as openai
from shared.protocols.openai.responses import routes as responses
from shared.protocols.opensearch import routes as opensearch
from shared.protocols.page import routes as page
from shared.protocols.route import Route
from shared.telemetry.access_log import AccessLog

PROTOCOLS = (ai_chat, health, content, feedback, aog, openai, responses, opensearch, mcp, page)
ROUTES: Mapping[str, Route] = {
    route.path: route for protocol in PROTOCOLS for route in protocol.ROUTES
}


# Headers of every response; a page of another origin may read the exposed ones.
COMMON_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Expose-Headers": "Retry-After, x-chat-notice, x-request-id",
}
CLIENT_CLOSED_REQUEST = 499  # what proxies log for a client that left; nobody receives it


@dataclass(frozen=True, slots=True)
class Service(AppContext):
    """Answers calls of every route."""

    routes: Collection[str] = tuple(ROUTES)

    async def reply(self, call: Call) -> Reply:
        """Answer one call. Never raises, but for being cancelled."""
        call = replace(call, headers=without_long_headers(call.headers))
        route, record = ROUTES[call.route], AccessLog(call.id, call.method, call.route)
        deadline = asyncio.get_running_loop().time() + self.limits.request_seconds
        exchange = Exchange(self, call, record, route.errors, deadline)
        try:
            reply = await self._dispatch(route, exchange)
        except ChatError as failure:
            reply = exchange.failed(failure)
        except ClientDisconnected:
            record.outcome = CLIENT_GONE
            reply = Reply(CLIENT_CLOSED_REQUEST, JSON, b"")
        except Exception as bug:
            record.log_exception(bug)
            reply = exchange.failed(ChatError())
        record.status = reply.status
        if reply.rest is None:
            record.write()
        return _finished(reply, call)

    async def _dispatch(self, route: Route, exchange: Exchange) -> Reply:
        call = exchange.call
        self.cross_origin.check(call.method, call.headers)
        route.check_method(call.method)
        with exchange.cleanup as cleanup:
            reply = await exchange.begin(await route.handler(exchange))
            if reply.rest is not None:
                exchange.cleanup = cleanup.pop_all()  # for the end of the stream
        return reply


def _finished(reply: Reply, call: Call) -> Reply:
    headers = {**reply.headers, **COMMON_HEADERS, "x-request-id": call.id}
    body = b"" if call.method == "HEAD" else reply.body
    return replace(reply, headers=headers, body=body)
