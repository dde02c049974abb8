"""The routes and nothing else: request -> service -> response."""

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

from shared.app.routes import ROUTES
from shared.bootstrap.build import start
from shared.chat.errors import ChatError, ClientDisconnected
from shared.http.call import ByteStream, Call, Reply
from shared.protocols.route import EVERY_METHOD, Route, function_name
from shared.settings import key_requirements
from shared.telemetry.access_log import QueryStripper, log_to_stdout, quiet_libraries

# A method that a route does not list is the host's empty 404: all are listed, the service refuses.
METHODS = list(EVERY_METHOD)

ROOT = "{path:maxlength(0)?}"  # the only way to say it: an empty route is the function's name

GRACE_SECONDS = 5.0  # seconds after a request's time limit, for its last line to be read

log = logging.getLogger("chat")
logging.getLogger("uvicorn.access").addFilter(QueryStripper())
quiet_libraries()
log_to_stdout()

KEYS = key_requirements(os.environ)
LEVEL = func.AuthLevel.FUNCTION if KEYS.callers else func.AuthLevel.ANONYMOUS
ADMIN = func.AuthLevel.ADMIN if KEYS.admins else LEVEL
app = func.FunctionApp(http_auth_level=LEVEL)
service = start(os.environ)


def add_function(route: Route, name: str, methods: list[str], level: func.AuthLevel) -> None:
    """Make a function that answers some methods of a route."""

    async def handler(req: Request) -> Response:
        return await reply(req, route.path)

    pattern = route.pattern or re.sub(r"\{(\*?)\w+\}", r"{\1path}", route.path)
    registered = app.route(route=pattern.strip("/") or ROOT, methods=methods, auth_level=level)
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
    """Hand a request to the service, and its reply to the web server."""
    headers = {name.lower(): value for name, value in req.headers.items()}
    given = headers.get("x-ms-invocation-id", "")  # the platform's own, wherever there is one
    request_id = given if re.fullmatch(r"[\w-]{1,64}", given, re.ASCII) else str(uuid.uuid4())
    path = req.path_params.get("path") or ""
    query = dict(req.query_params)
    call = Call(
        route, req.method, headers, read_body(req), req.is_disconnected, request_id, path, query
    )
    return make_response(await service.reply(call))


async def read_body(req: Request) -> AsyncIterator[bytes]:
    """The request's body in chunks."""
    try:
        async for chunk in req.stream():
            yield chunk
    except ClientDisconnect:
        raise ClientDisconnected from None


class ClosingStreamResponse(StreamingResponse):
    """A stream that is closed when it is sent, or cannot be: the client left, or stopped reading.

    The platform would wait for a client that stopped reading until `functionTimeout`, and then
    end the worker with all its streams.
    """

    def __init__(self, given: Reply, rest: ByteStream) -> None:
        """Send `given.body`, then `rest`."""
        content = prepend(given.body, rest)
        super().__init__(content, given.status, dict(given.headers), given.media_type)
        self.rest, self.deadline = rest, given.deadline + GRACE_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; whatever happens, close it."""
        try:
            async with asyncio.timeout_at(self.deadline):
                await super().__call__(scope, receive, send)
        except ChatError:
            pass  # it is in the log; the client sees that bytes are missing
        except TimeoutError:
            name = self.headers["x-request-id"]
            log.warning("request id=%s: the client stopped reading, its stream was closed", name)
        finally:
            await self.rest.aclose()


async def prepend(first: bytes, rest: ByteStream) -> AsyncIterator[bytes]:
    """A first piece, then the others."""
    yield first
    async for piece in rest:
        yield piece


def make_response(given: Reply) -> Response:
    """The web server's form of a reply."""
    if given.rest is not None:
        return ClosingStreamResponse(given, given.rest)
    return Response(given.body, given.status, dict(given.headers), given.media_type)
