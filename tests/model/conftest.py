"""The model's server and the app over it, each started once for its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx2
import openai
import pytest

from tests.support.model.app import settings
from tests.support.model.llama_server import SECONDS, run_llama_server
from tests.support.servers import Server, run_server


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_llama_server(tmp_path_factory.mktemp("llama")) as server:
        yield server


@pytest.fixture(scope="session")
def start(
    llama: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Server]]:
    """Starts the app over the model, with more settings."""
    running: dict[tuple[str, ...], Server] = {}
    with ExitStack() as stack:

        def start(kind: str, **more: str) -> Server:
            key = (kind, *sorted(f"{name}={value}" for name, value in more.items()))
            if key not in running:
                server = run_server(
                    kind, tmp_path_factory.mktemp("log"), {**settings(llama), **more}
                )
                running[key] = stack.enter_context(server)
            return running[key]

        yield start


@pytest.fixture
def app(kind: str, start: Callable[..., Server]) -> Server:
    """The app, whose answers are short."""
    return start(kind, MAX_ANSWER_TOKENS="24")


@pytest.fixture
def sdk(app: Server) -> Iterator[openai.OpenAI]:
    """OpenAI's client of the app."""
    with (
        httpx2.Client(trust_env=False, timeout=SECONDS) as transport,
        openai.OpenAI(
            base_url=f"{app.url}/v1", api_key="none", http_client=transport, max_retries=0
        ) as client,
    ):
        yield client
