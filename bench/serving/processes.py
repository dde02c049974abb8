"""Starts the processes of the benchmark, and reads what they use."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil

from bench.serving.fake_azure import IDENTITY_HEADER
from bench.serving.requests import KEY
from tests.support.isolation import isolate

ROOT = Path(__file__).parent.parent.parent
OUTPUT = ROOT / "build" / "serving.json"
APP_FILES = ("function_app.py", "host.json", "dev_server.py")
SECONDS = 60


def cpu_seconds(pid: int) -> float:
    """The processor time of a process."""
    if sys.platform == "linux":  # the number of its clock, by clock_getcpuclockid(3): nanoseconds
        return time.clock_gettime(~pid << 3 | 2)
    times = psutil.Process(pid).cpu_times()  # in steps of a hundredth of a second or more
    return float(times.user + times.system)


def peak_mib(pid: int) -> float:
    """The peak of a process's memory; on other systems than Linux its present memory."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return float(psutil.Process(pid).memory_info().rss) / 1024**2


@contextmanager
def run_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python process until the block ends; its errors go to a log."""
    inherited = dict(os.environ)
    isolate(inherited)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**inherited, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def copy_app(app: Path, folder: Path) -> Path:
    """Copy what is deployed of a checkout, without its settings, index and conversations."""
    folder.mkdir()
    for name in APP_FILES:
        shutil.copy2(app / name, folder)
    shutil.copytree(app / "shared", folder / "shared")
    return folder


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_until_up(process: subprocess.Popen[str], port: int, log: Path) -> None:
    """Wait until a server listens. Raises RuntimeError with its log."""
    until = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.005)
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


@dataclass(frozen=True, slots=True)
class Fakes:
    """The running fakes: their address, their settings for the app, and their certificate."""

    endpoint: str
    control: int
    authority: Path

    def set_delays(self, **seconds: float) -> None:
        """Change the delays."""
        connection = HTTPConnection("127.0.0.1", self.control)
        connection.request("PUT", "/delays", json.dumps(seconds))
        assert connection.getresponse().read() == b"{}"
        connection.close()

    def baseline_settings(self, is_hybrid: bool) -> dict[str, str]:
        """The environment of a baseline."""
        return {
            "BENCH_ENDPOINT": self.endpoint,
            "BENCH_KEY": KEY,
            "BENCH_RETRIEVAL": "hybrid" if is_hybrid else "text",
            "SSL_CERT_FILE": str(self.authority),
        }

    def app_settings(self, is_hybrid: bool) -> dict[str, str]:
        """The settings of the app in Azure, with a managed identity.

        With hybrid search it has every Azure service, though no call needs the last two.
        """
        others = {
            "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "embedding",
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
            "AZURE_COSMOS_ENDPOINT": self.endpoint,
        }
        return {
            "AZURE_SEARCH_ENDPOINT": self.endpoint,
            "AZURE_SEARCH_INDEX": "docs",
            "AZURE_OPENAI_ENDPOINT": self.endpoint,
            "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
            "MAX_CONCURRENT_ANSWERS": "1000",
            "IDENTITY_ENDPOINT": f"http://127.0.0.1:{self.control}/token",
            "IDENTITY_HEADER": IDENTITY_HEADER,
            "SSL_CERT_FILE": str(self.authority),
            **(others if is_hybrid else {}),
        }


@contextmanager
def run_fakes(folder: Path) -> Iterator[Fakes]:
    """Run the fakes until the block ends."""
    authority = folder / "ca.pem"
    command = ["-m", "bench.serving.fake_azure", str(authority)]
    with run_process(command, ROOT, {}, folder / "fakes.log") as process:
        assert process.stdout
        azure, identity = process.stdout.readline().split()
        yield Fakes(f"https://127.0.0.1:{azure}", int(identity), authority)


@dataclass(frozen=True, slots=True)
class LoadClient:
    """The running load client."""

    process: subprocess.Popen[str]

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The figures of a job. Raises RuntimeError."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        if line := self.process.stdout.readline():
            figures: dict[str, Any] = json.loads(line)
            return figures
        raise RuntimeError("the load client failed")


@contextmanager
def run_load_client(folder: Path) -> Iterator[LoadClient]:
    """Run the load client until the block ends."""
    command = ["-m", "bench.serving.load"]
    with run_process(command, ROOT, {}, folder / "load.log") as process:
        yield LoadClient(process)
