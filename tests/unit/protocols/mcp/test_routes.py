"""The Model Context Protocol: messages of both eras, tools, resources and their errors."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from shared.app import handle_call
from shared.domain import errors
from shared.domain.events import Delta, Done, Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.http.auth import AccessPolicy, CrossOriginPolicy
from shared.http.call import AnswerSlots, Limits
from shared.protocols.exchange import App
from shared.protocols.mcp import documents, messages
from shared.protocols.mcp.documents import McpConfig
from shared.protocols.mcp.tools import TOOLS
from shared.retrieval.base import WHOLE_FILE, FilePart, SearchResult, shorten_query
from tests.support.calls import JSON, BufferedReply, ask, call, local_service, read, read_events
from tests.support.fakes import PLUS, STANDARD, FakeModel, FakeRetriever, make_rag
from tests.support.fuzz import TIMEOUT
from tests.support.servers import ROOT

KEY = "io.modelcontextprotocol"
META = {f"{KEY}/protocolVersion": "2026-07-28", f"{KEY}/clientCapabilities": {}}
VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
ANNA = {"x-ms-client-principal-id": "anna"}


def old(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    """A request of the old era."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def modern(method: str, **params: Any) -> dict[str, Any]:
    """A request of the modern era."""
    return old(method, {"_meta": META, **params})


def modern_headers(method: str, name: str = "", **more: str) -> dict[str, str]:
    """The headers of a modern request, which repeat its body."""
    names = {"mcp-name": name} if name else {}
    return {"mcp-protocol-version": "2026-07-28", "mcp-method": method, **names, **more}


def post(
    body: Any, headers: Mapping[str, str] | None = None, service: App | None = None
) -> BufferedReply:
    return ask(call("/mcp", body, JSON | dict(headers or {})), service)


def tool_request(name: str, **arguments: Any) -> dict[str, Any]:
    """An old client's call of a tool."""
    return old("tools/call", {"name": name, "arguments": arguments})


def call_tool(name: str, service: App | None = None, **arguments: Any) -> Any:
    """The result of a tool, called by an old client."""
    reply = post(tool_request(name, **arguments), service=service)
    assert reply.status == 200
    return reply.json["result"]


def error_text(result: Any) -> str:
    """The sentence of a tool that failed."""
    assert result["isError"] is True
    assert "structuredContent" not in result
    (item,) = result["content"]
    return str(item["text"])


def service_with(*sources: Source, **parts: Any) -> App:
    return local_service(make_rag(retriever=FakeRetriever(sources)), **parts)


# Messages


@pytest.mark.parametrize("body", [[old("ping")], "x", 5, None, {}, {"id": 1, "method": "ping"}])
def test_other_json_is_no_request(body: Any) -> None:
    reply = post(body)

    assert reply.status == 400
    assert reply.json["error"]["code"] == -32600
    assert reply.json["id"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"method": 5},
        {"method": None},
        {"id": None},
        {"id": True},
        {"id": 1.5},
        {"id": {}},
        {"id": []},
    ],
)
def test_a_wrong_frame_is_no_request(change: dict[str, Any]) -> None:
    reply = post({**old("ping"), **change})

    assert (reply.status, reply.json["error"]["code"]) == (400, -32600)


def test_a_posted_response_is_no_request() -> None:
    reply = post({"jsonrpc": "2.0", "id": 1, "result": {}})

    assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32600, None)


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"\xff", b"[" * 1000])
def test_a_body_that_is_not_json_is_a_parse_error(body: bytes) -> None:
    reply = post(body)

    assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32700, None)


@pytest.mark.parametrize("id", [0, -1, "", "a", "x" * 10_000, 2**63, 3.0])
def test_an_id_comes_back_as_it_was(id: Any) -> None:
    assert post(old("ping", id=id)).json == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.parametrize("params", [[], "x", 5, None])
def test_params_that_are_no_object_are_invalid(params: Any) -> None:
    request = {**old("ping"), "params": params}
    first, second = post(request), post(request, modern_headers("ping"))

    assert (first.status, first.json["error"]["code"], first.json["id"]) == (200, -32602, 1)
    assert (second.status, second.json["error"]["code"], second.json["id"]) == (400, -32602, 1)


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled", "x"])
@pytest.mark.parametrize("headers", [{}, {"mcp-protocol-version": "2026-07-28"}])
def test_a_notification_is_accepted_and_does_nothing(method: str, headers: dict[str, str]) -> None:
    reply = post({"jsonrpc": "2.0", "method": method}, headers)

    assert (reply.status, reply.data) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD"])
