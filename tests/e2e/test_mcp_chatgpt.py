"""What ChatGPT asks of `search` and `fetch`, typed from "Building MCP servers for ChatGPT Apps and
API integrations" (developers.openai.com).
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent, Tool
from pydantic import BaseModel, StringConstraints

from tests.support.mcp_client import VERSIONS, run_client
from tests.support.servers import Server

QUERY = "What is the deductible of Northwind Health Plus?"
Text = Annotated[str, StringConstraints(strict=True, min_length=1)]


class Result(BaseModel):
    """An entry of `results`. Without a `url` that is not empty, ChatGPT does not cite it."""

    id: Text
    title: Text
    url: Text


class Results(BaseModel):
    """What `search` returns."""

    results: list[Result]


class Document(Result):
    """What `fetch` returns. `metadata` is optional there."""

    text: Text
    metadata: dict[str, str]


@pytest.fixture(params=VERSIONS)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def call(client: Client, tool: str, argument: str, value: str) -> Any:
    """Calls a tool with its one string, as ChatGPT does, and decodes its one content item."""
    result = await client.call_tool(tool, {argument: value})
    assert isinstance(result, CallToolResult)
    assert not result.is_error
    (item,) = result.content
    assert isinstance(item, TextContent)
    decoded = json.loads(item.text)
    assert decoded == result.structured_content
    return decoded


def test_one_string_is_enough(server: Server) -> None:
    async def work(client: Client) -> dict[str, Tool]:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = run_client(server.url, work)
    for name, argument in {"search": "query", "fetch": "id"}.items():
        schema = tools[name].input_schema
        assert schema["required"] == [argument]
        assert schema["properties"][argument]["type"] == "string"
        # What is not marked so, ChatGPT confirms with the user before each call.
        annotations = tools[name].annotations
        assert annotations and annotations.read_only_hint


def test_every_result_can_be_fetched_and_opened(server: Server, mode: str) -> None:
    async def work(client: Client) -> list[Document]:
        found = Results.model_validate(await call(client, "search", "query", QUERY))
        assert len({result.id for result in found.results}) == len(found.results) > 0
        documents = []
        for result in found.results:
            document = Document.model_validate(await call(client, "fetch", "id", result.id))
            assert document.model_dump(include={"id", "title", "url"}) == result.model_dump()
            documents.append(document)
        return documents

    documents = run_client(server.url, work, mode)
    with server.client() as browser:
        for document in documents:
            assert browser.get(document.url).status_code == 200, document.url


def test_search_that_finds_nothing_is_an_empty_list(server: Server, mode: str) -> None:
    async def work(client: Client) -> Any:
        return await call(client, "search", "query", "zzzqqq")

    assert run_client(server.url, work, mode) == {"results": []}
