"""Golden files of MCP, whose links begin with the address of the app."""

from __future__ import annotations

from shared.protocols.mcp.documents import McpConfig

CONFIGS = (McpConfig("https://app.example.com"),)
