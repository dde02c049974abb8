"""How smooth do open streams stay while a full instance refuses more? `python -m bench.overload`

So many streams as the app may have, of 100 tokens each, 50 ms apart; alternately alone, and while
others ask all the time and are refused. The ratio counts: of the 99th percentiles of the time
between two tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from subprocess import Popen
from threading import Thread
from urllib.parse import urlsplit

from bench.serving.load import STAMP, Client, make_request
from bench.serving.processes import ROOT, Fakes, copy_app, cpu_seconds, run_fakes, run_process
from bench.serving.replies import TOKENS
from bench.serving.targets import CHAT, Server, Target, run_target
from shared.settings import Settings

DELAYS = {"search": 0.06, "first_token": 0.5, "token": 0.05}
FLOOD_SECONDS = 3.0  # of the five that a stream takes
FLOOD_CLIENTS, PAUSE = 20, 0.05  # seconds between a refusal and the next question
REQUEST = json.dumps(CHAT).encode()
HEADERS = {"Content-Type": "application/json"}


class Stream(Client):
    """A connection that keeps the milliseconds between the tokens of its answer."""

    def __init__(self, host: str, port: int, request: bytes) -> None:
        super().__init__(host, port, request)
        self.gaps: list[float] = []
        self.before = 0.0

    def data_received(self, data: bytes) -> None:
        """Time what has come."""
        count, now = len(self.answer.token_delays), time.monotonic()
        super().data_received(data)
        for _ in range(len(self.answer.token_delays) - count):
            self.gaps += [(now - self.before) * 1000] if self.before else []
            self.before = now


@dataclass(frozen=True, slots=True)
class Wave:
    """The figures of streams that ran at the same time."""

    p50: float
    p99: float
    cores: float
    refused: int = 0


async def run_wave(target: Target, streams: int, flood: Popen[str] | None) -> Wave:
    """Ask all at once; tell `flood` when all streams are open."""
    request = make_request(urlsplit(f"{target.url}/chat/stream"), CHAT)
    clients = [Stream("127.0.0.1", target.port, request) for _ in range(streams)]
    start, cpu = time.monotonic(), cpu_seconds(target.pid)
    answers = asyncio.gather(*(client.ask() for client in clients))
    while not (answers.done() or all(client.before for client in clients)):
        await asyncio.sleep(0.01)
    if flood is not None:
        write_line(flood, target.url)
    for answer in await answers:
        tokens = len(STAMP.findall(b"".join(answer.body)))
        assert tokens == TOKENS, f"{tokens} of {TOKENS} tokens: is the app's limit below {streams}?"
    cores = (cpu_seconds(target.pid) - cpu) / (time.monotonic() - start)
    gaps = sorted(gap for client in clients for gap in client.gaps)
    for client in clients:
        client.transport.close()
    refused = int(read_line(flood)) if flood is not None else 0
    return Wave(statistics.median(gaps), gaps[int(len(gaps) * 0.99)], cores, refused)


def write_line(process: Popen[str], line: str) -> None:
    """Write a line to a process."""
    assert process.stdin
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def read_line(process: Popen[str]) -> str:
    """Read a line of a process."""
    assert process.stdout
    return process.stdout.readline()


def ask_and_be_refused(url: str, refused: list[int]) -> None:
    """Ask for some seconds, and count the refusals."""
    parts, until = urlsplit(url), time.monotonic() + FLOOD_SECONDS
    connection = HTTPConnection(str(parts.hostname), parts.port or 80, timeout=60)
    while time.monotonic() < until:
        # Not JSON: where there is room, it is a 400, and does not become an answer.
        connection.request("POST", "/chat", REQUEST[:-1], HEADERS)
        response = connection.getresponse()
        response.read()
        refused += [response.status] * (response.status == 503)
        time.sleep(PAUSE)
    connection.close()


def flood() -> None:
    """Ask the app at each address of the standard input; print the number of refusals."""
    for url in sys.stdin:
        refused: list[int] = []
        threads = [
            Thread(target=ask_and_be_refused, args=(url.strip(), refused))
            for _ in range(FLOOD_CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(len(refused), flush=True)


def measure(fakes: Fakes, folder: Path, streams: int, rounds: int) -> Sequence[tuple[Wave, Wave]]:
    """Run an app that may have so many answers: pairs of waves, alone and with refusals."""
    settings = {**fakes.app_settings(is_hybrid=False), "MAX_CONCURRENT_ANSWERS": str(streams)}
    copy = copy_app(ROOT, folder / f"app-{streams}")
    log = folder / f"app-{streams}.log"
    server = Server("this app", ["dev_server.py"], copy, settings, log)
    command = ["-m", "bench.overload", "--flood"]
    with (
        run_target(server) as target,
        run_process(command, ROOT, {}, folder / "flood.log") as others,
    ):
        asyncio.run(run_wave(target, streams, None))  # to warm up
        return [
            (
                asyncio.run(run_wave(target, streams, None)),
                asyncio.run(run_wave(target, streams, others)),
            )
            for _ in range(rounds)
        ]


def row(streams: int, pairs: Sequence[tuple[Wave, Wave]]) -> str:
    """The medians of pairs of waves."""

    columns = zip(
        *(
            (
                alone.p50,
                alone.p99,
                full.p99,
                full.p99 / alone.p99,
                alone.cores,
                full.refused / FLOOD_SECONDS,
            )
            for alone, full in pairs
        ),
        strict=True,
    )
    return f"{streams:>7}" + "".join(f"{statistics.median(each):>14.2f}" for each in columns)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=__doc__)
    limit = Settings().max_concurrent_answers
    parser.add_argument("--streams", type=int, nargs="+", default=[limit])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flood", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        return flood()
    titles = ("p50, ms", "p99, ms", "p99 refusing", "ratio", "cores", "refusals/s")
    print(f"{'streams':>7}" + "".join(f"{title:>14}" for title in titles))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fakes = stack.enter_context(run_fakes(folder))
        fakes.set_delays(**DELAYS)
        for streams in options.streams:
            pairs = measure(fakes, folder, streams, options.rounds)
            print(row(streams, pairs), flush=True)


if __name__ == "__main__":
    main()
