"""The MCP tool `ask`, over a real model."""

from __future__ import annotations

from tests.support.mcp_client import call, run_client
from tests.support.model.app import QUESTION
from tests.support.servers import Server


def test_tool_ask(app: Server) -> None:
    result = run_client(app.url, lambda client: call(client, "ask", question=QUESTION))

    assert result["answer"]
