"""OpenAI's own Python client asks by the Responses API, against the running app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel

from tests.support.openai_clients import connect
from tests.support.responses_upstream import TEXT
from tests.support.servers import Server, ended

QUESTION = "What does Northwind Health Plus include?"
PAGE = "plans/northwind_health_plus.pdf#page=2"
CITED = f"{QUESTION}; say 漢字: ; say [{PAGE}]; say ."
SEARCH: Any = {"type": "file_search", "vector_store_ids": ["docs"], "max_num_results": 2}
WEATHER: Any = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
SUNNY: Any = {"type": "function_call_output", "call_id": "call_1", "output": "say Sunny"}
CLASSES = ("v1", "azure")
VERSION = "2025-04-01-preview"


class Answer(BaseModel):
    """The structure that a request asks for."""

    answer: str


@pytest.fixture(params=CLASSES)
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    with connect(server, request.param, VERSION) as client:
        yield client


@pytest.fixture(params=CLASSES)
def anna(memory_server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of somebody who has signed in, where responses are stored."""
    headers = {"x-ms-client-principal-id": "anna"}
    with connect(memory_server, request.param, VERSION, default_headers=headers) as client:
        yield client


def create(client: Any, input: Any, **more: Any) -> Any:
    return client.responses.create(model="command_model", input=input, **more)


def test_answer_with_annotations(client: Any) -> None:
    response = create(client, CITED, instructions="Be brief.", metadata={"a": "b"})
    (part,) = response.output[0].content
    (citation,) = part.annotations

    assert response.output_text == part.text == f"漢字: [{PAGE}]."
    assert (citation.type, citation.title) == ("url_citation", PAGE)
    assert part.text[citation.start_index : citation.end_index] == f"[{PAGE}]"
    assert (response.status, response.model) == ("completed", "command_model")
    assert (response.usage.total_tokens, response.metadata) == (49, {"a": "b"})


def test_file_search(client: Any) -> None:
    include = ["file_search_call.results"]
    search, message = create(client, CITED, tools=[SEARCH], include=include).output
    (citation,) = message.content[0].annotations

    assert (search.type, len(search.results)) == ("file_search_call", 2)
    found = {result.file_id: result for result in search.results}[citation.file_id]
    assert citation.filename == found.filename == "plans/northwind_health_plus.pdf"
    assert found.attributes["sourcepage"] == PAGE


def test_stream(client: Any) -> None:
    events = list(create(client, CITED, stream=True))
    types = [event.type.removeprefix("response.") for event in events]

    assert types == ["created", "in_progress", *TEXT, "completed"]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert events[-1].response.output_text == f"漢字: [{PAGE}]."


def test_deltas_arrive_one_by_one(client: Any) -> None:
    name = f"responses-{time.monotonic_ns()}"
    stream = create(client, f"say one; wait for {name}; say two", stream=True)
    deltas = (event.delta for event in stream if event.type == "response.output_text.delta")

    assert next(deltas) == "one"
    create(client, f"release {name}")
    assert [*deltas] == ["two"]


def test_stream_helper(client: Any) -> None:
    model = "command_model"
    with client.responses.stream(model=model, input="call f", tools=[WEATHER]) as calling:
        (called,) = calling.get_final_response().output
    order = 'say {"answer"; say : "x"}'
    with client.responses.stream(model=model, input=order, text_format=Answer) as structured:
        deltas = [it.delta for it in structured if it.type == "response.output_text.delta"]
        response = structured.get_final_response()

    assert (called.name, called.arguments) == ("f", '{"q": 1}')
    assert deltas == ['{"answer"', ': "x"}']
    assert response.output_parsed == Answer(answer="x")


def test_structured_answer_is_parsed(client: Any) -> None:
    order = 'say {"answer": "x"}'
    response = client.responses.parse(model="command_model", input=order, text_format=Answer)

    assert response.output_parsed == Answer(answer="x")


def test_what_is_not_served_is_not_found(client: Any) -> None:
    with pytest.raises(openai.NotFoundError) as compact:
        client.responses.compact(model="command_model", input="x")
    with pytest.raises(openai.NotFoundError) as count:
        client.responses.input_tokens.count(model="command_model", input="x")

    for failure, name in ((compact, "compact"), (count, "input_tokens")):
        assert f"/responses/{name} here" in str(failure.value)


def test_tool_output_with_the_earlier_items(client: Any) -> None:
    items: list[Any] = [{"role": "user", "content": "say Looking.; call f"}]
    first = create(client, items, tools=[WEATHER], store=False)
    items += [*first.output, SUNNY]
    second = create(client, items, tools=[WEATHER], store=False)
    items += [*second.output, {"role": "user", "content": "say Again"}]
    third = create(client, items, tools=[WEATHER], store=False)

    assert [item.type for item in first.output] == ["message", "function_call"]
    assert [second.output_text, third.output_text] == ["Sunny", "Again"]


def test_tool_output_by_the_previous_response(anna: Any) -> None:
    first = create(anna, "call f", tools=[WEATHER])
    second = create(anna, [SUNNY], tools=[WEATHER], previous_response_id=first.id)

    assert second.output_text == "Sunny"
    assert second.previous_response_id == first.id


