"""LangChain's two chat models of OpenAI's, with `data_sources` beside: they read the answer's text.

They keep no `context`: what wants the citations asks by the SDK.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from tests.e2e.test_openai_npm import running
from tests.integration.test_azure_search import PUBLIC, home
from tests.support.calls import CHAT_KEY
from tests.support.fake_search import FakeSearch
from tests.support.upstream import Upstream, answer_events, stream_response

__all__ = ["home", "running"]  # fixtures

KEY = SecretStr(CHAT_KEY)


@pytest.fixture(params=["ChatOpenAI", "AzureChatOpenAI"])
def chain(running: tuple[FakeSearch, Upstream, str], request: pytest.FixtureRequest) -> Any:
    search, model, url = running
    search.requests.clear()
    model.plan[:] = [stream_response(answer_events("It is in [pl", "an.md], not in [x.md]."))]
    parameters = {
        "endpoint": search.url,
        "index_name": "docs",
        "authentication": {"type": "api_key", "key": "s3cret"},
        "filter": "category ne 'other'",
    }
    body = {"data_sources": [{"type": "azure_search", "parameters": parameters}]}
    if request.param == "ChatOpenAI":
        return ChatOpenAI(
            base_url=f"{url}/v1", api_key=KEY, model="m", extra_body=body, max_retries=0
        )
    return AzureChatOpenAI(
        azure_endpoint=url,
        azure_deployment="m",
        api_version="2024-05-01-preview",
        api_key=KEY,
        extra_body=body,
        max_retries=0,
    )


ANSWER = "It is in [doc2], not in [x.md]."


def test_answer(chain: Any, running: tuple[FakeSearch, Upstream, str]) -> None:
    got = chain.invoke("deductible")

    assert got.content == ANSWER
    assert got.response_metadata["model_name"] == "m"
    assert running[0].requests[0].body["filter"] == f"{PUBLIC} and (category ne 'other')"


def test_stream(chain: Any) -> None:
    parts = [part.content for part in chain.stream("deductible")]

    assert "".join(parts) == ANSWER
    assert len([part for part in parts if part]) > 1


def test_async_stream(chain: Any) -> None:
    async def read() -> str:
        try:
            return "".join([str(part.content) async for part in chain.astream("deductible")])
        finally:
            await chain.root_async_client.close()

    assert asyncio.run(read()) == ANSWER
