"""The settings of the app over the model, and its questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.model.llama_server import SECONDS
from tests.support.servers import Server, asking

QUESTION = "What does an ambulance cost in Northwind Health Plus?"


def settings(llama: Server) -> dict[str, str]:
    """Return the settings for the model, with more time than by default."""
    return {
        "OPENAI_BASE_URL": f"{llama.url}/v1",
        "OPENAI_CHAT_MODEL": "local",
        "ANSWER_TIMEOUT_SECONDS": "200",
        "MODEL_FIRST_TOKEN_SECONDS": "120",
    }


def post(server: Server, route: str, json: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{route}", json=json, timeout=SECONDS, trust_env=False)


@contextmanager
def open_stream(server: Server, question: str = QUESTION) -> Iterator[Iterator[Any]]:
    """Yield the lines of a streamed answer as they arrive."""
    with (
        httpx.Client(trust_env=False, timeout=SECONDS) as http,
        http.stream("POST", f"{server.url}/chat/stream", json=asking(question)) as response,
    ):
        assert response.status_code == 200
        yield (json.loads(line) for line in response.iter_lines())
