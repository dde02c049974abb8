"""MCP with messages near enough to right ones: valid responses that quote nothing of them."""

from __future__ import annotations

import base64
import json
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from shared.protocols.mcp.messages import META, VERSIONS
from shared.protocols.mcp.tools import TOOLS
from shared.retrieval.sqlite.retriever import SqliteRetriever
from tests.support.calls import JSON, BufferedReply, ask, call, local_service, read_events
from tests.support.fakes import PLUS, STANDARD, FakeRetriever, make_rag
from tests.support.fuzz import EXAMPLES, FUZZ, junk, replaced, words

MARK = "s3cret"  # in each string that is sent, so that a quotation is found
MODERN, *OLD = VERSIONS
STRANGE = replace(
    STANDARD,
    id="x",
    sourcepage="\u00fc/a%5B1%5D b.md#2",
    sourcefile="\u00fc/a%5B1%5D b.md",
    category=None,
)
SOURCES = (PLUS, STANDARD, STRANGE)
SCHEMAS = {
    (tool["name"], part): Draft202012Validator(tool[part])
    for tool in TOOLS
    for part in ("inputSchema", "outputSchema")
}

texts = words.map(lambda text: f"{MARK} dental {text}")
numbers = st.integers() | st.integers().map(float)
ids = numbers | texts
places = st.sampled_from([name for each in SOURCES for name in (each.sourcefile, each.sourcepage)])
uris = places.map(lambda place: f"document:///{place}")
options = {"top": st.integers(1, 50) | st.none(), "category": st.sampled_from(["plans", None])}
ARGUMENTS: Mapping[str, Any] = {
    "search": ({"query": texts}, {**options, MARK: junk}),
    "fetch": ({"id": places | places | texts}, {}),
    "ask": ({"question": texts}, options),
}
PARAMETERS: Mapping[str, Any] = {
    "tools/list": ({}, {"cursor": st.none()}),
    "resources/list": ({}, {"cursor": st.none() | texts}),
    "resources/templates/list": ({}, {}),
    "resources/read": ({"uri": uris | uris | texts}, {}),
    "server/discover": ({}, {}),
    "initialize": ({"protocolVersion": st.sampled_from(VERSIONS) | texts}, {"clientInfo": junk}),
    "ping": ({}, {}),
    "prompts/list": ({}, {}),
}
METHODS = [*PARAMETERS, *["resources/read"] * 3, *["tools/call"] * 12]


@dataclass(frozen=True)
class Request:
    """A request: its message, and the bytes and headers that are sent."""

    message: Any
    headers: Mapping[str, str]
    data: bytes


