"""The official Python client of MCP against the running app: modern, old, and by its own choice."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from shared.domain import errors
from tests.support.mcp_client import VERSIONS, call, connect, run_client
from tests.support.servers import Server, ended

QUESTION = "What does Northwind Health Plus include that Northwind Standard does not?"
PAGE = "plans/northwind_health_plus.pdf#page=2"


@pytest.fixture(params=VERSIONS)
def mode(request: pytest.FixtureRequest) -> str:
    """How the client chooses the version."""
    return str(request.param)


def text_of(result: CallToolResult) -> str:
    (item,) = (item for item in result.content if isinstance(item, TextContent))
    return item.text


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert (content.uri, content.mime_type) == (uri, "text/plain")
    return content.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])  # one that pins its version does not ask
def test_version_and_capabilities(server: Server, mode: str) -> None:
    async def work(client: Client) -> None:
        assert client.protocol_version == VERSIONS[mode]
        assert client.instructions
        assert client.server_info and client.server_info.version
        offered = client.server_capabilities.model_dump(exclude_none=True, by_alias=True)
        assert offered == {"tools": {}, "resources": {}}

    run_client(server.url, work, mode)


def test_tools_are_listed_with_valid_schemas(server: Server, mode: str) -> None:
    tools = run_client(server.url, lambda client: client.list_tools(), mode).tools

    assert [tool.name for tool in tools] == ["search", "fetch", "ask"]
    for tool in tools:
        assert tool.title and tool.description and tool.annotations and tool.output_schema
        assert tool.annotations.read_only_hint and not tool.annotations.open_world_hint
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "$ref" not in str(schema)


def test_search_results_can_be_fetched(server: Server, mode: str) -> None:
    async def work(client: Client) -> None:
        results = (await call(client, "search", query=QUESTION, top=3))["results"]

        assert PAGE in [hit["id"] for hit in results]
        for hit in results:
            document = await call(client, "fetch", id=hit["id"])
            assert (document["id"], document["title"]) == (hit["id"], hit["title"])
            assert document["url"] == hit["url"]
            assert hit["text"].splitlines()[0] in document["text"]
            assert document["metadata"]["document"] == hit["id"].partition("#")[0]

    run_client(server.url, work, mode)


def test_category_limits_a_search(server: Server, mode: str) -> None:
    async def work(client: Client) -> None:
        found = (await call(client, "search", query=QUESTION, category="company"))["results"]
        assert found
        assert all(hit["id"].startswith("company/") for hit in found)

    run_client(server.url, work, mode)


def test_answer_links_to_the_documents_it_cites(server: Server, mode: str) -> None:
    async def work(client: Client) -> None:
        question = f"{QUESTION}; say Dental care ; say [{PAGE}]; say [unknown.md]."
        result = await client.call_tool("ask", {"question": question})
        assert isinstance(result, CallToolResult)
        answer: Any = result.structured_content
        assert answer["answer"] == text_of(result) == f"Dental care [{PAGE}][unknown.md]."
        (citation,) = answer["citations"]
        assert citation["id"] == PAGE

        _, link = result.content
        assert isinstance(link, ResourceLink)
        assert citation["text"].splitlines()[0] in await read(client, link.uri)

    run_client(server.url, work, mode)


def test_progress_is_reported_while_the_model_writes(server: Server, mode: str) -> None:
    name = f"mcp-progress-{time.monotonic_ns()}"
    reports: list[float] = []

    async def work(client: Client) -> Any:
        second = asyncio.Event()

        async def report(progress: float, total: float | None, message: str | None) -> None:
            assert message
            reports.append(progress)
            if len(reports) == 2:
                second.set()

        question = {"question": f"say one; wait for {name}; say  two"}
        asked = asyncio.create_task(client.call_tool("ask", question, progress_callback=report))
        await second.wait()
        await call(client, "ask", question=f"release {name}")
        return await asked

    assert text_of(run_client(server.url, work, mode)) == "one two"
    assert [number - reports[0] for number in reports] == list(range(len(reports)))


def test_failure_after_progress_is_a_tool_error(server: Server, mode: str) -> None:
    reports: list[float] = []

    async def work(client: Client) -> Any:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append(progress)

        question = {"question": "say Half; fail with outage"}
        return await client.call_tool("ask", question, progress_callback=report)

    result = run_client(server.url, work, mode)
    assert reports
    assert (result.is_error, text_of(result)) == (True, errors.Unavailable.default)


TOOL_ERRORS: list[Any] = [
    ("search", {}, "query"),
    ("search", {"query": " "}, "query"),
    ("search", {"query": "x", "top": 51}, "top"),
    ("search", {"query": "x", "category": 1}, "category"),
    ("fetch", {"id": "plans/unknown.pdf"}, ""),
    ("ask", {"question": ["x"]}, "question"),
    ("ask", {"question": "refuse with 429"}, errors.TooManyRequests.default),
    ("ask", {"question": "refuse with content filter"}, errors.ContentFiltered.default),
    ("ask", {"question": "refuse with bug"}, ""),
]


def test_tool_errors_are_results_that_say_what_is_wrong(server: Server, mode: str) -> None:
    async def work(client: Client) -> None:
        await client.list_tools()  # from now on the client validates results
        for tool, arguments, begin in TOOL_ERRORS:
            result = await client.call_tool(tool, arguments)
            assert isinstance(result, CallToolResult)
            assert result.is_error, (tool, arguments)
            assert result.structured_content is None
            assert text_of(result) and text_of(result).startswith(begin), text_of(result)
            assert "secret" not in text_of(result)

    run_client(server.url, work, mode)


def test_unknown_tool_and_method_are_protocol_errors(server: Server, mode: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(MCPError) as tool:
            await client.call_tool("unknown", {})
        with pytest.raises(MCPError) as method:
            await client.list_prompts()

        assert (tool.value.code, method.value.code) == (INVALID_PARAMS, METHOD_NOT_FOUND)
        # The connection lasts: an old client gives it up on an HTTP status that it does not know.
        assert (await client.list_tools()).tools

    run_client(server.url, work, mode)


def test_every_listed_resource_can_be_read(server: Server, mode: str) -> None:
    async def work(client: Client) -> None:
        listed = await client.list_resources()
        assert [resource.name for resource in listed.resources] == [
            "company/employee_handbook.md",
            "company/roles.txt",
            "plans/benefits_table.md",
            "plans/northwind_health_plus.pdf",
            "plans/northwind_standard.md",
        ]
        for resource in listed.resources:
            document = await call(client, "fetch", id=resource.name)
            assert await read(client, resource.uri) == document["text"]
        page = await call(client, "fetch", id=PAGE)
        assert await read(client, f"document:///{PAGE}") == page["text"]

    run_client(server.url, work, mode)


def test_template_of_resources(server: Server, mode: str) -> None:
    listed = run_client(server.url, lambda client: client.list_resource_templates(), mode)

    assert [template.uri_template for template in listed.resource_templates] == [
        "document:///{+path}"
    ]


@pytest.mark.parametrize("uri", ["document:///plans/unknown.pdf", "file:///etc/passwd"])
def test_unknown_resource(server: Server, mode: str, uri: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(MCPError) as failed:
            await client.read_resource(uri)

        assert failed.value.code == (-32002 if mode == "legacy" else INVALID_PARAMS)
        assert failed.value.data == {"uri": uri}

    run_client(server.url, work, mode)


@pytest.mark.filterwarnings("ignore:ping is removed")
def test_ping_of_an_old_client(server: Server) -> None:
    run_client(server.url, lambda client: client.send_ping(), "legacy")


@pytest.mark.parametrize("progress", [True, False], ids=["stream", "plain"])
def test_disconnect_closes_the_model_stream(server: Server, mode: str, progress: bool) -> None:
    name = f"mcp-left-{time.monotonic_ns()}"

    async def report(progress: float, total: float | None, message: str | None) -> None: ...

    async def leave() -> None:
        async with connect(server.url, mode) as client, connect(server.url) as other:
            question = {"question": f"open as {name}; wait for nothing at all"}
            asked = asyncio.create_task(
                client.call_tool("ask", question, progress_callback=report if progress else None)
            )
            while (await call(other, "ask", question=f"report {name}"))["answer"] != "open":
                await asyncio.sleep(0.05)
            asked.cancel()

    asyncio.run(leave())
    with server.client() as client:
        assert ended(client, name) == "closed"


def test_concurrent_calls_of_one_client(server: Server, mode: str) -> None:
    async def work(client: Client) -> Any:
        questions = (f"say {number}" for number in range(20))
        return await asyncio.gather(*(call(client, "ask", question=one) for one in questions))

    answers = run_client(server.url, work, mode)
    assert [answer["answer"] for answer in answers] == [str(number) for number in range(20)]
