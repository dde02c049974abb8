"""Messages of the Model Context Protocol: JSON-RPC 2.0 in both eras of the protocol.

The modern era (2026-07-28) has no handshake: each request names its version in `params._meta`. The
old era (2024-11-05 to 2025-11-25) begins with `initialize`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shared.domain.errors import BadRequest, ChatError, TooManyRequests
from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import User
from shared.http.call import Json, Reply
from shared.protocols.exchange import ErrorFormat, Exchange
from shared.protocols.mcp import documents

MODERN = "2026-07-28"
OLD = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS = (MODERN, *OLD)
META = "io.modelcontextprotocol"
SERVER = {"name": "serverless-rag-chat", "version": "0.1.0"}
# The parameter that the header `Mcp-Name` repeats, by method.
NAMES = {"tools/call": "name", "resources/read": "uri"}
HOUR = 3_600_000  # milliseconds

_BASE64 = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


class RpcError(BadRequest):
    """An error of the message itself, with its JSON-RPC code and data."""

    code: ClassVar[int] = -32600
    data: Json | None = None


class InvalidRequest(RpcError):
    """The message is not a request or a notification of JSON-RPC."""

    default = 'Send one JSON-RPC request: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}.'


class ParseError(RpcError):
    """The body is not valid JSON."""

    code = -32700


class InvalidParams(RpcError):
    """The `params` of a request are not valid."""

    code = -32602


class MethodNotFound(RpcError):
    """The server does not have the method, or not in this era of the protocol."""

    code = -32601
    default = "This server does not have this method."


class HeaderMismatch(RpcError):
    """A header is missing, or differs from the body."""

    code = -32020


class UnsupportedVersion(RpcError):
    """The version of the protocol is not supported."""

    code = -32022
    default = f"The supported versions of the protocol are {', '.join(VERSIONS)}."

    def __init__(self, requested: str) -> None:
        super().__init__()
        self.data = {"supported": list(VERSIONS), "requested": requested}


class ResourceNotFound(RpcError):
    """The resource does not exist, or this user may not see it: not distinguished."""

    code = -32602
    default = "There is no such document."

    def __init__(self, uri: str) -> None:
        super().__init__()
        self.data = {"uri": uri}


class NotAcceptable(ChatError):
    """The client does not accept JSON."""

    status = 406
    default = "Accept application/json: that is what this server sends."


@dataclass(frozen=True, slots=True)
class RpcMessage:
    """A request, or a notification."""

    id: str | int | float | None  # None for a notification
    method: str
    params: Mapping[str, Any]
    modern: bool  # the era of the protocol

    @property
    def meta(self) -> Mapping[str, Any]:
        """The metadata of the request."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def progress_token(self) -> str | int | float | None:
        """The token for progress notifications; None if the client requests none."""
        token = self.meta.get("progressToken")
        return token if _is_id(token) else None


def parse(value: Any, headers: Mapping[str, str]) -> RpcMessage:
    """Parse a message, without the checks of its era. `headers` have lower-case names.

    Raises InvalidRequest.
    """
    # A posted response has no method, a batch is a list: both are left out here.
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise InvalidRequest
    method, id, params = value.get("method"), value.get("id"), value.get("params", {})
    if not isinstance(method, str) or ("id" in value and not _is_id(id)):
        raise InvalidRequest
    message = RpcMessage(id, method, params if isinstance(params, dict) else {}, False)
    is_modern = headers.get("mcp-protocol-version", "").strip() == MODERN
    is_modern = is_modern or f"{META}/protocolVersion" in message.meta
    return RpcMessage(id, method, params, is_modern)


def check(message: RpcMessage, headers: Mapping[str, str]) -> None:
    """Check a request by the rules of its era, in their order. Raises RpcErrors."""
    if not isinstance(message.params, dict):
        raise InvalidParams("params: must be an object")
    if message.modern:
        _check_modern(message, headers)
    else:
        version = headers.get("mcp-protocol-version", OLD[0]).strip()
        if version not in OLD:
            raise UnsupportedVersion(version)