def plant(value: Any) -> Any:
    """Put the mark in each string of a JSON value."""
    if isinstance(value, dict):
        return {MARK + key: plant(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plant(each) for each in value]
    return MARK + value if isinstance(value, str) else value


def to_header(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@st.composite
def parameters(draw: st.DrawFn, method: str) -> dict[str, Any]:
    """Right parameters of a method."""
    if method != "tools/call":
        required, optional = PARAMETERS[method]
        return draw(st.fixed_dictionaries(required, optional=optional))
    name = draw(st.sampled_from([*ARGUMENTS]))
    required, optional = ARGUMENTS[name]
    arguments = draw(st.fixed_dictionaries(required, optional=optional))
    return {"name": name, "arguments": arguments, "_meta": {"progressToken": draw(ids)}}


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A right request of either era; in four of ten a value, a header or the end is wrong."""
    chance = draw(st.randoms(use_true_random=True))  # hypothesis' own likes the first choice best
    method, version = chance.choice(METHODS), chance.choice([MODERN, MODERN, *OLD])
    params = draw(parameters(method))
    headers = {"mcp-protocol-version": version, "mcp-session-id": MARK, "user-agent": MARK}
    headers["accept"] = chance.choice(["application/json", "application/json, text/event-stream"])
    if version == MODERN:
        name = params.get("name", params.get("uri"))
        headers |= {"mcp-method": method, **({"mcp-name": to_header(name)} if name else {})}
        meta = {f"{META}/protocolVersion": version, f"{META}/clientCapabilities": {}}
        params["_meta"] = params.get("_meta", {}) | meta
    message: Any = {"jsonrpc": "2.0", "id": draw(ids), "method": method, "params": params}
    message = json.loads(json.dumps(message))
    return make_wrong(chance, message, headers, plant(draw(junk)))


def make_wrong(chance: Random, message: Any, headers: dict[str, str], instead: Any) -> Request:
    """Make something of a request wrong, or leave it right."""
    how = chance.random()
    if how < 0.2:
        replaced(message["params"] or message, chance, instead)
    elif how < 0.27:
        replaced(message, chance, instead)
    elif how < 0.34:
        headers[chance.choice([*headers])] = chance.choice(["", MARK])
    data = json.dumps(message).encode()
    end = chance.randrange(len(data)) if how > 0.97 else len(data)
    return Request(message, JSON | headers, data[:end])


def check_frame(request: Request, response: Any) -> None:
    """The response is one of JSON-RPC, to this request."""
    (outcome,) = response.keys() - {"jsonrpc", "id"}
    unread = outcome == "error" and response["error"]["code"] in (-32700, -32600)

    assert (response["jsonrpc"], outcome in ("result", "error")) == ("2.0", True)
    if not unread or response["id"] is not None:
        assert json.dumps(response["id"]) == json.dumps(request.message["id"])


def check_result(request: Request, result: Any) -> None:
    """The result has the form of its era, and that of a tool fits the schemas."""
    params, is_modern = request.message.get("params") or {}, "resultType" in result
    has_version = f"{META}/protocolVersion" in (params.get("_meta") or {})

    assert is_modern == (has_version or request.headers["mcp-protocol-version"] == MODERN)
    if request.message["method"] != "tools/call":
        return
    name = params["name"]
    given_ = {
        key: each for key, each in (params.get("arguments") or {}).items() if each is not None
    }
    if result["isError"]:
        assert result.keys() & {"content", "structuredContent"} == {"content"}
        return
    SCHEMAS[name, "inputSchema"].validate(given_)
    SCHEMAS[name, "outputSchema"].validate(result["structuredContent"])
    if name != "ask":
        (item,) = result["content"]
        assert json.loads(item["text"]) == result["structuredContent"]


def without_echoes(response: Any) -> str:
    """A response as text, without what may repeat the request."""
    error = {**response.get("error", {})}
    data = {**error.pop("data", {}), "uri": "", "requested": ""}
    return json.dumps([response.get("result"), error, data])


def check(request: Request, reply: BufferedReply, is_failing: bool) -> str:
    """Check a reply. Returns its outcome."""
    if reply.status == 202:
        assert (reply.data, "id" in request.message) == (b"", False)
        return "accepted"
    *steps, response = read_events(reply) if "event-stream" in reply.media_type else [reply.json]
    result = response.get("result")
    statuses = (200, 400, 404, 406, *((500,) if is_failing else ()))

    assert reply.status in statuses, request
    assert [each["params"]["progress"] for each in steps] == [*range(1, len(steps) + 1)]
    check_frame(request, response)
    if result is not None:
        assert reply.status == 200
        check_result(request, result)
        if not result.get("isError"):
            return "result"
    assert MARK not in without_echoes(response), request
    return "tool error" if result else str(response["error"]["code"])


@pytest.mark.parametrize("is_failing", [False, True])
def test_hundreds_of_messages_near_the_right_ones_get_valid_responses(
    is_failing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: Counter[str] = Counter()
    caplog.set_level(logging.INFO)

    @FUZZ
    @given(requests())
    def each(request: Request) -> None:
        caplog.clear()
        reply = ask(call("/mcp", request.data, request.headers), service)
        outcomes[check(request, reply, is_failing)] += 1

        assert MARK not in caplog.text, request

    with closing(SqliteRetriever(SOURCES)) as index:
        retriever = FakeRetriever(error=RuntimeError(MARK)) if is_failing else index
        service = local_service(replace(make_rag(), retriever=retriever))
        each()

    answered = outcomes["result"] + (outcomes["tool error"] if is_failing else 0)
    assert outcomes.total() >= EXAMPLES
    assert answered >= outcomes.total() / 3, outcomes
    assert outcomes.total() - answered >= outcomes.total() / 10, outcomes