def test_other_methods_of_http_are_not_allowed(method: str) -> None:
    reply = ask(call("/mcp", [b""], JSON, method=method))

    assert (reply.status, reply.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("application/json, text/event-stream", 200),
        ("text/event-stream, APPLICATION/JSON;q=0.5", 200),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("application/json;q=0, text/event-stream", 406),
    ],
)
def test_the_client_must_accept_json(accept: str, status: int) -> None:
    assert post(old("ping"), {"accept": accept}).status == status


def test_other_media_types_are_refused_without_naming_them() -> None:
    reply = ask(call("/mcp", old("ping"), {"content-type": "text/secret"}))

    assert reply.status == 415
    assert b"secret" not in reply.data


def test_a_form_is_refused() -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="json"\r\n\r\n%s\r\n--x--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=x"}
    reply = ask(call("/mcp", part % json.dumps(old("ping")).encode(), headers))

    assert reply.status == 415


def test_a_body_over_the_limit_is_too_large() -> None:
    service = local_service(make_rag(), limits=Limits(json_bytes=100))

    reply = post(old("ping", {"a": "x" * 100}), service=service)

    assert (reply.status, reply.json["error"]["code"]) == (413, -32600)


def test_wrong_settings_are_a_503() -> None:
    reply = post(old("ping"), service=App(problems=("X is required",)))

    assert (reply.status, reply.json["error"]["code"]) == (503, -32603)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000"])
def test_a_page_of_another_origin_is_refused_outside_a_laptop(origin: str) -> None:
    policy = CrossOriginPolicy(frozenset({"https://app.example.com"}))
    service = local_service(make_rag(), cross_origin=policy)

    assert post(old("ping"), {"origin": origin}, service).status == 403
    assert post(old("ping"), {"origin": "https://app.example.com"}, service).status == 200


# Eras


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({}, -32602),
        (5, -32602),
        ({f"{KEY}/protocolVersion": 5, f"{KEY}/clientCapabilities": {}}, -32602),
        ({f"{KEY}/protocolVersion": "2026-07-28"}, -32602),
        ({f"{KEY}/protocolVersion": "2026-07-28", f"{KEY}/clientCapabilities": []}, -32602),
        ({f"{KEY}/protocolVersion": "2025-11-25", f"{KEY}/clientCapabilities": {}}, -32020),
    ],
)
def test_a_modern_request_says_who_it_is(meta: Any, code: int) -> None:
    reply = post(old("tools/list", {"_meta": meta}), modern_headers("tools/list"))

    assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, code, 1)


@pytest.mark.parametrize(
    ("meta", "code"), [({}, -32602), ({**META, f"{KEY}/protocolVersion": "2030-01-01"}, -32020)]
)
def test_the_checks_of_a_modern_request_have_an_order(meta: Any, code: int) -> None:
    reply = post(old("tools/list", {"_meta": meta}), modern_headers("ping"))

    assert reply.json["error"]["code"] == code


@pytest.mark.parametrize(("version", "code"), [(" 2025-06-18 ", None), (" 2026-07-28 ", -32602)])
def test_spaces_around_the_version_do_not_count(version: str, code: int | None) -> None:
    reply = post(old("tools/list"), {"mcp-protocol-version": version})

    assert reply.json.get("error", {}).get("code") == code


@pytest.mark.parametrize("missing", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_a_modern_request_repeats_its_body_in_headers(missing: str) -> None:
    request = modern("tools/call", name="search", arguments={"query": "x"})
    headers = modern_headers("tools/call", "search")
    left = {name: value for name, value in headers.items() if name != missing}

    assert post(request, headers).status == 200
    for wrong in (left, {**headers, missing: "Other"}):
        reply = post(request, wrong)
        assert (reply.status, reply.json["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("  document:///plans/plus.pdf ", 200),
        (f"=?base64?{base64.b64encode(b'document:///plans/plus.pdf').decode()}?=", 200),
        ("DOCUMENT:///plans/plus.pdf", 400),
        (f"=?base64?!{base64.b64encode(b'document:///plans/plus.pdf').decode()}?=", 400),
        ("=?base64?!?=", 400),
        ("=?base64?/w==?=", 400),
        ("", 400),
    ],
)
def test_a_header_is_compared_after_decoding(header: str, status: int) -> None:
    request = modern("resources/read", uri="document:///plans/plus.pdf")
    headers = {**modern_headers("resources/read"), "mcp-name": header}

    assert post(request, headers).status == status


def test_a_header_that_cannot_be_decoded_differs() -> None:
    method = "=?base64?!?="
    reply = post(modern(method), modern_headers(method))

    assert (reply.status, reply.json["error"]["code"]) == (400, -32020)


def test_another_version_is_refused_with_the_versions_that_there_are() -> None:
    meta = {**META, f"{KEY}/protocolVersion": "2030-01-01"}
    headers = modern_headers("tools/list") | {"mcp-protocol-version": "2030-01-01"}
    first = post(old("tools/list", {"_meta": meta}), headers)
    second = post(old("tools/list"), {"mcp-protocol-version": "2030-01-01"})

    for reply in (first, second):
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32022, 1)
        data = {"supported": VERSIONS, "requested": "2030-01-01"}
        assert reply.json["error"]["data"] == data


