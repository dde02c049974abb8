"""OpenAI's own Python client, in the classes that need no event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai

from tests.support.servers import Server

PREFIXES = ("v1", "openai/v1", "azure")


@contextmanager
def connect(
    server: Server, prefix: str, api_version: str = "2024-10-21", **options: Any
) -> Iterator[Any]:
    """A client by the prefix of its routes: `azure` is AzureOpenAI."""
    common = {"api_key": "none", "max_retries": 0, **options}
    common["http_client"] = httpx2.Client(trust_env=False)
    if prefix == "azure":
        client: Any = openai.AzureOpenAI(
            azure_endpoint=server.url, api_version=api_version, **common
        )
    else:
        client = openai.OpenAI(base_url=f"{server.url}/{prefix}", **common)
    with client:
        yield client
