"""The servers that are measured: two baselines, this app, and other checkouts of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from bench.serving.processes import (
    ROOT,
    Fakes,
    copy_app,
    free_port,
    run_process,
    wait_until_up,
)

CHAT = {"messages": [{"role": "user", "content": "How many days may I carry over?"}]}
RAW, SDKS, APP = "raw relay", "SDKs as usual", "this app"
BASELINES = {RAW: "raw_relay", SDKS: "sdk_relay"}
# What a server uses: a text search and chat completions, a search by vectors too, a model with the
# Responses API, or a knowledge base.
TEXT, HYBRID, RESPONSES = "text", "hybrid", "responses"
KNOWLEDGE = "knowledge"


@dataclass(frozen=True, slots=True)
class Server:
    """A command that serves, in its folder, one of the variants."""

    name: str
    command: Sequence[str]
    folder: Path
    settings: Mapping[str, str]
    log: Path
    variant: str = TEXT


@dataclass(frozen=True, slots=True)
class Target:
    """A running server."""

    name: str
    variant: str
    pid: int
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_app(self) -> bool:
        """Whether it is the app, here or in another checkout."""
        return self.name not in BASELINES

    def has_route(self, path: str) -> bool:
        """Whether it serves a path: an older checkout may lack a protocol."""
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", path)
        status = connection.getresponse().status
        connection.close()
        return status != 404


def list_servers(fakes: Fakes, checkouts: Sequence[Path], folder: Path) -> list[Server]:
    """The baselines, and the app in each checkout: of each variant, as far as they have it."""
    servers = []
    for variant in (TEXT, HYBRID, RESPONSES, KNOWLEDGE):
        settings = fakes.baseline_settings(variant == HYBRID)
        for name, module in BASELINES.items() if variant in (TEXT, HYBRID) else ():
            log, command = folder / f"{module}-{variant}.log", ["-m", f"bench.serving.{module}"]
            servers.append(Server(name, command, ROOT, settings, log, variant))
        settings = fakes.app_settings(variant == HYBRID)
        if variant == RESPONSES:
            settings["CHAT_MODEL_API"] = "responses"
        if variant == KNOWLEDGE:
            settings["AZURE_SEARCH_KNOWLEDGE_BASE"] = "docs"
        for number, checkout in enumerate(checkouts):
            command = ["dev_server.py"]
            copy = copy_app(checkout, folder / f"app-{number}-{variant}")
            name, log = checkout.name if number else APP, copy.with_suffix(".log")
            servers.append(Server(name, command, copy, settings, log, variant))
    return servers


@contextmanager
def run_target(server: Server) -> Iterator[Target]:
    """Run a server until the block ends."""
    port = free_port()
    command = [*server.command, "--port", str(port)]
    with run_process(command, server.folder, server.settings, server.log) as process:
        wait_until_up(process, port, server.log)
        yield Target(server.name, server.variant, process.pid, port)


def first_answer_seconds(target: Target, start: float) -> float:
    """The time from `start` to the end of a server's first answer. Raises RuntimeError."""
    connection = HTTPConnection("127.0.0.1", target.port)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/chat/stream", json.dumps(CHAT), headers)
    response = connection.getresponse()
    text = response.read()
    seconds = time.monotonic() - start
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{target.name} answers {response.status}: {text[:500]!r}")
    return seconds