@pytest.mark.parametrize("version", [None, *VERSIONS[1:]])
def test_old_requests_need_no_handshake(version: str | None) -> None:
    headers = {"mcp-protocol-version": version} if version else {}
    reply = post(old("tools/list"), headers | {"mcp-session-id": "s", "last-event-id": "5"})

    assert [tool["name"] for tool in reply.json["result"]["tools"]] == ["search", "fetch", "ask"]
    assert "resultType" not in reply.json["result"]
    assert not any(name.lower() == "mcp-session-id" for name in reply.headers)


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-28", None, 5])
def test_a_handshake_falls_back_to_the_newest_old_version(version: Any) -> None:
    result = post(old("initialize", {"protocolVersion": version})).json["result"]

    assert result["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("method", "in_modern", "in_old"),
    [
        ("tools/list", True, True),
        ("server/discover", True, False),
        ("initialize", False, True),
        ("ping", False, True),
        ("prompts/list", False, False),
        ("completion/complete", False, False),
        ("subscriptions/listen", False, False),
        ("x" * 1000, False, False),
    ],
)
def test_an_unknown_method_is_404_for_modern_clients_alone(
    method: str, in_modern: bool, in_old: bool
) -> None:
    first, second = post(modern(method), modern_headers(method)), post(old(method))

    assert ("error" not in first.json, "error" not in second.json) == (in_modern, in_old)
    if not in_modern:
        assert (first.status, first.json["error"]["code"]) == (404, -32601)
    if not in_old:
        assert (second.status, second.json["error"]["code"]) == (200, -32601)


@pytest.mark.parametrize("method", ["tools/list", "resources/templates/list"])
def test_a_list_of_one_page_takes_no_cursor(method: str) -> None:
    assert post(old(method, {"cursor": "x"})).json["error"]["code"] == -32602
    assert "error" not in post(old(method, {"cursor": None})).json


@pytest.mark.parametrize(
    ("method", "scope"),
    [
        ("server/discover", (3_600_000, "public")),
        ("tools/list", (3_600_000, "public")),
        ("resources/templates/list", (3_600_000, "public")),
        ("resources/list", (0, "private")),
    ],
)
def test_modern_clients_cache_what_is_the_same_for_all(method: str, scope: Any) -> None:
    result = post(modern(method), modern_headers(method)).json["result"]

    assert (result["ttlMs"], result["cacheScope"]) == scope


def test_answers_are_not_cached_by_http() -> None:
    assert post(old("tools/list")).headers["Cache-Control"] == "no-store"


def test_the_version_of_the_server_is_that_of_the_template() -> None:
    template = yaml.safe_load((ROOT / "azure.yaml").read_text("utf-8"))["metadata"]["template"]

    assert template.endswith(f"@{messages.SERVER['version']}")


# Tools


def test_each_tool_describes_itself_to_models() -> None:
    listed = post(old("tools/list")).json["result"]["tools"]

    assert listed == json.loads(json.dumps(TOOLS))
    for tool in listed:
        assert tool["title"]
        assert tool["description"].endswith(".")
        assert tool["annotations"] == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert "$ref" not in json.dumps(tool)
        (required,) = tool["inputSchema"]["required"]
        assert next(iter(tool["inputSchema"]["properties"])) == required


HIT = {"id": "a.md", "title": "a.md", "url": "https://x/a.md", "text": "A."}
METADATA = {"document": "a.md", "truncated": "false"}


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("search", {"results": [HIT]}, ["results", 0]),
        ("fetch", {**HIT, "metadata": METADATA}, []),
        ("fetch", {**HIT, "metadata": METADATA}, ["metadata"]),
        ("ask", {"answer": "A.", "citations": [HIT]}, []),
        ("ask", {"answer": "A.", "citations": [HIT]}, ["citations", 0]),
    ],
)
def test_clients_can_rely_on_each_field_of_a_result(
    name: str, value: Any, place: list[Any]
) -> None:
    (schema,) = [tool["outputSchema"] for tool in TOOLS if tool["name"] == name]
    is_valid = Draft202012Validator(schema).is_valid
    value = deepcopy(value)
    fields = reduce(getitem, place, value)

    assert is_valid(value)
    for key in [*fields]:
        field = fields.pop(key)
        assert not is_valid(value)
        fields[key] = field


