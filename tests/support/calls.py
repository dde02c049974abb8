"""Calls to a service in the same process, without HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.http.call import Call, Reply
from shared.protocols.exchange import App
from shared.rag.inputs import Rag
from shared.settings import read_settings
from tests.support.fakes import make_rag
from tests.support.servers import LAPTOP

TIMEOUT = 60.0  # seconds; only a hang takes so long
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {
                    "type": "string",
                    "description": "The city and state, e.g. San Francisco, CA",
                },
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["location"],
        },
    },
}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(12)).decode()
PNG_URL = f"data:image/png;base64,{PNG}"

JSON = {"content-type": "application/json"}
ANNA = JSON | {"x-ms-client-principal-id": "anna"}
BEN = JSON | {"x-ms-client-principal-id": "ben"}
SINGLE_USER = AccessPolicy(single_user=True)
CHAT_KEY = "the-key-of-the-clients"  # CHAT_API_KEY
QUESTION = {"messages": [{"role": "user", "content": "What is in Plus?"}]}


@dataclass(frozen=True)
class BufferedReply:
    """A reply, read to its end."""

    status: int
    headers: Mapping[str, str]
    media_type: str
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def lines(self) -> list[Any]:
        assert self.data.endswith(b"\n")
        return [json.loads(line) for line in self.data[:-1].split(b"\n")]


async def never_gone() -> bool:
    return False


async def chunks(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def call(
    route: str,
    body: Any = QUESTION,
    headers: Mapping[str, str] = JSON,
    gone: Callable[[], Awaitable[bool]] = never_gone,
    **more: Any,
) -> Call:
    """A POST by default. Bytes are sent unchanged, a list of them in chunks, the rest as JSON."""
    raw = [body] if isinstance(body, bytes) else body
    pieces = isinstance(raw, list) and all(isinstance(piece, bytes) for piece in raw) and raw
    data = chunks(pieces or [json.dumps(body).encode()])
    return replace(Call(route, "POST", headers, data, gone, "call-1"), **more)


async def read(reply: Reply) -> BufferedReply:
    """Read a reply to its end."""
    data = reply.body
    if reply.rest is not None:
        async for piece in reply.rest:
            data += piece
    return BufferedReply(reply.status, reply.headers, reply.media_type, data)


def local_service(rag: Rag, access: AccessPolicy = SINGLE_USER, **parts: Any) -> App:
    """A service as on a laptop, without sign-in and keys."""
    return App(rag, access, **{"api_key": ApiKeyPolicy(allow_anonymous=True), **parts})


def ask(request: Call, service: App | None = None) -> BufferedReply:
    """Returns the reply of a service over fakes."""

    async def go() -> BufferedReply:
        return await read(await handle_call(service or local_service(make_rag()), request))

    return asyncio.run(go())


class Client:
    """Calls the routes of one service, for one user at a time."""

    def __init__(self, service: App, headers: dict[str, str] = JSON) -> None:
        self.service, self.headers = service, headers

    def __call__(
        self, method: str, route: str, body: Any = b"", path: str = "", **query: Any
    ) -> BufferedReply:
        texts = {name: str(value) for name, value in query.items()}
        request = call(route, body or [b""], self.headers, method=method, path=path, query=texts)
        return ask(request, self.service)

    def as_(self, headers: dict[str, str]) -> Client:
        return Client(self.service, headers)


def run_calls(settings: Mapping[str, str], *calls: Call) -> list[BufferedReply]:
    """Returns the replies of an app with these settings, called in sequence."""

    async def go() -> list[BufferedReply]:
        service = build(read_settings({**LAPTOP, **settings}))
        try:
            async with asyncio.timeout(TIMEOUT):
                return [await read(await handle_call(service, each)) for each in calls]
        finally:
            await close_models(service)

    return asyncio.run(go())


async def close_models(service: App) -> None:
    """Close the clients of a service's models."""
    assert service.rag is not None
    for provider in service.rag.models.providers:
        client = getattr(provider.get_model(None), "client", None)
        if client is not None:
            await client.close()


def read_events(reply: BufferedReply) -> list[Any]:
    """The events of a stream. The data of each must be one line; a name must be its type."""
    assert reply.media_type == "text/event-stream"
    assert reply.data.endswith(b"\n\n")
    events = []
    for part in reply.data[:-2].split(b"\n\n"):
        *name, data = part.split(b"\n")
        assert data.startswith(b"data: ")
        events.append(json.loads(data[6:]))
        assert name in ([], [b"event: " + str(events[-1].get("type")).encode()])
    return events
