"""Strict fakes of Azure AI Search and Azure OpenAI over TLS, and of a managed identity.

It is a process of its own, on bare protocols of asyncio, so that it is not what limits a run. It
answers 400, and says why on its standard error, for what the services would not accept.
`PUT /delays` on the port of the identity changes the delays.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import trustme

from bench.serving import replies
from bench.serving.requests import (
    AUTHORIZATION,
    CHAT_PATH,
    EMBEDDINGS_PATH,
    KEY,
    MODELS_PATH,
    RESPONSES_PATH,
    RETRIEVE_PATH,
    SEARCH_PATH,
    Rejected,
    check_chat,
    check_embeddings,
    check_responses,
    check_retrieve,
    check_search,
    require,
)

TOKEN_PATH, DELAYS_PATH = "/token?", "/delays"
IDENTITY_HEADER = "header-of-the-bench"


@dataclass(slots=True)
class Delays:
    """Seconds before a search or an embedding, before the first token, and between tokens."""

    search: float = 0
    first_token: float = 0
    token: float = 0


class Connection(asyncio.Protocol):
    """One connection of a client: requests, one after the other."""

    def __init__(self, delays: Delays) -> None:
        self.delays, self.data = delays, b""
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Remember the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the request when it is complete."""
        self.data += data
        head, found, body = self.data.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("ascii").split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
        if len(body) < int(headers.get("content-length", 0)):
            return
        self.data = b""
        try:
            method, path, _ = first.split(" ")
            self.respond(method, path, headers, body)
        except (Rejected, ValueError, KeyError, TypeError) as error:
            print(f"rejected: {first}: {error!r}", file=sys.stderr, flush=True)
            self.write(replies.json_reply({"error": {"code": "400", "message": str(error)}}, 400))

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Answer a request of the services. Raises Rejected."""
        key = headers.get("authorization", headers.get("api-key"))
        require(key in (AUTHORIZATION, KEY), "key")
        if (method, path) == ("GET", MODELS_PATH):
            return self.write(replies.json_reply({"object": "list", "data": []}))
        require(method == "POST" and path in SERVICES, "no such route")
        require(headers.get("content-type", "").startswith("application/json"), "content type")
        value = json.loads(body)
        check, answer = SERVICES[path]
        check(value)
        answer(self, value)

    def write(self, data: bytes) -> None:
        """Send to the client, if it is still there."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def write_later(self, seconds: float, data: bytes) -> None:
        """Send after a delay; at once if there is none."""
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self.write, data)
        else:
            self.write(data)

    def search(self, body: dict[str, Any]) -> None:
        """Answer with the passages."""
        self.write_later(self.delays.search, replies.search_reply(body))

    def retrieve(self, body: dict[str, Any]) -> None:
        """Answer with the passages of a knowledge base."""
        self.write_later(self.delays.search, replies.retrieve_reply(body))

    def embed(self, body: Mapping[str, Any]) -> None:
        """Answer with a vector."""
        reply = replies.EMBEDDING_REPLIES[body.get("encoding_format", "float")]
        self.write_later(self.delays.search, reply)

    def chat(self, body: Mapping[str, Any]) -> None:
        """Answer with a stream: a long one if the prompt has the passages."""
        is_answer = replies.SENTENCE in "".join(each["content"] for each in body["messages"])
        usage = (body.get("stream_options") or {}).get("include_usage")
        end = replies.LAST_EVENT + (replies.USAGE_EVENT if usage else b"") + replies.END
        start = replies.STREAM_HEAD + replies.FIRST_EVENTS
        if not self.delays.first_token:
            return self.write(start + (replies.ANSWER if is_answer else replies.REWRITE) + end)
        self.write(start)
        asyncio.get_running_loop().create_task(self.write_slowly(is_answer, end))

    def respond_at_once(self, body: Mapping[str, Any]) -> None:
        """Answer a request of Responses with the whole stream. Its cases have no delays."""
        self.write(replies.STREAM_HEAD + replies.RESPONSE_START + replies.RESPONSE_ANSWER)

    async def write_slowly(self, is_answer: bool, end: bytes) -> None:
        """Send the tokens when they are due; each token of an answer tells the time."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self.delays.first_token
        for _ in range(replies.TOKENS if is_answer else replies.REWRITE_TOKENS):
            await asyncio.sleep(due - loop.time())
            now = replies.stamp(time.monotonic_ns() // 1000)
            self.write(replies.token(now if is_answer else replies.REWRITE_TOKEN))
            due += self.delays.token
        await asyncio.sleep(due - loop.time())
        self.write(end)


class IdentityConnection(Connection):
    """A connection to the managed identity of App Service, and to what controls the fakes."""

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Answer with a token, or change the delays. Raises Rejected."""
        if (method, path) == ("PUT", DELAYS_PATH):
            for name, seconds in json.loads(body).items():
                setattr(self.delays, name, seconds)
            return self.write(replies.json_reply({}))
        require(method == "GET" and path.startswith(TOKEN_PATH), "no such route")
        require(headers.get("x-identity-header") == IDENTITY_HEADER, "x-identity-header")
        expiry = {"expires_on": str(int(time.time()) + 86400), "token_type": "Bearer"}
        # The SDK caches the token for the resource that the response names.
        resource = parse_qs(path.partition("?")[2])["resource"][0]
        self.write(replies.json_reply({"access_token": KEY, "resource": resource, **expiry}))


Service = tuple[Callable[[Any], None], Callable[[Connection, Any], None]]
SERVICES: Mapping[str, Service] = {
    SEARCH_PATH: (check_search, Connection.search),
    RETRIEVE_PATH: (check_retrieve, Connection.retrieve),
    CHAT_PATH: (check_chat, Connection.chat),
    RESPONSES_PATH: (check_responses, Connection.respond_at_once),
    EMBEDDINGS_PATH: (check_embeddings, Connection.embed),
}


async def serve(authority: Path) -> None:
    """Serve until the standard input ends; print the two ports."""
    ca, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.cert_pem.write_to_path(str(authority))
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    loop, delays = asyncio.get_running_loop(), Delays()
    azure = await loop.create_server(lambda: Connection(delays), "127.0.0.1", 0, ssl=tls)
    identity = await loop.create_server(lambda: IdentityConnection(delays), "127.0.0.1", 0)
    ports = [server.sockets[0].getsockname()[1] for server in (azure, identity)]
    print(*ports, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
