"""Does the app's memory grow with its requests? `python -m bench.leak --requests 20000`

Questions in every protocol, over fakes of Azure AI Search and Azure OpenAI, on the dev server; with
`FUNCTIONS_HOST` in the environment also on that host, beside an app that does nothing: the worker
has a leak of its own. The last column is the growth in the second half.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from random import Random

import aiohttp
import psutil

from bench.soak.fakes import Faults
from bench.soak.process import MIB
from bench.soak.protocols import PROTOCOLS, Question
from bench.soak.rounds import open_client
from bench.soak.services import run_services
from bench.soak.sessions import Report, Session
from tests.support.isolation import isolate
from tests.support.servers import Server, run_server

AT_ONCE = 10
POINTS = (0.1, 0.25, 0.5, 1)  # shares of the requests after which memory is measured
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

@app.route(route="{*path}", methods=["POST"])
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


async def ask_empty(client: aiohttp.ClientSession, number: int) -> None:
    """Send the same request to an app that does nothing."""
    protocol = PROTOCOLS[number % len(PROTOCOLS)]
    question = Question(f"s{number}q0", (), None, number % 2 == 0)
    async with client.post(protocol.path_of(question), json=protocol.body(question)) as response:
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
    """Print the memory of a server after some of the requests, and after all."""
    counts = [int(requests * point) for point in POINTS]
    values = [
        asyncio.run(send(server, ask, range(start, stop))) for start, stop in pairwise((0, *counts))
    ]
    growth = (values[-1] - values[-2]) * 1024 / (counts[-1] - counts[-2])
    print(f"{name:<28}" + "".join(f"{it:>10.1f}" for it in values) + f"{growth:>16.2f}", flush=True)


def main() -> None:
    """Run the servers one after the other, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.leak", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    requests = parser.parse_args().requests
    isolate(os.environ)
    kinds = ("dev", "functions") if os.environ.get("FUNCTIONS_HOST") else ("dev",)
    counts = "".join(f"{int(requests * point):>10}" for point in POINTS)
    print(f"{'MiB after so many requests':<28}{counts}{'KiB a request':>16}", flush=True)
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
