"""MCP clients from npm against the running app: the TypeScript SDK, the inspector, the runner of
the conformance tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.domain import errors
from tests.support.node import CLIENTS, needs_node_22, needs_packages, node_22, run
from tests.support.servers import Server

pytestmark = needs_packages

PACKAGES = CLIENTS / "node_modules" / "@modelcontextprotocol"
INSPECTOR = PACKAGES / "inspector" / "clients" / "launcher" / "build" / "index.js"
CONFORMANCE = PACKAGES / "conformance" / "dist" / "index.js"
EXPECTED_FAILURES = CLIENTS / "conformance.yaml"
PAGE = "plans/northwind_health_plus.pdf#page=2"


SDK = {"1.x": "2025-11-25", "legacy": "2025-11-25", "auto": "2026-07-28"}


@pytest.mark.parametrize("mode", [*SDK, "2026-07-28"])
def test_typescript_sdk(server: Server, tmp_path: Path, mode: str) -> None:
    done = run(tmp_path, "node", "mcp.mjs", server.url, mode)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)

    assert seen["version"] == SDK.get(mode, mode)
    assert seen["tools"] == ["search", "fetch", "ask"]
    (first, _) = seen["found"]
    assert seen["fetched"]["id"] == first["id"]
    assert seen["answer"]["content"][0]["text"] == f"See [{first['id']}]"
    (citation,) = seen["answer"]["structuredContent"]["citations"]
    assert citation["id"] == first["id"]
    assert seen["progress"] == sorted(set(seen["progress"])) != []
    assert seen["text"] == seen["fetched"]["text"]
    assert seen["toolError"]["isError"]
    assert seen["toolError"]["content"][0]["text"] == errors.TooManyRequests.default
    assert seen["unknownTool"]["code"] == -32602
    assert PAGE.partition("#")[0] in seen["resources"]
    assert seen["templates"][0]["uriTemplate"] == "document:///{+path}"
    unknown = -32002 if mode == "1.x" else -32602  # 2.x translates the code of old servers
    assert seen["unknownResource"] == {"code": unknown, "data": {"uri": "document:///unknown.md"}}


def inspect(server: Server, folder: Path, era: str, *arguments: str) -> Any:
    """The result that the inspector prints."""
    address = f"{server.url}/mcp"
    options = ["--transport", "http", "--protocol-era", era, "--format", "json", "--method"]
    done = run(folder, str(node_22()), INSPECTOR, "--cli", address, *options, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["result"]


@needs_node_22
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector(server: Server, tmp_path: Path, era: str) -> None:
    # With --strict it fails where a schema has what some client does not understand.
    tools = inspect(server, tmp_path, era, "tools/list", "--strict")["tools"]
    query = ("--tool-name", "search", "--tool-arg", "query=dental care in Health Plus", "top=2")
    found = inspect(server, tmp_path, era, "tools/call", *query)["structuredContent"]["results"]
    uri = f"document:///{PAGE}"
    (content,) = inspect(server, tmp_path, era, "resources/read", "--uri", uri)["contents"]

    assert [tool["name"] for tool in tools] == ["search", "fetch", "ask"]
    assert len(found) == 2
    assert content["uri"] == uri
    assert content["text"]


@needs_node_22
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_conformance(server: Server, tmp_path: Path, version: str) -> None:
    """It fails on an unexpected failure, and on an expected one that passes."""
    command = f"server --url {server.url}/mcp --suite all --spec-version {version}".split()
    files = ("--output-dir", tmp_path / "results", "--expected-failures", EXPECTED_FAILURES)
    done = run(tmp_path, str(node_22()), CONFORMANCE, *command, *files)

    assert done.returncode == 0, done.stdout
