"""Starts the app as its users do, in another process: the dev server, and a Functions host.

The host is the command line in `FUNCTIONS_HOST` (for example `func start`): it is run in a copy
of the app's folder with `--port N` added.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.isolation import app_copy, system_trust

HOSTS = ["dev", "functions"] if os.environ.get("FUNCTIONS_HOST") else ["dev"]
ROOT = Path(__file__).parent.parent.parent
FAKE_SEARCH = {"RETRIEVER": "tests.support.fakes:fake_retriever"}
SAMPLES = {"INDEX_FILE": "samples"}  # also where there is an index of one's own
# Also where the tests run in a container that has a name.
LAPTOP = {"CONTAINER_NAME": "", "AZURE_FUNCTIONS_ENVIRONMENT": "Development"}
SIGN_IN = {"WEBSITE_AUTH_ENABLED": "true", "TRUST_SIGN_IN_HEADERS": "true"}
COMMAND_MODEL = {"CHAT_MODEL": "tests.support.fakes:command_model"}
TIMEOUT = 60.0  # seconds; only a hang takes so long
# What a host needs to know, which has no local.settings.json to read it from.
WORKER = {
    "FUNCTIONS_WORKER_RUNTIME": "python",
    "PYTHON_ENABLE_INIT_INDEXING": "1",  # for Python 3.12 and below
}


@dataclass(frozen=True)
class Server:
    """A running server: its address, its output so far, and its process."""

    url: str
    log_file: Path
    pid: int

    @property
    def log(self) -> str:
        return self.log_file.read_text("utf-8", "replace")

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=TIMEOUT, trust_env=False)


def command(kind: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The command line of a kind of server, without its port."""
    if kind == "dev":
        return [sys.executable, "dev_server.py"]
    return shlex.split(environment["FUNCTIONS_HOST"])


@contextmanager
def run_server(
    kind: str,
    folder: Path,
    settings: Mapping[str, str],
    app: Path | None = None,
    line: Sequence[str] = (),
) -> Iterator[Server]:
    """Run a server until the block ends. Its output goes to a file in `folder`.

    `app` is the folder to serve, a copy of the app by default; `line` replaces the command line of
    the kind.
    """
    port = free_port()
    log_file = folder / f"{kind}-{port}.log"
    inherited = os.environ if kind == "dev" else system_trust(os.environ)
    environment = {**inherited, **WORKER, **SAMPLES, **LAPTOP, **settings}
    environment["PYTHONUNBUFFERED"] = "1"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*(line or command(kind)), "--port", str(port)],
            cwd=app or app_copy(),
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}", log_file, process.pid)
    try:
        wait_until_up(process, server)
        yield server
    finally:
        stop_server(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(process: subprocess.Popen[bytes], server: Server) -> None:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until and process.poll() is None:
        try:
            httpx.head(f"{server.url}/health", timeout=5, trust_env=False)
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the server did not start:\n{server.log}")


def stop_server(process: subprocess.Popen[bytes]) -> None:
    """Stop a server as Ctrl+C does, then kill its process group: a host has a worker, too."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def get_answer(server: Server) -> httpx.Response:
    words = "What is included in my Northwind Health Plus plan that is not in standard?"
    with server.client() as client:
        return client.post("/chat", json={"messages": [{"role": "user", "content": words}]})


def asking(*orders: str, **keys: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "; ".join(orders)}], **keys}


def text(response: httpx.Response) -> str:
    return str(response.json()["message"]["content"])


def ended(client: httpx.Client, name: str) -> str:
    """How the model's stream of that name fares, waited for until it is closed."""
    until = time.monotonic() + TIMEOUT / 2
    state = ""
    while state != "closed" and time.monotonic() < until:
        state = text(client.post("/chat", json=asking(f"report {name}")))
        time.sleep(0.05)
    return state