@pytest.mark.parametrize("top", [0, 1, 1.0, 50, 51, "5", 2.5, True])
def test_the_published_range_of_top_is_what_is_accepted(top: Any) -> None:
    arguments = {"query": "x", "top": top}
    validator = Draft202012Validator(TOOLS[0]["inputSchema"])

    assert validator.is_valid(arguments) != call_tool("search", **arguments)["isError"]


@pytest.mark.parametrize(
    ("params", "era"),
    [
        ({"name": "delete"}, "old"),
        ({"name": 5}, "old"),
        ({"name": []}, "old"),
        ({}, "old"),
        ({"name": "search", "arguments": [1]}, "old"),
        ({"name": "search", "arguments": "x"}, "old"),
        ({"name": "delete"}, "modern"),
    ],
)
def test_a_call_of_no_tool_is_an_error_of_the_protocol(params: dict[str, Any], era: str) -> None:
    headers = modern_headers("tools/call", "delete") if era == "modern" else {}
    request = modern("tools/call", **params) if era == "modern" else old("tools/call", params)
    reply = post(request, headers)

    assert reply.json["error"]["code"] == -32602
    assert reply.status == (400 if era == "modern" else 200)
    assert "delete" not in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("search", None, "query: is required"),
        ("search", {}, "query: is required"),
        ("search", {"query": None}, "query: is required"),
        ("search", {"query": " \n"}, "query: must not be empty"),
        ("search", {"query": 5}, "query: must be a string"),
        ("search", {"query": "x", "top": 0}, "top: must be 1 or more"),
        ("search", {"query": "x", "top": 51}, "top: must be 50 or less"),
        ("search", {"query": "x", "top": "5"}, "top: must be a whole number"),
        ("search", {"query": "x", "top": 2.5}, "top: must be a whole number"),
        ("search", {"query": "x", "category": 1}, "category: must be a string"),
        ("search", {"query": "x", "category": "x" * 2001}, "category: must have 2000 characters"),
        ("fetch", {"id": ""}, "id: must not be empty"),
        ("fetch", {"id": 5}, "id: must be a string"),
        ("fetch", {"id": "plans/none.pdf"}, "There is no such document."),
        ("ask", {"question": ""}, "question: must not be empty"),
    ],
)
def test_a_wrong_argument_is_an_error_of_the_tool(
    name: str, arguments: dict[str, Any] | None, sentence: str
) -> None:
    reply = post(old("tools/call", {"name": name, "arguments": arguments}))

    assert error_text(reply.json["result"]).startswith(sentence)


FAILURES: Sequence[Exception] = (
    errors.TooManyRequests(),
    errors.Unavailable(),
    errors.Misconfigured(),
    errors.DeadlineExceeded(),
    errors.BadRequest("is not for you", field="include_category"),
    RuntimeError("a secret"),
)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("name", ["search", "fetch", "ask"])
@pytest.mark.parametrize("token", [None, "t"])
def test_a_failure_behind_a_tool_is_an_error_of_the_tool(
    name: str, failure: Exception, token: str | None
) -> None:
    service = local_service(make_rag(retriever=FakeRetriever(error=failure)))
    arguments = {"query": "x", "id": "x", "question": "x"}
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": token}}
    accept = {"accept": "application/json, text/event-stream"}
    reply = post(old("tools/call", params), accept, service)
    text = error_text(reply.json["result"])

    assert reply.status == 200
    assert "Retry-After" not in reply.headers
    if isinstance(failure, RuntimeError):
        assert text == errors.UNEXPECTED_MESSAGE
    elif isinstance(failure, errors.BadRequest):
        assert text == "category: is not for you"
    else:
        assert text == str(failure)


class HangingRetriever(FakeRetriever):
    """Answers too late."""

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        await asyncio.sleep(TIMEOUT)
        raise AssertionError

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        await asyncio.sleep(TIMEOUT)
        raise AssertionError


@pytest.mark.parametrize("name", ["search", "fetch", "ask"])
def test_a_call_has_a_time_limit(name: str) -> None:
    rag = make_rag(retriever=HangingRetriever())
    service = local_service(rag, limits=Limits(request_seconds=0.2))
    result = call_tool(name, service, query="x", id="x", question="x")

    assert error_text(result) == errors.DeadlineExceeded.default


def test_timeout_of_a_retriever_is_not_that_of_the_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = local_service(make_rag(retriever=FakeRetriever(error=TimeoutError())))
    result = call_tool("search", service, query="x")

    assert error_text(result) == errors.UNEXPECTED_MESSAGE
    assert "failed: TimeoutError" in caplog.text


