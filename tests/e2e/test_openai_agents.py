"""OpenAI's Agents SDK takes the app as an MCP server: its agents get the tools and call them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
from agents import Agent, FunctionTool, RunContextWrapper, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext

from shared.chat import errors
from tests.support.servers import TIMEOUT, Server

QUESTION = "What does Northwind Health Plus include?"
PAGE = "plans/northwind_health_plus.pdf#page=2"


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

    set_tracing_disabled(True)  # otherwise it sends traces to OpenAI
    found, document, answer, failure = asyncio.run(work())

    assert PAGE in [hit["id"] for hit in json.loads(found["text"])["results"]]
    assert json.loads(document["text"])["id"] == PAGE
    assert answer[0]["text"] == f"See [{PAGE}]"
    assert json.loads(answer[1]["text"])["type"] == "resource_link"
    assert failure["text"] == errors.TooManyRequests.default
