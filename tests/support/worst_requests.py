"""The most expensive requests of each route: as large as its limit, in the shape that costs most.

Long runs of combining marks, characters that grow when they are normalized, deep nesting, many
parts, messages or tools. Each is accepted, or refused only after it was read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

JSON_LIMIT = 4 * 1024 * 1024 - 4096  # bytes; the default limit, with room for the frame
FORM_LIMIT = 20 * 1024 * 1024 - 65536
DEPTH = 180  # of nested lists: the JSON parser refuses about 200

QUESTION = {"role": "user", "content": "Does the standard plan have a deductible?"}
MARKS = "a" + "\u0345" * 130_000 + "\u0323" * 130_000  # normalization sorts them
LIGATURES = "\ufdfa" * 1_300_000  # each becomes 18 characters
LISTS: list[Any] = [[]] * 240_000  # 250,000 is the limit
COMPLETIONS = "/v1/chat/completions"
WITH_TOOLS = (COMPLETIONS, "/aog/v0.2/services/chat")
CHATS = ("/chat", "/chat/stream", "/ask", *WITH_TOOLS)
RESPONSES = "/v1/responses"
SEARCHES = ("/_search", "/documents/_search")
BOUNDARY = "boundary"
BOOK = "book.pdf"
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class WorstRequest:
    """A request. `body` is JSON, which is sent with gzip, or bytes, which are sent unchanged."""

    name: str
    path: str
    body: Any = b""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        if isinstance(self.body, bytes):
            return self.body
        return gzip.compress(json.dumps(self.body, ensure_ascii=False).encode(), 1)

    @property
    def all_headers(self) -> dict[str, str]:
        """The headers of the request, including those of the body."""
        encoding = {} if isinstance(self.body, bytes) else {"Content-Encoding": "gzip"}
        return {"Content-Type": "application/json", **encoding, **self.headers}


def nest_lists(depth: int) -> list[Any]:
    """Lists in lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def user(content: Any, **more: Any) -> dict[str, Any]:
    """A body with one message of the user's."""
    return {"messages": [{"role": "user", "content": content}], **more}


