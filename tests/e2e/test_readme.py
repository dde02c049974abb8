"""The commands of README and docs/call.md, run word for word by a newcomer, from top to bottom.

`python -m tests.e2e.test_readme CLONE` runs them in a clone that has nothing installed yet.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from tests.support.servers import ROOT, TIMEOUT, free_port
from tests.support.terminal import LEFT_OUT, MAKE, address, control_c, environment, script, started

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = {"sh", "bash", "shell", "console", "bat", "powershell", "cmd"}
# What cannot run here, by its first line, and why.
CANNOT = {
    "py -3.13 -m venv .venv": "needs Windows",
    "azd auth login": "needs azd and an Azure subscription",
    "azd down --purge": "needs azd and an Azure subscription",
}
# Stand-ins for the tools that look up the app's address, a key and a token.
AZD = """case "$3" in SERVICE_API_URI) echo "$APP_URL";; *) echo a-value;; esac"""
AZ = """echo a-key-or-token"""
PARKING = "The parking permit of the Zanzibar office costs 40 dollars a month.\n"

pytestmark = pytest.mark.skipif(os.name == "nt" or not MAKE, reason="needs make and a shell")


def blocks(*pages: str) -> list[str]:
    """The command blocks of some pages, in order."""
    texts = [(ROOT / page).read_text("utf-8") for page in pages]
    return [
        body for text in texts for language, body in BLOCK.findall(text) if language in COMMANDS
    ]


def runnable(page: str) -> list[str]:
    return [block for block in blocks(page) if block.splitlines()[0] not in CANNOT]


@dataclass
class Newcomer:
    """A newcomer with a clone and a shell; `tools` is a folder for the stand-ins."""

    clone: Path
    tools: Path
    port: int = field(default_factory=free_port)
    servers: ExitStack = field(default_factory=ExitStack)

    @property
    def app(self) -> str:
        return f"http://localhost:{self.port}"

    def environment(self) -> dict[str, str]:
        """With a port of its own and the dev server, whether Core Tools are installed or not."""
        own = {"PORT": str(self.port), "FUNC": "", "APP_URL": self.app}
        return environment(self.tools) | own

    def prepare(self) -> None:
        """Write the documents, and the stand-ins."""
        documents = self.clone / "path" / "to" / "documents"
        shutil.copytree(self.clone / "shared" / "data" / "documents", documents)
        (documents / "parking.md").write_text(PARKING)
        script(self.tools / "azd", AZD)
        script(self.tools / "az", AZ)

    def run(self, block: str) -> str:
        """Run a block; if its last command is `make run`, leave that running for the next ones.

        Returns what the block prints.
        """
        shell = ("sh", "-ec", block.replace("http://localhost:7071", self.app))
        if block.rstrip().endswith("make run"):
            self.servers.close()
            server = started(*shell, folder=self.clone, env=self.environment())
            process = self.servers.enter_context(server)
            self.servers.callback(control_c, process)
            address(process)
            return ""
        done = subprocess.run(
            shell,
            cwd=self.clone,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        return done.stdout

    def chat(self, question: str, **body: object) -> str:
        """Return the answer to a question."""
        request = {"messages": [{"role": "user", "content": question}], **body}
        response = httpx.post(f"{self.app}/chat", json=request, timeout=TIMEOUT, trust_env=False)
        return str(response.json()["message"]["content"])

    def get(self, path: str) -> bytes:
        """Return the body of a response."""
        response = httpx.get(f"{self.app}{path}", timeout=TIMEOUT, trust_env=False)
        assert response.status_code == 200
        return response.content


def walk(newcomer: Newcomer) -> None:
    """Run the pages; check each answer, and what the newcomer then has."""
    newcomer.prepare()
    printed = [newcomer.run(block) for block in runnable("README.md")]
    answers = [output for output in printed if output]
    calls = [newcomer.run(block) for block in runnable("docs/call.md")]

    assert (newcomer.clone / "local.settings.json").is_file()
    assert (newcomer.clone / "index.db").is_file()
    assert len(answers) == 1
    assert "company/employee_handbook.md" in answers[0]
    assert len(calls) == 3
    for answer in calls:
        assert "plans/northwind_standard.md" in answer
        assert '"finish_reason":"stop"' in answer
    assert newcomer.get("/").lower().startswith(b"<!doctype html>")
    check_own_documents(newcomer)
    check_stored_conversation(newcomer)


def check_own_documents(newcomer: Newcomer) -> None:
    """The answer cites a document of the newcomer, and the link opens it."""
    assert "[parking.md]" in newcomer.chat("What does the parking permit of Zanzibar cost?")
    assert newcomer.get("/content/parking.md").decode() == PARKING
    sample = "plans/northwind_health_plus.pdf"
    original = newcomer.clone / "shared" / "data" / "documents" / sample
    assert newcomer.get(f"/content/{sample}") == original.read_bytes()


def check_stored_conversation(newcomer: Newcomer) -> None:
    """A chat that has a conversation is listed."""
    newcomer.chat("What is stored?", sessionState={"conversation_id": None})
    assert b'"name":"What is stored?"' in newcomer.get("/_plugins/_ml/memory")


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    """One whose clone has its .venv, made of the Python that runs these tests."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*LEFT_OUT))
    script(clone / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
    for stamp in (".made", ".run", ".ingest"):
        (clone / ".venv" / stamp).touch()
    newcomer = Newcomer(clone, tmp_path / "tools")
    with newcomer.servers:
        yield newcomer


def test_command_blocks_run_in_sequence(newcomer: Newcomer) -> None:
    walk(newcomer)


def test_skipped_commands_exist_and_have_a_reason() -> None:
    first = {block.splitlines()[0] for block in blocks("README.md", "docs/call.md")}

    assert CANNOT.keys() <= first
    assert all(CANNOT.values())


def main(clone: Path) -> None:
    """Walk through a clone that has nothing installed, and leave it without the documents."""
    assert not (clone / ".venv").exists()
    with TemporaryDirectory() as tools, ExitStack() as servers:
        walk(Newcomer(clone, Path(tools), servers=servers))
    shutil.rmtree(clone / "path")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
