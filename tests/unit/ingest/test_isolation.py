"""The process that reads files has no network, where the system allows that."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.sandbox import SandboxReader
from tests.support.servers import ROOT

SCRIPT = """
import os, socket, sys
from ingest.isolation import isolate
isolated = isolate()
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
    print(isolated, "connected")
except OSError as error:
    print(isolated, error.strerror)
try:
    print(len(open(f"/proc/{os.getppid()}/environ").read()) > 0)
except PermissionError:
    print("hidden")
open(sys.argv[2], "w").close()
"""


def find_obstacle() -> str | None:
    """Return why a process cannot be isolated here; None if it can."""
    if sys.platform != "linux" or sys.version_info < (3, 12):
        return "isolation takes Linux and Python 3.12"
    flags = "--net" if os.geteuid() == 0 else "--net --user"
    tool = shutil.which("unshare")
    if tool is None or subprocess.run([tool, *flags.split(), "true"], check=False).returncode:
        return "this system lets no process leave the network"
    return None


OBSTACLE = find_obstacle()
ISOLATES = pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or "")


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def try_network(port: int, file: Path) -> list[str]:
    """Isolate a process; what became of it, of a connection, and of the parent's variables."""
    command = [sys.executable, "-c", SCRIPT, str(port), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@ISOLATES
def test_isolated_process_has_no_network(port: int, tmp_path: Path) -> None:
    lines = try_network(port, tmp_path / "written")

    assert lines[0] == "True Network is unreachable"
    assert lines[1] == ("True" if os.geteuid() == 0 else "hidden")
    assert (tmp_path / "written").stat().st_uid == os.geteuid()


@pytest.mark.skipif(OBSTACLE is None, reason="a process can be isolated here")
def test_process_that_cannot_be_isolated_goes_on(port: int, tmp_path: Path) -> None:
    assert try_network(port, tmp_path / "written") == ["False connected", "True"]


@ISOLATES
def test_each_thread_that_reads_files_is_isolated(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("It can be read.")

    async def find_networks() -> set[str]:
        async with SandboxReader() as reader:
            await reader.read_passages(path, path.name)
            assert reader._process is not None
            threads = Path(f"/proc/{reader._process.pid}/task").iterdir()
            return {os.readlink(thread / "ns" / "net") for thread in threads}

    networks = asyncio.run(find_networks())

    assert len(networks) == 1
    assert networks.isdisjoint({os.readlink("/proc/self/ns/net")})
