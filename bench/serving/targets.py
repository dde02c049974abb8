"""The servers that are measured: two baselines, this app, and other checkouts of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.serving.processes import (
    ROOT,
    Fakes,
    copy_app,
    free_port,
    run_process,
    wait_until_up,
)

RAW, SDKS, APP = "raw relay", "SDKs as usual", "this app"


@dataclass(frozen=True, slots=True)
class Server:
    """A command that serves, in its folder."""

    name: str
    command: Sequence[str]
    folder: Path
    settings: dict[str, str]
    log: Path


@dataclass(frozen=True, slots=True)
class Target:
    """A running server."""

    name: str
    pid: int
    url: str


def list_servers(fakes: Fakes, checkouts: Sequence[Path], folder: Path) -> list[Server]:
    """The baselines, this app, and the app in other checkouts."""
    servers = [
        Server(
            name,
            ["-m", f"bench.serving.{module}"],
            ROOT,
            fakes.baseline_settings,
            folder / f"{module}.log",
        )
        for name, module in ((RAW, "raw_relay"), (SDKS, "sdk_relay"))
    ]
    for number, checkout in enumerate((ROOT, *checkouts)):
        name = f"app in {checkout.name}" if number else APP
        copy = copy_app(checkout, folder / f"app-{number}")
        log = folder / f"app-{number}.log"
        servers.append(Server(name, ["dev_server.py"], copy, fakes.app_settings, log))
    return servers


@contextmanager
def run_target(server: Server) -> Iterator[Target]:
    """Run a server until the block ends."""
    port = free_port()
    command = [*server.command, "--port", str(port)]
    with run_process(command, server.folder, server.settings, server.log) as process:
        wait_until_up(process, port, server.log)
        yield Target(server.name, process.pid, f"http://127.0.0.1:{port}")


def run_targets(stack: ExitStack, servers: Sequence[Server]) -> list[Target]:
    """Run the servers until the stack is closed."""
    return [stack.enter_context(run_target(server)) for server in servers]
