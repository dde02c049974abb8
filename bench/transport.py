"""What does a stream cost over each of the OpenAI SDK's two transports? `python -m bench.transport`

Fifty answers of a hundred tokens at once over TLS, several rounds, the transports in turn. The CPU
time of the asking process alone is told; on a noisy machine the ratio counts.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trustme
from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultAsyncHttpxClient

from shared.domain.messages import Message
from shared.models.base import Prompt
from shared.models.formats.base import ModelConfig
from shared.models.formats.openai import OPENAI
from shared.models.openai.http_model import HttpModel
from tests.support.upstream import (
    RecordedRequest,
    Step,
    Upstream,
    answer_events,
    run_upstream,
    stream_response,
)

AT_ONCE, TOKENS = 50, 100
TRANSPORTS = {"httpx2": DefaultAsyncHttpxClient, "aiohttp": DefaultAioHttpClient}
PROMPT = Prompt("answer", (Message("user", "hello"),), 0.0)


class Talking(Upstream):
    """Answers with a hundred words."""

    def answer(self, request: RecordedRequest) -> list[Step]:
        return stream_response(answer_events(*(f"word{number} " for number in range(TOKENS))))


def serve(authority: Path) -> None:
    """Serve until the standard input ends."""
    ca, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.cert_pem.write_to_path(str(authority))
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    with run_upstream(Talking(), tls) as server:
        print(server.url, flush=True)
        sys.stdin.read()


async def measure(transport: str, url: str, authority: Path) -> float:
    """Milliseconds of CPU an answer."""
    trusted = ssl.create_default_context(cafile=str(authority))
    http = TRANSPORTS[transport](verify=trusted)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", http_client=http) as client:
        traits = ModelConfig("m", max_prompt_tokens=1000, server_model="m")
        model = HttpModel(client, f"{url}/v1/chat/completions", OPENAI, traits)

        async def ask() -> None:
            async with model.open(PROMPT) as stream:
                async for _ in stream:
                    pass

        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))  # the connections
        start = time.process_time()
        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        return (time.process_time() - start) / AT_ONCE * 1000


def main() -> None:
    """Measure, and print a line for each transport."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    results: dict[str, list[float]] = {name: [] for name in TRANSPORTS}
    with tempfile.TemporaryDirectory() as folder:
        authority = Path(folder) / "ca.pem"
        command = [sys.executable, "-m", "bench.transport", "--serve", str(authority)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as server:  # type: ignore[call-overload]
            url = server.stdout.readline().strip()
            for _ in range(options.rounds):
                for name, times in results.items():
                    times.append(asyncio.run(measure(name, url, authority)))
            server.stdin.close()
    for name, times in results.items():
        print(f"{name:8} {statistics.median(times):6.2f} ms of CPU an answer of {TOKENS} tokens")


if __name__ == "__main__":
    main()