def form(images: int) -> bytes:
    """A multipart body with so many images, as large as a form may be."""
    image = b"\x89PNG\r\n\x1a\n" + bytes(FORM_LIMIT // images)
    parts = {f"messages[0].files[{number}]": image for number in range(images)}
    parts["json"] = json.dumps(user("What is this?")).encode()
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="%s"\r\n\r\n'
    pieces = [(head % name).encode() + data + b"\r\n" for name, data in parts.items()]
    return b"".join((*pieces, f"--{BOUNDARY}--\r\n".encode()))


def tool(parameters: Any) -> dict[str, Any]:
    """A tool, as OpenAI's and AOG's requests have it."""
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


def chats() -> Iterator[WorstRequest]:
    """Requests to every route of a chat, and those that only some routes read."""
    turn = ({"role": "user", "content": "x"}, {"role": "assistant", "content": "x"})
    shapes: Mapping[str, Mapping[str, Any]] = {
        "marks": user(MARKS),
        "ligatures": user(LIGATURES),
        "words": user("a b " * (JSON_LIMIT // 4)),
        "messages": {"messages": [*turn * 45_000, QUESTION]},
        "lists": {"messages": [QUESTION], "sessionState": LISTS},
        "nesting": {"messages": [QUESTION], "sessionState": [nest_lists(DEPTH)] * 1_300},
    }
    for path in CHATS:
        for name, body in shapes.items():
            yield WorstRequest(f"{path} {name}", path, body)
    for path in WITH_TOOLS:
        text, image = {"type": "text", "text": "x"}, {"url": "data:image/png;base64,aaaa"}
        yield WorstRequest(f"{path} parts", path, user([text] * 130_000))
        images = [{"type": "image_url", "image_url": image}] * 50_000
        yield WorstRequest(f"{path} images", path, user([*images, text]))
        for name, tools in {
            "a large tool": [tool({"enum": LISTS})],
            "most tools": [tool({"enum": [[]] * 400})] * 128,
        }.items():
            yield WorstRequest(f"{path} {name}", path, user("x", tools=tools))
    items = [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 1_300}] * 60
    inputs = {"items": [*turn * 45_000, QUESTION], "parts": items, "marks": MARKS}
    for name, value in inputs.items():
        yield WorstRequest(f"/chat/stream input {name}", "/chat/stream", {"input": value})
    overrides = {f"k{number}": 0 for number in range(200_000)}
    yield WorstRequest("/chat overrides", "/chat", user("x", context={"overrides": overrides}))
    category = {"overrides": {"include_category": MARKS}}
    yield WorstRequest("/chat category", "/chat", user("x", context=category))
    bytes_by_index = {str(index): 0 for index in range(310_000)}
    for name, data in {"typed array": bytes_by_index, "array": [0] * 1_390_000}.items():
        message = {**QUESTION, "files": [{"data": data}]}
        yield WorstRequest(f"/chat file as {name}", "/chat", {"messages": [message]})
    kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    for count in (1, 199):
        yield WorstRequest(f"/chat form {count}", "/chat", form(count), headers=kind)
    parameters = {"endpoint": "https://x", "index_name": "x", "filter": "(" * 31_000}
    sources = [{"type": "azure_search", "parameters": parameters}]
    yield WorstRequest("/v1 filter", COMPLETIONS, user("x", data_sources=sources))


def responses() -> Iterator[WorstRequest]:
    """Requests to the Responses API."""
    turn = [QUESTION, {"role": "assistant", "content": "x"}]
    text, image = {"type": "input_text", "text": "x"}, {"type": "input_image"}
    image["image_url"] = "data:image/png;base64,aaaa"
    call = {"type": "function_call", "call_id": "c", "name": "f"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    nesting = nest_lists(DEPTH)
    inputs: Mapping[str, Any] = {
        "marks": MARKS,
        "ligatures": LIGATURES,
        "words": "a b " * (JSON_LIMIT // 4),
        "items": [*turn * 35_000, QUESTION],
        "lists": LISTS,
        "nesting": [nesting] * 1_300,
        "parts": [{"role": "user", "content": [text] * 110_000}],
        "images": [{"role": "user", "content": [*[image] * 50_000, text]}],
        "calls": [QUESTION, *[call, output] * 30_000],
        "calls before an output": [QUESTION, *[call] * 80_000, output],
        "most calls": [QUESTION, *[call] * 9_998, output],
        "a long name": [QUESTION, {**call, "name": "f" * 2_000_000}, output],
        "brackets in the answer": "say " + "[" * 390_000,
    }
    for name, value in inputs.items():
        for stream in (False, True):
            body = {"input": value, "stream": stream}
            yield WorstRequest(f"{RESPONSES} {name} stream={stream}", RESPONSES, body)
    fields: Mapping[str, Any] = {
        "instructions": MARKS,
        "metadata": {f"k{number}": 0 for number in range(200_000)},
        "include": LISTS,
        "tools": [{"type": "function", "name": "f", "parameters": [nesting] * 1_300}],
        "text": {"format": {"type": "json_schema", "name": "x", "schema": [nesting] * 1_300}},
        "reasoning": {"effort": LISTS},
        "tool_choice": {"type": "function", "name": "f", "x": LISTS},
        "a" * 3_000_000: 0,
    }
    for name, value in fields.items():
        body = {"input": "x", "stream": True, name: value}
        yield WorstRequest(f"{RESPONSES} {name:.20}", RESPONSES, body)


def searches() -> Iterator[WorstRequest]:
    """Requests to the routes of OpenSearch."""
    texts = {"marks": MARKS, "ligatures": LIGATURES, "terms": "a1 " * (JSON_LIMIT // 3)}
    for path in SEARCHES:
        for name, text in texts.items():
            body = {"query": {"match": {"text": text}}}
            yield WorstRequest(f"{path} {name}", path, body)
        question = {"ext": {"generative_qa_parameters": {"llm_question": MARKS}}}
        yield WorstRequest(f"{path} question", path, question)
    query = {"query": {"match": {"text": "x"}}}
    yield WorstRequest("/_search _source", "/_search", {**query, "_source": ["*a" * 50] * 50})
    nesting = {"query": {"match": {"text": [nest_lists(DEPTH)] * 1_300}}}
    yield WorstRequest("/_search nesting", "/_search", nesting)
    marks = "%CC%A3%CD%85" * 5_000
    yield WorstRequest("/_search q", f"/_search?q=a{marks}", method="GET")
    memory = "/_plugins/_ml/memory"
    yield WorstRequest("memory name", memory, {"name": MARKS})
    turn = {"input": "x" * 2_000_000, "response": "y" * 2_000_000}
    yield WorstRequest("memory messages", f"{memory}/x/messages", turn)
    settings = {"persistent": {f"k{number}": True for number in range(200_000)}}
    yield WorstRequest("cluster settings", "/_cluster/settings", settings, "PUT")
    processor = {"description": MARKS, "model_id": "x", "context_field_list": ["text"]}
    pipeline = {"response_processors": [{"retrieval_augmented_generation": processor}]}
    yield WorstRequest("pipeline", "/_search/pipeline/x", pipeline, "PUT")


def mcp() -> Iterator[WorstRequest]:
    """Messages of MCP; `BOOK` is a document of many passages."""
    message = {"jsonrpc": "2.0", "id": 1}
    texts = {"marks": MARKS, "ligatures": LIGATURES, "words": "a1 " * (JSON_LIMIT // 3)}
    calls: dict[str, tuple[str, Any]] = {
        **{f"search {name}": ("search", {"query": text}) for name, text in texts.items()},
        **{f"ask {name}": ("ask", {"question": text}) for name, text in texts.items()},
        "search lists": ("search", {"query": LISTS}),
        "search arguments": ("search", {"query": "x"} | {f"k{n}": n for n in range(200_000)}),
        "search category": ("search", {"query": "x", "category": MARKS}),
        "fetch all": ("fetch", {"id": BOOK}),
        "fetch a page": ("fetch", {"id": f"{BOOK}#page=7"}),
        "fetch a place": ("fetch", {"id": f"{BOOK}#{'%23' * (JSON_LIMIT // 3)}"}),
        "fetch a file": ("fetch", {"id": "%23" * (JSON_LIMIT // 3)}),
    }
    shapes: dict[str, Any] = {
        "id": {"id": "\u2028" * (JSON_LIMIT // 3), "method": "ping"},
        "number": {"id": 10**4000, "method": "ping"},
        "method": {"method": "x" * JSON_LIMIT},
        "tool": {"method": "tools/call", "params": {"name": "x" * JSON_LIMIT}},
        "lists": {"method": "ping", "params": LISTS},
        "nesting": {"method": "ping", "params": {"x": [nest_lists(DEPTH)] * 1_300}},
        "cursor": {"method": "resources/list", "params": {"cursor": "YWZ0ZXI6" * 500_000}},
        "version": {"method": "initialize", "params": {"protocolVersion": LISTS}},
        **{f"uri {name}": _read(name * (JSON_LIMIT // len(name))) for name in ("%25", ":", "#")},
        "uri of the book": _read(f"{BOOK}#{'%2523' * (JSON_LIMIT // 5)}"),
        **{
            name: {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            for name, (tool, arguments) in calls.items()
        },
    }
    for name, body in shapes.items():
        yield WorstRequest(f"/mcp {name}", "/mcp", message | body)
    for count, notification in {120_000: {"jsonrpc": "2.0", "method": "x"}, 500_000: {}}.items():
        yield WorstRequest(f"/mcp {count} notifications", "/mcp", [notification] * count)
    token = {"name": "ask", "arguments": {"question": "say yes"}}
    token["_meta"] = {"progressToken": "\u2028" * (JSON_LIMIT // 3)}
    events = {"Accept": "application/json, text/event-stream"}
    body = message | {"method": "tools/call", "params": token}
    yield WorstRequest("/mcp progress", "/mcp", body, headers=events)
    for header in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"):
        value = {header: f"=?base64?{'YWJj' * 15_000}?="}
        body = message | {"method": "tools/call", "params": {"_meta": MODERN, "name": "x"}}
        right = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
        yield WorstRequest(f"/mcp {header}", "/mcp", body, headers=right | value)


def _read(path: str) -> dict[str, Any]:
    return {"method": "resources/read", "params": {"uri": f"document:///{path}"}}


def headers() -> Iterator[WorstRequest]:
    """Headers and paths of the maximum length of a web server."""
    body = json.dumps(user("x")).encode()
    for name, value in {
        "Content-Type": 'application/json; a="' + ";" * 60_000,
        "Accept": ",;" * 30_000,
        "traceparent": "0-" * 30_000,
        "tracestate": "a=b," * 15_000,
    }.items():
        yield WorstRequest(name, "/chat/stream", body, headers={name: value})
    path = "/content/plans/northwind_health_plus.pdf"
    for name, value in {
        "Range": "bytes=" + " " * 60_000 + "x",
        "If-None-Match": '"' * 60_000,
        "If-Modified-Since": "(" * 60_000,
        "If-Range": "(" * 60_000,
    }.items():
        conditional = {"Range": "bytes=0-", name: value}
        yield WorstRequest(name, path, method="GET", headers=conditional)
    yield WorstRequest("path", "/content/a" + "%CC%A3%CD%85" * 5_000, method="GET")
