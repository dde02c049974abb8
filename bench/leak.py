"""Does the app's memory grow with its requests? `python -m bench.leak --requests 20000`

Questions in every protocol, over fakes of Azure AI Search and Azure OpenAI, on the dev server; with
`FUNCTIONS_HOST` in the environment also on that host, beside an app that does nothing: the worker
has a leak of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import aiohttp
import psutil

from bench.soak.fakes import Faults
from bench.soak.process import MIB
from bench.soak.protocols import PROTOCOLS
from bench.soak.rounds import open_client
from bench.soak.services import run_services
from bench.soak.sessions import Report, Session
from tests.support.isolation import isolate
from tests.support.servers import Server, run_server

AT_ONCE, FIRST = 10, 0.1  # share of the requests after which memory is measured first
EMPTY_HOST = '{"version": "2.0", "extensions": {"http": {"routePrefix": ""}}}'
EMPTY_APP = """
import azure.functions as func
from azurefunctions.extensions.http.fastapi import Request, Response
from starlette.responses import StreamingResponse

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)

async def lines():
    yield b"line\\n"

@app.route(route="health", methods=["GET", "HEAD"])
async def health(req: Request) -> Response:
    return Response()

@app.route(route="chat", methods=["POST"])
async def chat(req: Request) -> Response:
    await req.body()
    return StreamingResponse(lines())
"""

Ask = Callable[[aiohttp.ClientSession, int], Awaitable[None]]


async def ask_app(client: aiohttp.ClientSession, number: int) -> None:
    """Ask a question in one of the protocols. Raises Violation."""
    protocol = PROTOCOLS[number % len(PROTOCOLS)]
    session = Session(client, protocol, number, Random(number), Report(), may_leave=False)
    await session.ask(0, protocol.stream_path is not None and number % 2 == 0)


async def ask_empty(client: aiohttp.ClientSession, _number: int) -> None:
    """Send a request to an app that does nothing."""
    async with client.post("/chat", json={}) as response:
        await response.read()


def resident_mib(pid: int) -> float:
    """The resident memory of a process with its children."""
    process = psutil.Process(pid)
    tree = (process, *process.children(recursive=True))
    return float(sum(each.memory_info().rss for each in tree) / MIB)


async def send(server: Server, ask: Ask, numbers: range) -> float:
    """Send requests, and return the memory after them."""
    left = iter(numbers)

    async def keep_asking() -> None:
        for number in left:
            await ask(client, number)

    async with open_client(server.url) as client:
        await asyncio.gather(*(keep_asking() for _ in range(AT_ONCE)))
    return resident_mib(server.pid)


def measure(name: str, server: Server, ask: Ask, requests: int) -> None:
    """Print the memory of a server after the first requests, and after all."""
    middle = int(requests * FIRST)
    first = asyncio.run(send(server, ask, range(middle)))
    last = asyncio.run(send(server, ask, range(middle, requests)))
    growth = (last - first) * 1024 / (requests - middle)
    print(f"{name:<28}{first:>12.1f}{last:>12.1f}{growth:>18.2f}", flush=True)


def main() -> None:
    """Run the servers one after the other, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.leak", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    requests = parser.parse_args().requests
    isolate(os.environ)
    kinds = ("dev", "functions") if os.environ.get("FUNCTIONS_HOST") else ("dev",)
    titles = (f"{int(requests * FIRST)}, MiB", f"{requests}, MiB", "KiB a request")
    print("{:<28}{:>12}{:>12}{:>18}".format("memory after requests", *titles), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with run_services(folder, Faults(0, 0)) as services:
            for kind in kinds:
                with run_server(kind, folder, services.settings) as server:
                    measure(f"{kind} server", server, ask_app, requests)
        if "functions" in kinds:
            empty = folder / "empty"
            empty.mkdir()
            (empty / "host.json").write_text(EMPTY_HOST)
            (empty / "function_app.py").write_text(EMPTY_APP)
            with run_server("functions", folder, {}, app=empty) as server:
                measure("functions server, empty app", server, ask_empty, requests)


if __name__ == "__main__":
    main()
