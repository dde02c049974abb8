"""All ways to the passages of an upload, and callers who do not own it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from shared.http.call import Call
from tests.support.calls import BEN, JSON, call

KEY = "the-key-of-the-clients"
SECRETS = {"anna": "quokka", "ben": "numbat"}
QUESTION = "Which animal is on the secret badge?"
ASKING = {"messages": [{"role": "user", "content": QUESTION}]}


def text_of(owner: str) -> bytes:
    return f"# Badges\n\nThe animal on the secret badge is the {SECRETS[owner]}.".encode()


MCP = {"accept": "application/json, text/event-stream"}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def method(name: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}


SEARCH = {"ext": {"generative_qa_parameters": {"llm_question": QUESTION}}}
PARTS = {"messages": [{"role": "user", "parts": [{"type": "text", "text": QUESTION}]}]}
# Each way to a passage: the route, and the body, where `{file}` is the name of the document, `{id}`
# and `{name}` its two parts.
MENTION = f"{QUESTION} It must be in {{name}}."
MENTIONING = {"messages": [{"role": "user", "content": MENTION}]}
MENTIONING_PARTS = {"messages": [{"role": "user", "parts": [{"type": "text", "text": MENTION}]}]}
NAMING_PARTS = [{"type": "file", "file": {"file_id": "{id}"}}, {"type": "text", "text": QUESTION}]
NAMING = {"messages": [{"role": "user", "content": NAMING_PARTS}]}
INPUT_PARTS = [{"type": "input_file", "file_id": "{id}"}, {"type": "input_text", "text": QUESTION}]
NAMING_INPUT = {"input": [{"role": "user", "content": INPUT_PARTS}]}
WAYS: list[Any] = [
    ("/chat", ASKING),
    ("/chat/stream", ASKING),
    ("/ask", ASKING),
    ("/chat", MENTIONING),
    ("/ask", MENTIONING),
    pytest.param(("/api/chat", PARTS), marks=pytest.mark.part("ai-sdk")),
    pytest.param(("/api/chat", MENTIONING_PARTS), marks=pytest.mark.part("ai-sdk")),
    pytest.param(("/aog/v0.2/services/{service}", ASKING), marks=pytest.mark.part("aog")),
    pytest.param(("/v1/chat/completions", ASKING), marks=pytest.mark.part("openai")),
    pytest.param(("/openai/v1/chat/completions", ASKING), marks=pytest.mark.part("openai")),
    pytest.param(("/v1/chat/completions", NAMING), marks=pytest.mark.part("openai")),
    pytest.param(("/v1/chat/completions", MENTIONING), marks=pytest.mark.part("openai")),
    pytest.param(("/v1/responses", {"input": MENTION}), marks=pytest.mark.part("responses")),
    pytest.param(("/v1/responses", {"input": QUESTION}), marks=pytest.mark.part("responses")),
    pytest.param(("/v1/responses", NAMING_INPUT), marks=pytest.mark.part("responses")),
    pytest.param(("/_search", SEARCH), marks=pytest.mark.part("opensearch")),
    pytest.param(("/{index}/_search", SEARCH), marks=pytest.mark.part("opensearch")),
    pytest.param(("/mcp", tool("search", query=QUESTION)), marks=pytest.mark.part("mcp")),
    pytest.param(("/mcp", tool("ask", question=QUESTION)), marks=pytest.mark.part("mcp")),
    pytest.param(("/mcp", tool("ask", question=MENTION)), marks=pytest.mark.part("mcp")),
    pytest.param(("/mcp", tool("fetch", id="{file}")), marks=pytest.mark.part("mcp")),
    pytest.param(
        ("/mcp", method("resources/read", uri="document:///{file}")), marks=pytest.mark.part("mcp")
    ),
    pytest.param(("/content/{path}", None), marks=pytest.mark.part("content")),
]
PRINCIPAL = {
    "claims": [
        {"typ": "groups", "val": "anna"},
        {"typ": "tid", "val": "another-tenant"},
        {"typ": "roles", "val": "Chat.Admin"},
    ]
}
IN_GROUP = base64.b64encode(json.dumps(PRINCIPAL).encode()).decode()
STRANGERS = {
    "another user": BEN,
    "another tenant": JSON | {"x-ms-client-principal-id": "eve", "x-ms-client-principal": IN_GROUP},
    "a function key": JSON | {"x-functions-key": "k"},
    "the key of the app": JSON | {"api-key": KEY},
    "nobody": JSON,
}


def fill(way: tuple[str, Any], file: str) -> tuple[str, Any]:
    """The path of a way in its route, and its body, where `file` is the name of the document."""
    route, body = way
    places = {"{service}": "chat", "{index}": "documents", "/content/{path}": file}
    path = next((value for name, value in places.items() if name in route), "")
    id, _, name = file.partition("/")
    text = json.dumps(body).replace("{file}", file).replace("{id}", id).replace("{name}", name)
    return path, body and json.loads(text)


def request(way: tuple[str, Any], headers: dict[str, str], file: str) -> Call:
    """The call of a way."""
    path, body = fill(way, file)
    if body is None:
        return call(way[0], headers=headers, method="GET", path=path)
    return call(way[0], body, headers | MCP, path=path)