@pytest.mark.parametrize(
    "failure", [errors.ContentFiltered(), errors.TooLong(), errors.TooManyRequests()]
)
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("token", [None, 5])
def test_a_failure_of_the_model_is_an_error_of_the_tool(
    failure: Exception, begun: bool, token: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    script = (Delta("Dental "), failure) if begun else (failure,)
    service = local_service(make_rag(FakeModel(script)))
    params = {"name": "ask", "arguments": {"question": "x"}, "_meta": {"progressToken": token}}
    accept = {"accept": "application/json, text/event-stream"}
    with caplog.at_level("INFO", "chat"):
        reply = post(old("tools/call", params), accept, service)

    assert f"outcome={type(failure).__name__}" in caplog.text
    if token and begun:
        first, last = read_events(reply)
        assert first["params"]["progress"] == 1
    else:
        last = reply.json
    assert last["id"] == 1
    assert error_text(last["result"]) == str(failure)


def test_passages_of_one_place_are_one_hit() -> None:
    more = replace(PLUS, id="plus-3", content="More on Plus.")
    result = call_tool("search", service_with(PLUS, STANDARD, more), query="x")
    first, second = result["structuredContent"]["results"]

    assert first["text"] == f"{PLUS.content}\n\nMore on Plus."
    assert [first["id"], second["id"]] == [PLUS.sourcepage, STANDARD.sourcepage]


def test_texts_are_joined_by_an_empty_line() -> None:
    parts = [replace(PLUS, id=text, content=text) for text in (" A\n", "\n", "\u00c4.")]
    result = call_tool("search", service_with(*parts), query="x")
    (item,) = result["content"]

    assert result["structuredContent"]["results"][0]["text"] == "A\n\n\u00c4."
    assert "\u00c4." in item["text"]  # as an escape it costs a model several tokens


def test_a_name_with_a_hash_is_found_with_and_without_a_place() -> None:
    file, page = "c#/c#.md", "c#/c#.md#2"
    service = service_with(replace(STANDARD, sourcefile=file, sourcepage=page, category=None))
    results = [call_tool("fetch", service, id=id)["structuredContent"] for id in (file, page)]

    assert [each["url"] for each in results] == ["/content/c%23/c%23.md", "/content/c%23/c%23.md#2"]
    for each in results:
        assert each["metadata"] == {"document": "c#/c#.md", "truncated": "false"}


def test_a_place_is_found_by_its_name_without_encoding() -> None:
    page = replace(STANDARD, sourcefile="a[1].md", sourcepage="a%5B1%5D.md#2")
    service = service_with(page, replace(page, id="b", sourcepage="a%5B1%5D.md#3"))
    result = call_tool("fetch", service, id="a[1].md#2")["structuredContent"]

    assert result["text"] == page.content


def test_hits_have_no_empty_text() -> None:
    foreign = replace(PLUS, content="", title="", url="")
    (hit,) = call_tool("search", service_with(foreign), query="x")["structuredContent"]["results"]

    assert hit == {
        "id": PLUS.sourcepage,
        "title": PLUS.sourcepage,
        "url": "document:///plans/plus.pdf#page=2",
        "text": PLUS.sourcepage,
    }


def test_an_index_with_urls_of_its_own_keeps_them() -> None:
    foreign = replace(PLUS, title="Plus", url="https://docs.example.com/plus#2")
    service = service_with(foreign, configs=(McpConfig("https://app.example.com"),))
    (hit,) = call_tool("search", service, query="x")["structuredContent"]["results"]
    file = call_tool("fetch", service, id="plans/plus.pdf")["structuredContent"]

    assert (hit["title"], hit["url"]) == ("Plus", "https://docs.example.com/plus#2")
    assert file["url"] == "https://docs.example.com/plus"


def test_arguments_become_overrides_and_no_other_does() -> None:
    retriever = FakeRetriever()
    service = local_service(make_rag(retriever=retriever))
    more = {"exclude_category": "a", "filter": "b", "use_oid_security_filter": True}
    call_tool("search", service, query="x", top=7, category="plans", **more)
    call_tool("ask", service, question="x", top=7, category="plans", **more)
    call_tool("search", service, query="x", category="")

    for _, _, overrides in retriever.calls[:2]:
        assert (overrides.top, overrides.include_category) == (7, "plans")
        assert overrides.exclude_category is overrides.filter is None
        assert overrides.use_oid_security_filter is None
    assert (retriever.calls[2][2].top, retriever.calls[2][2].include_category) == (3, None)


def test_a_long_query_is_shortened() -> None:
    retriever = FakeRetriever()
    query = "dental " * 1000
    call_tool("search", local_service(make_rag(retriever=retriever)), query=query)
    ((_, text, _),) = retriever.calls

    assert text == shorten_query(query) != query


@pytest.mark.parametrize(("length", "truncated"), [(60_000, "false"), (60_001, "true")])
def test_a_document_of_the_limit_is_complete(length: int, truncated: str) -> None:
    service = service_with(replace(PLUS, content="x" * length))
    result = call_tool("fetch", service, id="plans/plus.pdf")["structuredContent"]

    assert (len(result["text"]), result["metadata"]["truncated"]) == (60_000, truncated)


def test_a_long_document_is_cut() -> None:
    pages = [
        replace(PLUS, id=f"p{n}", sourcepage=f"plans/plus.pdf#page={n}", content="x" * 30_000)
        for n in range(1, 4)
    ]
    service = service_with(*pages)
    whole = call_tool("fetch", service, id="plans/plus.pdf")["structuredContent"]
    page = call_tool("fetch", service, id="plans/plus.pdf#page=3")["structuredContent"]
    uri = "document:///plans/plus.pdf"
    read = post(old("resources/read", {"uri": uri}), service=service).json["result"]

    assert (len(whole["text"]), whole["metadata"]["truncated"]) == (60_000, "true")
    assert (len(page["text"]), page["metadata"]["truncated"]) == (30_000, "false")
    assert read["contents"][0]["text"] == whole["text"]


def test_an_answer_has_the_places_that_it_cites_in_their_order() -> None:
    text = "No [plans/standard.md]. Yes [plans/plus.pdf#page=2] [plans/standard.md]."
    service = local_service(make_rag(FakeModel((Delta(text), Done()))))
    result = call_tool("ask", service, question="x")

    ids = [hit["id"] for hit in result["structuredContent"]["citations"]]
    assert ids == ["plans/standard.md", "plans/plus.pdf#page=2"]
    assert [item["type"] for item in result["content"]] == ["text", *["resource_link"] * 2]
    assert [item["name"] for item in result["content"][1:]] == ids


def test_a_place_is_cited_by_its_decoded_name() -> None:
    sources = [replace(STANDARD, sourcepage=page) for page in ("a%5B1%5D.md", "1", "")]
    model = FakeModel((Delta("Yes [a[1].md]. []"), Done()))
    service = local_service(make_rag(model, FakeRetriever(sources)))
    result = call_tool("ask", service, question="x")

    ids = [hit["id"] for hit in result["structuredContent"]["citations"]]
    assert ids == ["a%5B1%5D.md"]


def test_a_link_has_the_name_and_the_title_of_its_document() -> None:
    source = replace(STANDARD, title="The standard plan")
    model = FakeModel((Delta("[plans/standard.md] says no."), Done()))
    service = local_service(make_rag(model, FakeRetriever([source])))
    _, link = call_tool("ask", service, question="x")["content"]

    assert (link["name"], link["title"]) == ("plans/standard.md", "The standard plan")


@pytest.mark.parametrize("text", ["I don't know.", "Read plans/standard.md."])
def test_an_answer_without_citations_links_nothing(text: str) -> None:
    service = local_service(make_rag(FakeModel((Delta(text), Done()))))
    result = call_tool("ask", service, question="x")

    assert result["structuredContent"] == {"answer": text, "citations": []}
    assert result["content"] == [{"type": "text", "text": text}]


def test_without_a_free_slot_a_question_is_refused_and_a_search_is_not() -> None:
    async def go() -> tuple[BufferedReply, BufferedReply]:
        service = local_service(make_rag(), answer_slots=AnswerSlots(0))
        requests = (("ask", {"question": "x"}), ("search", {"query": "x"}))
        first, second = [
            await read(await handle_call(service, call("/mcp", old("tools/call", params))))
            for params in ({"name": name, "arguments": arguments} for name, arguments in requests)
        ]
        return first, second

    refused, answered = asyncio.run(go())

    assert error_text(refused.json["result"]) == errors.Overloaded.default
    assert answered.json["result"]["isError"] is False


@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
@pytest.mark.parametrize("token", ["t", None, True, {}, 1.5])
def test_progress_is_for_clients_that_request_it(accept: str, token: Any) -> None:
    params = {"name": "ask", "arguments": {"question": "x"}, "_meta": {"progressToken": token}}

    for header in (accept, f"{accept or 'application/json'}, Text/Event-Stream"):
        reply = post(old("tools/call", params), {"accept": header})
        events = token == "t" and "Event-Stream" in header
        assert reply.media_type == ("text/event-stream" if events else "application/json")


def test_a_client_that_excludes_events_gets_json() -> None:
    params = {"name": "ask", "arguments": {"question": "x"}, "_meta": {"progressToken": "t"}}
    reply = post(old("tools/call", params), {"accept": "*/*, text/event-stream;q=0"})

    assert reply.media_type == "application/json"


def test_progress_is_told_every_second_until_the_answer() -> None:
    async def go() -> list[Any]:
        wait = asyncio.Event()
        service = local_service(make_rag(FakeModel((Delta("Yes."), wait, Done()))))
        params = {"name": "ask", "arguments": {"question": "x"}, "_meta": {"progressToken": 5}}
        headers = JSON | {"accept": "application/json, text/event-stream"}
        reply = await handle_call(service, call("/mcp", old("tools/call", params), headers))
        assert reply.rest is not None
        assert reply.headers["X-Accel-Buffering"] == "no"
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.deadline > asyncio.get_running_loop().time()
        lines = [reply.body, await anext(reply.rest), await anext(reply.rest)]
        wait.set()
        lines += [line async for line in reply.rest]
        return [json.loads(line.removeprefix(b"data: ")) for line in lines]

    *steps, last = asyncio.run(go())

    assert len(steps) >= 3
    assert [step["params"]["progress"] for step in steps] == [*range(1, len(steps) + 1)]
    assert {step["params"]["progressToken"] for step in steps} == {5}
    assert last["result"]["structuredContent"]["answer"] == "Yes."


@pytest.mark.parametrize("progress", [0, 1, 2])
def test_a_client_that_leaves_ends_the_model(progress: int) -> None:
    async def go() -> int:
        model = FakeModel((Delta("Yes."), asyncio.Event()))
        service = local_service(make_rag(model))

        async def gone() -> bool:
            return not progress and bool(model.open_streams)

        token = {"progressToken": 5} if progress else {}
        params = {"name": "ask", "arguments": {"question": "x"}, "_meta": token}
        headers = JSON | {"accept": "application/json, text/event-stream"}
        reply = await handle_call(service, call("/mcp", old("tools/call", params), headers, gone))
        if progress:
            assert reply.rest is not None and model.open_streams == 1
            for _ in range(progress - 1):  # the reply has the first one
                await anext(reply.rest)
            await reply.rest.aclose()
        return model.open_streams

    # The model itself waits until the deadline, which is later.
    assert asyncio.run(asyncio.wait_for(go(), TIMEOUT)) == 0


# Resources


@pytest.mark.parametrize(
    "uri",
    [
        "document:///plans/none.pdf",
        "document:///plans/plus.pdf#page=3",
        "document:///../plans/plus.pdf",
        "document:///plans%252Fplus.pdf",
        "document:///",
        "document://plans/plus.pdf",
        "file:///plans/plus.pdf",
        "https://app.example.com/content/plans/plus.pdf",
        "plans/plus.pdf",
        "",
        "x" * 3000,
    ],
)
def test_what_is_not_there_is_one_and_the_same_error(uri: str) -> None:
    first = post(old("resources/read", {"uri": uri}))
    header = f"=?base64?{base64.b64encode(uri.encode()).decode()}?="
    second = post(modern("resources/read", uri=uri), modern_headers("resources/read", header))
    error = {"message": "There is no such document.", "data": {"uri": uri}}

    assert (first.status, first.json["error"]) == (200, {"code": -32002, **error})
    assert (second.status, second.json["error"]) == (400, {"code": -32602, **error})


def test_the_error_for_a_missing_document_says_what_to_do() -> None:
    result = call_tool("fetch", local_service(make_rag(retriever=FakeRetriever([]))), id="none.pdf")

    assert error_text(result) == (
        "There is no such document. Take an id from the results of search."
    )


def test_a_name_that_no_document_has_is_not_looked_up() -> None:
    retriever = FakeRetriever()
    service = local_service(make_rag(retriever=retriever))
    name = "plans/plus.pdf#" + ":" * 30_000
    result = call_tool("fetch", service, id=name)
    read = post(old("resources/read", {"uri": f"document:///{name}"}), service=service)

    assert error_text(result) == documents.NO_DOCUMENT
    assert read.json["error"]["code"] == -32002
    assert retriever.calls == []


@pytest.mark.parametrize("uri", [None, 5, [], {}])
def test_a_resource_is_named_by_a_string(uri: Any) -> None:
    assert post(old("resources/read", {"uri": uri})).json["error"]["code"] == -32602


@pytest.mark.parametrize("failure", [errors.Unavailable(), errors.TooManyRequests()])
def test_a_failure_behind_a_resource_is_an_error_of_the_protocol(
    failure: errors.ChatError,
) -> None:
    service = local_service(make_rag(retriever=FakeRetriever(error=failure)))
    uri = "document:///plans/plus.pdf"
    first = post(old("resources/read", {"uri": uri}), service=service)
    headers = modern_headers("resources/read", uri)
    second = post(modern("resources/read", uri=uri), headers, service)

    assert (first.status, second.status) == (200, 500)
    for reply in (first, second):
        assert reply.json["error"] == {"code": -32603, "message": failure.message}


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("plans/plus.pdf", "document:///plans/plus.pdf"),
        ("a b/\u00fc.md", "document:///a%20b/%C3%BC.md"),
        ("a%5B1%5D%23.pdf", "document:///a%5B1%5D%23.pdf"),
        ("50%25.txt", "document:///50%25.txt"),
        ("a%255B.txt", "document:///a%255B.txt"),
    ],
)
def test_a_uri_leads_back_to_its_file(file: str, uri: str) -> None:
    assert documents.to_uri(file) == uri
    assert documents.to_id(uri) == file
    for place in ("page=2", "a b", "1&2"):
        assert documents.to_id(documents.to_uri(f"{file}#{place}")) == f"{file}#{place}"


