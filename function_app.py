"""Registers the routes, and translates requests and responses of Azure Functions."""

import asyncio
import logging
import os
import re
import uuid
from collections.abc import AsyncIterator

import azure.functions as func
from azurefunctions.extensions.http.fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from shared.app import ROUTES, handle_call
from shared.bootstrap.build import start
from shared.domain.errors import ChatError, ClientDisconnected
from shared.domain.events import ByteStream
from shared.http.call import Call, Reply
from shared.protocols.exchange import EVERY_METHOD, Route, function_name
from shared.settings import key_requirements
from shared.telemetry.access_log import QueryStripper, log_to_stdout, quiet_libraries

# The host responds to unlisted methods with an empty 404: the app rejects them instead.
METHODS = list(EVERY_METHOD)

EMPTY_ROUTE = "{path:maxlength(0)?}"  # an empty string would mean the function's name

GRACE_SECONDS = 5.0  # after a request's time limit, to send its last line

log = logging.getLogger("chat")
logging.getLogger("uvicorn.access").addFilter(QueryStripper())
quiet_libraries()
log_to_stdout()

KEYS = key_requirements(os.environ)
LEVEL = func.AuthLevel.FUNCTION if KEYS.callers else func.AuthLevel.ANONYMOUS
ADMIN = func.AuthLevel.ADMIN if KEYS.admins else LEVEL
app = func.FunctionApp(http_auth_level=LEVEL)
chat_app = start(os.environ)


def add_function(route: Route, name: str, methods: list[str], level: func.AuthLevel) -> None:
    """Register a function for some methods of a route."""

    async def handler(req: Request) -> Response:
        return await reply(req, route.path)

    pattern = route.pattern or re.sub(r"\{(\*?)\w+\}", r"{\1path}", route.path)
    registered = app.route(
        route=pattern.strip("/") or EMPTY_ROUTE, methods=methods, auth_level=level
    )
    app.function_name(name)(registered(handler))


for each in ROUTES.values():
    function = each.name or function_name(each.path)
    if each.auth == "administrative":
        add_function(each, f"{function}_read", ["GET", "HEAD"], LEVEL)
        add_function(each, f"{function}_change", ["POST", "PUT", "PATCH", "DELETE"], ADMIN)
    else:
        open_to_all = each.auth == "anonymous"
        add_function(each, function, METHODS, func.AuthLevel.ANONYMOUS if open_to_all else LEVEL)


async def reply(req: Request, route: str) -> Response:
    """Pass a request to the app, and its reply to the web server."""
    headers = {name.lower(): value for name, value in req.headers.items()}
    request_id = headers.get("x-ms-invocation-id", "")  # set by the platform
    if not re.fullmatch(r"[\w-]{1,64}", request_id, re.ASCII):
        request_id = str(uuid.uuid4())
    path = req.path_params.get("path") or ""
    query = dict(req.query_params)
    call = Call(
        route, req.method, headers, read_body(req), req.is_disconnected, request_id, path, query
    )
    return make_response(await handle_call(chat_app, call))


async def read_body(req: Request) -> AsyncIterator[bytes]:
    """Read the body in chunks. Raises ClientDisconnected."""
    try:
        async for chunk in req.stream():
            yield chunk
    except ClientDisconnect:
        raise ClientDisconnected from None


class ClosingStreamResponse(StreamingResponse):
    """A streaming response that closes its stream, even if the client leaves or stops reading.

    The platform would wait for a client that stopped reading until `functionTimeout`, and then
    stop the worker with all its streams.
    """

    def __init__(self, reply: Reply, rest: ByteStream) -> None:
        """Send `reply.body`, then `rest`."""
        content = prepend(reply.body, rest)
        super().__init__(content, reply.status, dict(reply.headers), reply.media_type)
        self.rest, self.deadline = rest, reply.deadline + GRACE_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response and close its stream."""
        try:
            async with asyncio.timeout_at(self.deadline):
                await super().__call__(scope, receive, send)
        except ChatError:
            pass  # already logged; the client sees a truncated response
        except TimeoutError:
            name = self.headers["x-request-id"]
            log.warning("request id=%s: the client stopped reading, its stream was closed", name)
        finally:
            await self.rest.aclose()


async def prepend(first: bytes, rest: ByteStream) -> AsyncIterator[bytes]:
    """Yield a first chunk, then the others."""
    yield first
    async for chunk in rest:
        yield chunk


def make_response(reply: Reply) -> Response:
    """Convert a reply to a response of the web server."""
    if reply.rest is not None:
        return ClosingStreamResponse(reply, reply.rest)
    return Response(reply.body, reply.status, dict(reply.headers), reply.media_type)
