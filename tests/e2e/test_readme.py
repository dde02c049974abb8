"""Every command block of the README, run as it stands by somebody who reads from top to bottom."""

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

import pytest

from tests.e2e.test_newcomer import LEFT_OUT, MAKE, address, control_c, environment, script, started
from tests.support.servers import ROOT, TIMEOUT, free_port

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = {"sh", "bash", "shell", "console", "bat", "powershell", "cmd"}
# What cannot run here, by its first line, and why.
CANNOT = {
    "py -3.13 -m venv .venv": "needs Windows",
    "azd auth login": "needs azd and an Azure subscription",
    "azd down --purge": "needs azd and an Azure subscription",
}
# Stand-ins for the tools that ask Azure where the app is, and for a key or a token.
AZD = """case "$3" in SERVICE_API_URI) echo "$README_URL";; *) echo of-no-matter;; esac"""
AZ = """echo a-key-or-token"""
ASKS_AGAIN = 4  # of the blocks ask the app a question

pytestmark = pytest.mark.skipif(os.name == "nt" or not MAKE, reason="needs make and a shell")


def blocks() -> list[str]:
    """The command blocks, in order."""
    text = (ROOT / "README.md").read_text("utf-8")
    return [body for language, body in BLOCK.findall(text) if language in COMMANDS]


def runnable() -> list[str]:
    return [block for block in blocks() if block.splitlines()[0] not in CANNOT]


@dataclass
class Reader:
    """Somebody with a clone and a shell; `outputs` is what each command that ended has printed."""

    clone: Path
    port: int = field(default_factory=free_port)
    outputs: list[str] = field(default_factory=list)
    servers: ExitStack = field(default_factory=ExitStack)

    def environment(self) -> dict[str, str]:
        own = {"PORT": str(self.port), "FUNC": "", "README_URL": f"http://localhost:{self.port}"}
        return environment(self.clone / "tools") | own

    def run(self, block: str) -> None:
        """Run a block; where it ends in a server, leave that running for the next blocks."""
        shell = ("sh", "-ec", block.replace("localhost:7071", f"localhost:{self.port}"))
        if block.rstrip().endswith("make run"):
            self.servers.close()
            server = started(*shell, folder=self.clone, env=self.environment())
            process = self.servers.enter_context(server)
            self.servers.callback(control_c, process)
            address(process)
            return
        done = subprocess.run(
            shell,
            cwd=self.clone,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        self.outputs.append(done.stdout)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """One whose clone has its .venv, made of the Python that runs these tests."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*LEFT_OUT))
    script(clone / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
    for stamp in (".made", ".run", ".ingest"):
        (clone / ".venv" / stamp).touch()
    script(clone / "tools/azd", AZD)
    script(clone / "tools/az", AZ)
    shutil.copytree(clone / "shared/data/documents", clone / "path/to/documents")
    reader = Reader(clone)
    with reader.servers:
        yield reader


def test_command_blocks_run_in_sequence(reader: Reader) -> None:
    for block in runnable():
        reader.run(block)

    assert (reader.clone / "index.db").is_file()
    assert len(reader.outputs) == ASKS_AGAIN
    assert "plans/northwind_health_plus.pdf#page=2" in reader.outputs[0]
    for answer in reader.outputs[1:]:
        assert "plans/northwind_standard.md" in answer
        assert '"finish_reason":"stop"' in answer


def test_skipped_commands_exist_and_have_a_reason() -> None:
    first = {block.splitlines()[0] for block in blocks()}

    assert CANNOT.keys() <= first
    assert all(CANNOT.values())
