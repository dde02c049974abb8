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

from shared.bootstrap.build import start
from shared.chat.errors import ChatError, ClientDisconnected
from shared.http.call import ByteStream, Call, Reply
from shared.protocols.aog import routes as aog
from shared.protocols.openai import routes as door
from shared.protocols.opensearch import routes as opensearch
from shared.settings import key_requirements
from shared.telemetry.access_log import QueryStripper, log_to_stdout, quiet_libraries

# A method that a route does not list is the host's empty 404: all are listed, the service refuses.
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]

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


@app.route(route="chat", methods=METHODS)
async def chat(req: Request) -> Response:
    """A whole answer, or a stream where the body asks for one."""
    return await reply(req, "/chat")


@app.route(route="chat/stream", methods=METHODS)
async def chat_stream(req: Request) -> Response:
    """An answer as JSON lines."""
    return await reply(req, "/chat/stream")


@app.route(route="ask", methods=METHODS)
async def ask(req: Request) -> Response:
    """An answer to the last message alone."""
    return await reply(req, "/ask")


@app.route(route="health", methods=METHODS, auth_level=func.AuthLevel.ANONYMOUS)
async def health(req: Request) -> Response:
    """Which parts are in use, or which settings are wrong."""
    return await reply(req, "/health")


@app.route(route="content/{*path}", methods=METHODS)
async def content(req: Request) -> Response:
    """The file behind a citation."""
    return await reply(req, "/content/{path}")


def add_route(route: str, methods: list[str], level: func.AuthLevel, kind: str) -> None:
    """Serve a route of a protocol's table; `kind` goes into its name."""

    async def handler(req: Request) -> Response:
        return await reply(req, route)

    at = re.sub(r"\{(\*?)\w+\}", r"{\1path}", route).strip("/") or ROOT
    words = re.sub(r"[\W_]+", "_", route).strip("_") or "root"
    app.function_name(kind.format(words))(
        app.route(route=at, methods=methods, auth_level=level)(handler)
    )


for each in aog.ROUTES:
    add_route(each, METHODS, LEVEL, "{}")
for each in door.ROUTES:
    add_route(each, METHODS, func.AuthLevel.ANONYMOUS, "door_{}")
for each in opensearch.ROUTES:
    if each in opensearch.ADMINISTRATIVE:
        add_route(each, ["GET", "HEAD"], LEVEL, "opensearch_{}_read")
        add_route(each, ["POST", "PUT", "PATCH", "DELETE"], ADMIN, "opensearch_{}_change")
    else:
        add_route(each, METHODS, LEVEL, "opensearch_{}")


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
