"""LangChain's two chat models of OpenAI's.

By chat completions, here with `data_sources`, they read the answer's text and keep no `context`.
By the Responses API they keep the annotations.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import BaseModel, SecretStr

from tests.support.calls import CHAT_KEY
from tests.support.fake_search import FakeSearch
from tests.support.openai_app import running
from tests.support.search_app import PUBLIC, home
from tests.support.servers import Server
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


PAGE = "plans/northwind_health_plus.pdf#page=2"
CITED = f"What does Northwind Health Plus include?; say See ; say [{PAGE}]"


@tool
def f(q: int) -> str:
    """Returns the weather, as an order to the model."""
    return f"say Sunny {q}"


class Structure(BaseModel):
    """The structure that a request asks for."""

    answer: str


@pytest.fixture(params=["ChatOpenAI", "AzureChatOpenAI"])
def responses(server: Server, request: pytest.FixtureRequest) -> Any:
    """A chat model that asks by the Responses API."""
    common: Any = {"api_key": SecretStr("none"), "max_retries": 0, "use_responses_api": True}
    if request.param == "ChatOpenAI":
        return ChatOpenAI(base_url=f"{server.url}/v1", model="command_model", **common)
    return AzureChatOpenAI(
        azure_endpoint=server.url,
        azure_deployment="command_model",
        api_version="2025-04-01-preview",
        **common,
    )


def test_response_has_annotations(responses: Any) -> None:
    parts = list(responses.stream(CITED))
    streamed = sum(parts[1:], parts[0])

    for message in (responses.invoke(CITED), streamed):
        (block,) = message.content
        (citation,) = block["annotations"]
        assert message.text == f"See [{PAGE}]"
        assert (citation["type"], citation["title"]) == ("url_citation", PAGE)
        assert message.usage_metadata["total_tokens"] == 49
    assert len([part for part in parts if part.text]) == 2


def test_tool_and_structure_by_responses(responses: Any) -> None:
    messages: list[Any] = [HumanMessage("call f")]
    calling = responses.bind_tools([f])
    messages.append(calling.invoke(messages))
    messages.append(f.invoke(messages[-1].tool_calls[0]))
    messages.append(calling.invoke(messages))
    answer = calling.invoke([*messages, HumanMessage("list questions")])
    structured = responses.with_structured_output(Structure).invoke('say {"answer": "x"}')

    assert (messages[-1].text, answer.text) == ("Sunny 1", "call f")
    assert structured == Structure(answer="x")