@pytest.mark.parametrize(("count", "pages"), [(401, [200, 200, 1]), (400, [200, 200]), (0, [0])])
def test_files_are_listed_in_pages(count: int, pages: list[int]) -> None:
    files = [f"docs/{n:03}.md" for n in range(count)]
    sources = [replace(STANDARD, id=name, sourcefile=name, sourcepage=name) for name in files]
    service, names, cursor, sizes = service_with(*sources), [], None, []
    while True:
        request = old("resources/list", {"cursor": cursor})
        result = post(request, service=service).json["result"]
        names += [each["name"] for each in result["resources"]]
        sizes.append(len(result["resources"]))
        cursor = result.get("nextCursor")
        if cursor is None:
            break

    assert (names, sizes) == (files, pages)


def test_a_file_is_listed_by_its_name() -> None:
    service = service_with(replace(STANDARD, sourcefile="a%5B1%5D b.md"))
    (file,) = post(old("resources/list"), service=service).json["result"]["resources"]

    assert (file["name"], file["uri"]) == ("a[1] b.md", "document:///a%5B1%5D%20b.md")


@pytest.mark.parametrize("cursor", ["", "x", "200", "\u00fc", 5, [], "YWJj"])
def test_an_unknown_cursor_is_invalid(cursor: Any) -> None:
    reply = post(old("resources/list", {"cursor": cursor}))

    assert reply.json["error"]["code"] == -32602


