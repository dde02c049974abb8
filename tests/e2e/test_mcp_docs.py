"""docs/mcp.md: its first request, and its programs that need no other version of the MCP client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

from tests.support.http_server import QuietHandler, run_http_server
from tests.support.servers import ROOT, TIMEOUT, Server

TEXT = (ROOT / "docs" / "mcp.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
REQUEST = re.findall(r"-d '(.*?)'", TEXT, re.DOTALL)[0]
RESULT = re.findall(r"^```json\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0]
QUESTION = '"How many vacation days do I get?"'
HANDBOOK = "company/employee_handbook.md"


class ScriptedModel(QuietHandler):
    """OpenAI's Responses API: the model calls `search`, then quotes what the tool returned."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        outputs = [item["output"] for item in request["input"] if "output" in item]
        text = {"type": "output_text", "text": f"Found: {outputs}", "annotations": []}
        answer = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        arguments = json.dumps({"query": "vacation days", "top": None, "category": None})
        call = {"type": "function_call", "call_id": "c", "name": "search", "arguments": arguments}
        response = {
            "id": "r",
            "object": "response",
            "model": request["model"],
            "output": [answer if outputs else call],
        }
        data = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def run_program(server: Server, start: str, *changes: tuple[str, str], **settings: str) -> Any:
    """Run the program with this import against the app; return the lines of its output."""
    (program,) = (one for one in PROGRAMS if start in one)
    for old, new in (("http://localhost:7071", server.url), *changes):
        assert old in program
        program = program.replace(old, new)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_first_request_has_the_printed_result(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    with server.client() as client:
        answer = client.post("/mcp", content=REQUEST, headers=headers).json()["result"]
    (hit,), (printed,) = answer["structuredContent"]["results"], json.loads(RESULT)["results"]

    assert hit["url"].endswith(f"/content/{HANDBOOK}")
    assert hit["text"].startswith(printed["text"].removesuffix("..."))
    assert printed == {**hit, "text": printed["text"], "url": printed["url"]}
    assert printed["url"] == f"http://localhost:7071/content/{HANDBOOK}"


def test_official_client_prints_results_and_citations(server: Server) -> None:
    order = f'"say 20 days [{HANDBOOK}]"'
    *found, answer, citations = run_program(server, "from mcp import", (QUESTION, order))

    assert any(line.endswith(f"/content/{HANDBOOK}") for line in found)
    assert answer == f"20 days [{HANDBOOK}]"
    assert citations == f"['{HANDBOOK}']"


def test_agent_of_openai_answers_from_the_documents(server: Server) -> None:
    with run_http_server(ScriptedModel) as url:
        settings = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
        (line,) = run_program(
            server, "from agents import", OPENAI_AGENTS_DISABLE_TRACING="1", **settings
        )

    assert line.startswith("Found: ")
    assert HANDBOOK in line
