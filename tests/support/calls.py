"""Calls to a service in the same process, without HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.app import handle_call
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.http.call import Call, Reply
from shared.protocols.exchange import App
from shared.rag.flow import Rag
from tests.support.fakes import make_rag

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