def test_users_have_conversations_of_their_own(memory_server: Server) -> None:
    order = "list questions"
    users = [{"x-ms-client-principal-id": name} for name in ("anna", "ben")]
    with (
        connect(memory_server, "v1", VERSION, default_headers=users[0]) as anna,
        connect(memory_server, "azure", VERSION, default_headers=users[1]) as ben,
    ):
        first = [create(client, "say 1") for client in (anna, ben)]
        second = create(anna, "say 2", previous_response_id=first[0].id)
        branch = create(anna, order, previous_response_id=first[0].id)
        third = create(anna, order, previous_response_id=second.id, stream=True)
        texts = [event.delta for event in third if event.type == "response.output_text.delta"]
        with pytest.raises(openai.BadRequestError) as unknown:
            create(ben, order, previous_response_id=second.id)
        other = create(ben, order, previous_response_id=first[1].id)

    assert branch.output_text == other.output_text == "say 1"
    assert texts == ["say 1 | say 2"]
    assert unknown.value.code == "previous_response_not_found"
    assert unknown.value.param == "previous_response_id"


def test_stored_response(anna: Any) -> None:
    response = create(anna, CITED, metadata={"a": "b"})
    stored = anna.responses.retrieve(response.id)
    (item,) = anna.responses.input_items.list(response.id)
    with pytest.raises(openai.BadRequestError):
        anna.responses.cancel(response.id)
    with pytest.raises(openai.BadRequestError, match="stream: is not available"):
        anna.responses.retrieve(response.id, stream=True)
    anna.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError) as missing:
        anna.responses.retrieve(response.id)

    assert (stored.output, stored.metadata) == (response.output, response.metadata)
    assert (item.role, item.content[0].text) == ("user", CITED)
    assert missing.value.code == "not_found"


REJECTIONS: list[Any] = [
    ({"input": "refuse with content filter"}, openai.BadRequestError, "content_filter", ""),
    ({"input": "refuse with too long"}, openai.BadRequestError, "context_length_exceeded", ""),
    ({"input": "refuse with 429"}, openai.RateLimitError, "rate_limit_exceeded", ""),
    ({"input": "refuse with outage"}, openai.InternalServerError, "server_error", ""),
    ({"model": "unknown"}, openai.NotFoundError, "model_not_found", "model"),
    ({"input": []}, openai.BadRequestError, "invalid_value", "input"),
    (
        {"tools": [WEATHER, {"type": "web_search"}]},
        openai.BadRequestError,
        "unsupported_value",
        "tools[1].type",
    ),
    (
        {"previous_response_id": "resp_1"},
        openai.BadRequestError,
        "previous_response_not_found",
        "previous_response_id",
    ),
]


@pytest.mark.parametrize(("body", "error", "code", "param"), REJECTIONS)
@pytest.mark.parametrize("stream", [False, True])
def test_rejection_is_an_exception_of_the_sdk(
    client: Any,
    body: Any,
    error: type[openai.APIStatusError],
    code: str,
    param: str,
    stream: bool,
) -> None:
    with pytest.raises(error) as failed:
        client.responses.create(
            **{"model": "command_model", "input": "say x", "stream": stream, **body}
        )

    assert (failed.value.code, failed.value.param) == (code, param)


def test_failure_in_the_stream_is_its_last_event(client: Any) -> None:
    *_, last = create(client, "say Half; fail with outage", stream=True)

    assert (last.type, last.response.status) == ("response.failed", "failed")
    assert (last.response.error.code, last.response.output) == ("server_error", [])
    assert "not available" in last.response.error.message


def test_answer_at_its_limit_is_incomplete(client: Any) -> None:
    response = create(client, "say Half; end with length")

    assert (response.output_text, response.status) == ("Half", "incomplete")
    assert response.incomplete_details.reason == "max_output_tokens"


def test_disconnect_closes_the_model_stream(server: Server, client: Any) -> None:
    name = f"responses-left-{time.monotonic_ns()}"
    stream = create(client, f"open as {name}; say x; wait for never", stream=True)
    next(stream)
    stream.close()
    with server.client() as http:
        assert ended(http, name) == "closed"


def test_async_clients(server: Server) -> None:
    common: Any = {"api_key": "none", "max_retries": 0}
    azure: Any = {"azure_endpoint": server.url, "api_version": "2025-04-01-preview"}
    classes: list[Callable[..., Any]] = [
        lambda **more: openai.AsyncOpenAI(base_url=f"{server.url}/v1", **common, **more),
        lambda **more: openai.AsyncAzureOpenAI(**azure, **common, **more),
    ]

    async def ask(new: Callable[..., Any]) -> list[str]:
        async with new(http_client=httpx2.AsyncClient(trust_env=False)) as client:
            whole = await create(client, "say Hello")
            parts = await create(client, "say a; say b", stream=True)
            types = [event.type async for event in parts]
            helper = client.responses.stream(model="command_model", input="say c")
            async with helper as stream:
                final = await stream.get_final_response()
            return [whole.output_text, types[-1], final.output_text]

    async def work() -> list[list[str]]:
        return [await ask(new) for new in classes]

    assert asyncio.run(work()) == [["Hello", "response.completed", "c"]] * 2