# Users


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "search", "arguments": {"query": "x"}}),
        ("tools/call", {"name": "fetch", "arguments": {"id": "plans/plus.pdf"}}),
        ("tools/call", {"name": "ask", "arguments": {"question": "x"}}),
        ("resources/list", {}),
        ("resources/read", {"uri": "document:///plans/plus.pdf"}),
    ],
)
def test_the_filters_of_the_signed_in_user_hold_for_every_way_to_a_text(
    method: str, params: dict[str, Any]
) -> None:
    retriever = FakeRetriever()
    service = local_service(make_rag(retriever=retriever), AccessPolicy(sign_in=True))
    post(old(method, params), ANNA, service)
    post(old(method, params), service=service)
    first, second = retriever.calls

    assert first[0].oid == "anna"
    assert first[2].use_oid_security_filter is first[2].use_groups_security_filter is True
    assert second[0].oid is None
    assert second[2].use_oid_security_filter is None


# The log


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (tool_request("ask", question="s3cret"), "mcp/ask hits=2"),
        (tool_request("search", query="s3cret"), "mcp/search hits=2"),
        (tool_request("fetch", id=PLUS.sourcefile), "mcp/fetch hits=1"),
        (tool_request("fetch", id="s3cret"), "mcp/fetch NotFound"),
        (old("tools/call", {"name": "s3cret"}), "mcp InvalidParams"),
        (old("s3cret"), "mcp MethodNotFound"),
        (old("resources/read", {"uri": "s3cret"}), "mcp ResourceNotFound"),
        (old("ping", {"s3cret": 1}, id="s3cret"), "mcp ok"),
        ([{"s3cret": 1}], "mcp InvalidRequest"),
    ],
)
def test_the_log_line_has_names_of_ours_alone(
    request_: Any, fields: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "chat"):
        post(request_, {"user-agent": "s3cret"})
    (line,) = [record.message for record in caplog.records if " POST /mcp " in record.message]
    dialect, field = fields.split()

    assert f"dialect={dialect} " in line
    assert (field if "=" in field else f"outcome={field}") in line
    assert "s3cret" not in caplog.text


def test_a_tool_that_fails_behind_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    service = local_service(make_rag(retriever=FakeRetriever(error=errors.Unavailable())))
    with caplog.at_level("INFO", "chat"):
        call_tool("search", service, query="x")
        call_tool("search", service, query="")
    levels = [record.levelname for record in caplog.records if " POST /mcp " in record.message]

    assert levels == ["WARNING", "INFO"]
    assert "status=200" in caplog.text and "outcome=Unavailable" in caplog.text
