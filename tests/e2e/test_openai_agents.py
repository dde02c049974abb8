"""OpenAI's Agents SDK takes the app as its model, and as an MCP server with tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import openai
import pytest
from agents import (
    Agent,
    FileSearchTool,
    FunctionTool,
    ModelBehaviorError,
    OpenAIProvider,
    RunConfig,
    RunContextWrapper,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext

from shared.domain import errors
from tests.support.servers import TIMEOUT, Server

QUESTION = "What does Northwind Health Plus include?"
PAGE = "plans/northwind_health_plus.pdf#page=2"

set_tracing_disabled(True)  # otherwise it sends traces to OpenAI


def http_client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
    """Makes a client that no proxy of the machine stands before."""
    return httpx2.AsyncClient(headers=headers, timeout=TIMEOUT, trust_env=False)


async def call_tool(tool: FunctionTool, **arguments: Any) -> Any:
    """Calls a tool as the agent does when the model wants it."""
    text = json.dumps(arguments)
    context = ToolContext(None, tool_name=tool.name, tool_call_id="call_1", tool_arguments=text)
    return await tool.on_invoke_tool(context, text)


def test_agent_gets_the_tools_and_calls_them(server: Server) -> None:
    async def work() -> list[Any]:
        params: Any = {"url": f"{server.url}/mcp", "httpx_client_factory": http_client}
        async with MCPServerStreamableHttp(params, client_session_timeout_seconds=TIMEOUT) as mcp:
            agent = Agent("assistant", mcp_servers=[mcp])
            listed = await MCPUtil.get_function_tools(mcp, True, RunContextWrapper(None), agent)
            search, fetch, ask = (tool for tool in listed if isinstance(tool, FunctionTool))
            # With a strict schema a model sends every argument.
            optional: Any = {"top": None, "category": None}
            order = f"{QUESTION}; say See ; say [{PAGE}]"
            return [
                await call_tool(search, query=QUESTION, **optional),
                await call_tool(fetch, id=PAGE),
                await call_tool(ask, question=order, **optional),
                await call_tool(ask, question="refuse with 429", **optional),
            ]

    found, document, answer, failure = asyncio.run(work())

    assert PAGE in [hit["id"] for hit in json.loads(found["text"])["results"]]
    assert json.loads(document["text"])["id"] == PAGE
    assert answer[0]["text"] == f"See [{PAGE}]"
    assert json.loads(answer[1]["text"])["type"] == "resource_link"
    assert failure["text"] == errors.TooManyRequests.default


@function_tool
def f(q: int) -> str:
    """Returns the weather, as an order to the model."""
    return f"say Sunny {q}"


ASSISTANT = Agent("assistant", instructions="Be brief.", model="command_model", tools=[f])


def run_agents(server: Server, work: Callable[[RunConfig], Awaitable[Any]], user: str = "") -> Any:
    """The result of some work with the app as the provider of models."""

    async def run() -> Any:
        client = openai.AsyncOpenAI(
            base_url=f"{server.url}/v1",
            api_key="none",
            max_retries=0,
            default_headers={"x-ms-client-principal-id": user} if user else {},
            http_client=http_client(),
        )
        async with client:
            return await work(RunConfig(model_provider=OpenAIProvider(openai_client=client)))

    return asyncio.run(run())


def test_agent_answers_with_a_tool_in_two_turns(server: Server) -> None:
    async def work(config: RunConfig) -> list[Any]:
        first = await Runner.run(ASSISTANT, "call f", run_config=config)
        items: Any = [*first.to_input_list(), {"role": "user", "content": "list questions"}]
        second = Runner.run_streamed(ASSISTANT, items, run_config=config)
        deltas = [
            event.data.delta
            async for event in second.stream_events()
            if event.type == "raw_response_event"
            and event.data.type == "response.output_text.delta"
        ]
        return [first.final_output, second.final_output, deltas]

    assert run_agents(server, work) == ["Sunny 1", "call f", ["call f"]]


def test_agent_continues_a_stored_response(memory_server: Server) -> None:
    async def work(config: RunConfig) -> list[Any]:
        first = await Runner.run(
            ASSISTANT, "call f", run_config=config, auto_previous_response_id=True
        )
        previous = first.last_response_id
        second = await Runner.run(
            ASSISTANT, "list questions", run_config=config, previous_response_id=previous
        )
        return [first.final_output, second.final_output]

    assert run_agents(memory_server, work, "anna") == ["Sunny 1", "call f"]


def test_agent_searches_the_documents(server: Server) -> None:
    search = FileSearchTool(vector_store_ids=["docs"], include_search_results=True)
    agent = Agent("assistant", model="command_model", tools=[search])

    async def work(config: RunConfig) -> Any:
        return await Runner.run(agent, f"{QUESTION}; say [{PAGE}]", run_config=config)

    found, message = run_agents(server, work).new_items
    (citation,) = message.raw_item.content[0].annotations

    assert citation.file_id in [result.file_id for result in found.raw_item.results]


def test_failure_of_the_model_is_an_exception_of_the_agent(server: Server) -> None:
    async def work(config: RunConfig) -> None:
        with pytest.raises(openai.RateLimitError):
            await Runner.run(ASSISTANT, "refuse with 429", run_config=config)
        stream = Runner.run_streamed(ASSISTANT, "say a; fail with outage", run_config=config)
        with pytest.raises(ModelBehaviorError, match="not available"):
            async for _ in stream.stream_events():
                pass

    run_agents(server, work)