def _check_modern(message: RpcMessage, headers: Mapping[str, str]) -> None:
    version = message.meta.get(f"{META}/protocolVersion")
    if not isinstance(version, str):
        raise InvalidParams(f"_meta: {META}/protocolVersion is required, a string")
    if not isinstance(message.meta.get(f"{META}/clientCapabilities"), dict):
        raise InvalidParams(f"_meta: {META}/clientCapabilities is required, an object")
    repeated: dict[str, Any] = {"MCP-Protocol-Version": version, "Mcp-Method": message.method}
    if name := NAMES.get(message.method):
        repeated["Mcp-Name"] = message.params.get(name)
    for header, value in repeated.items():
        text = _decode_header(headers.get(header.lower()))
        if text is None or text != value:
            raise HeaderMismatch(f"The header {header} is missing, or differs from the body.")
    if version != MODERN:
        raise UnsupportedVersion(version)


def _decode_header(value: str | None) -> str | None:
    """Decode `=?base64?...?=`, which stands for text that no header may have; None if invalid."""
    value = value.strip() if value is not None else None
    match = _BASE64.fullmatch(value) if value else None
    if not match:
        return value
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _is_id(value: Any) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, str) or (is_whole and not isinstance(value, bool))


def response(
    message: RpcMessage, result: Json, ttl: int | None = None, scope: str = "public"
) -> Json:
    """Return the response to a request.

    Of a modern one the client may cache the result for `ttl` milliseconds, for all users or, with
    the `scope` "private", for this one.
    """
    if message.modern:
        caching = {} if ttl is None else {"ttlMs": ttl, "cacheScope": scope}
        meta = {f"{META}/serverInfo": SERVER}
        result = {**result, **caching, "resultType": "complete", "_meta": meta}
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def progress(message: RpcMessage, step: int, text: str) -> Json:
    """Return a progress notification; `step` counts from 1."""
    params = {"progressToken": message.progress_token, "progress": step, "message": text}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def write_error(failure: ChatError, message: RpcMessage | None) -> Json:
    """Return the JSON of an error. `message` is None if it could not be parsed."""
    default = -32603 if _is_internal(failure) else -32600
    code = failure.code if isinstance(failure, RpcError) else default
    if isinstance(failure, ResourceNotFound) and message and not message.modern:
        code = -32002
    value: Json = {"code": code, "message": failure.message}
    if isinstance(failure, RpcError) and failure.data:
        value["data"] = failure.data
    return {"jsonrpc": "2.0", "id": message.id if message else None, "error": value}


def status(failure: ChatError, message: RpcMessage | None) -> int:
    """Return the HTTP status of an error.

    Clients of the old era take any other status than 200 for a broken connection, and never show
    the error: it is for a request that could not be read alone.
    """
    if message is None:
        return failure.status
    if message.modern:
        return 404 if isinstance(failure, MethodNotFound) else 500 if _is_internal(failure) else 400
    return 400 if isinstance(failure, InvalidRequest | UnsupportedVersion) else 200


def _is_internal(failure: ChatError) -> bool:
    """Whether the request is valid, and a service behind the app has failed, or is busy."""
    return failure.status >= 500 or isinstance(failure, TooManyRequests)


ERRORS = ErrorFormat(name="mcp", write_error=write_error, status=status)


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as the methods of the protocol receive it."""

    exchange: Exchange
    message: RpcMessage
    user: User

    @property
    def base_url(self) -> str:
        """The app's own address; empty if it is unknown."""
        return self.exchange.app.config(documents.McpConfig).base_url

    def with_filters(self, overrides: Overrides = UNSET) -> Overrides:
        """Return the overrides with the security filters of the user."""
        return self.exchange.app.access.apply_filters(self.user, overrides)

    def reply(self, result: Json, ttl: int | None = None, scope: str = "public") -> Reply:
        """Return the reply with a result; see `response`."""
        return self.exchange.json_reply(response(self.message, result, ttl, scope))

    def check_no_cursor(self) -> None:
        """Check the request of a list that has one page. Raises InvalidParams."""
        if self.message.params.get("cursor") is not None:
            raise InvalidParams("cursor: is not known here: this list has one page")

    async def fetch(self, id: str) -> Json:
        """Return a document, or a page of it, that the user may see. Raises NotFound."""
        retriever, overrides = self.exchange.rag.retriever, self.with_filters()
        async with self.exchange.app.lookups:
            passages = await documents.find_passages(retriever, self.user, id, overrides)
        self.exchange.record.hits = len(passages)
        return documents.format_document(id, passages, self.base_url)
