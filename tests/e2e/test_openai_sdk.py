"""OpenAI's own Python client, in its four classes, against the running app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.support.calls import WEATHER
from tests.support.openai_clients import PREFIXES, connect
from tests.support.servers import TIMEOUT, Server

KEY = "none"


@pytest.fixture(params=PREFIXES)
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    with connect(server, request.param, "2024-05-01-preview") as client:
        yield client


def asking(*orders: str) -> Any:
    """A question that orders the model about."""
    return [{"role": "user", "content": "; ".join(orders)}]


def test_answer_with_citations(client: Any) -> None:
    got = client.chat.completions.create(
        model="command_model", messages=asking("say Hello", "say  you")
    )
    (choice,) = got.choices

    assert (got.object, got.model) == ("chat.completion", "command_model")
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello you")
    assert choice.finish_reason == "stop"
    assert got.usage.total_tokens == 49
    assert set(choice.message.context) == {"citations", "intent"}


HANDBOOK = "[company/employee_handbook.md]"
CITATIONS = asking("vacation days", f"say 20 {HANDBOOK}", f"say , 25 {HANDBOOK}", "say .")


def test_helper_of_the_sdk_folds_a_stream_with_citations(client: Any) -> None:
    with client.chat.completions.stream(model="command_model", messages=CITATIONS) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        folded = stream.get_final_completion().choices[0].message
    whole = client.chat.completions.create(model="command_model", messages=CITATIONS)
    annotations = whole.choices[0].message.annotations

    assert folded.content == "".join(pieces) == whole.choices[0].message.content
    assert [each.url_citation for each in folded.annotations] == [
        each.url_citation for each in annotations
    ]
    assert len(annotations) == 2
    assert set(folded.context) == {"citations", "intent"}


@pytest.mark.parametrize("usage", [True, False])
def test_stream(client: Any, usage: bool) -> None:
    words = [f"{number} " for number in range(20)]
    options: Any = {"stream_options": {"include_usage": True}} if usage else {}
    messages = asking(*(f"say {word}" for word in words))
    stream = client.chat.completions.create(
        model="command_model", messages=messages, stream=True, **options
    )
    chunks = list(stream)
    if usage:
        last = chunks.pop()
        assert (last.choices, last.usage.total_tokens) == ([], 49)
    deltas = [chunk.choices[0].delta for chunk in chunks]

    assert [delta.content for delta in deltas] == [None, *words, None]
    assert [hasattr(delta, "context") for delta in deltas] == [True] + [False] * (len(deltas) - 1)
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_source_is_cited_by_number(client: Any) -> None:
    words = "What does Northwind Health Plus include that Northwind Standard does not?"
    question = f"{words}; say See [plans/; say northwind_health_plus.pdf#page=2].; say [x.md]"
    got = client.chat.completions.create(
        model="command_model", messages=[{"role": "user", "content": question}]
    )
    message = got.choices[0].message
    titles = [citation["title"] for citation in message.context["citations"]]
    place = titles.index("plans/northwind_health_plus.pdf#page=2") + 1

    assert message.content == f"See [doc{place}].[x.md]"


def test_chunks_arrive_one_by_one(client: Any) -> None:
    name = f"sdk-{time.monotonic_ns()}"
    messages = asking("say one", f"wait for {name}", "say two")
    stream = client.chat.completions.create(model="command_model", messages=messages, stream=True)

    assert [next(stream).choices[0].delta.content for _ in range(2)] == [None, "one"]
    client.chat.completions.create(model="command_model", messages=asking(f"release {name}"))
    assert [chunk.choices[0].delta.content for chunk in stream] == ["two", None]


def test_disconnect_closes_the_model_stream(client: Any) -> None:
    name = f"sdk-left-{time.monotonic_ns()}"
    messages = asking(f"open as {name}", "say one", "wait for nothing at all")
    stream = client.chat.completions.create(model="command_model", messages=messages, stream=True)
    next(stream)
    stream.close()

    state, until = "open", time.monotonic() + TIMEOUT
    while state == "open" and time.monotonic() < until:
        report = client.chat.completions.create(
            model="command_model", messages=asking(f"report {name}")
        )
        state = report.choices[0].message.content
    assert state == "closed"


REFUSALS: list[Any] = [
    ("refuse with content filter", openai.BadRequestError, "content_filter"),
    ("refuse with too long", openai.BadRequestError, "context_length_exceeded"),
    ("refuse with 429 after 7", openai.RateLimitError, "rate_limit_exceeded"),
    ("refuse with outage", openai.InternalServerError, None),
    ("refuse with timeout", openai.InternalServerError, None),
    ("refuse with bug", openai.InternalServerError, None),
]


@pytest.mark.parametrize(("order", "error", "code"), REFUSALS)
@pytest.mark.parametrize("stream", [False, True])
def test_rejection_is_an_exception_of_the_sdk(
    client: Any, order: str, error: type[openai.APIStatusError], code: str | None, stream: bool
) -> None:
    with pytest.raises(error) as failed:
        client.chat.completions.create(model="command_model", messages=asking(order), stream=stream)

    assert failed.value.code == code
    assert "secret" not in str(failed.value)
    if code == "rate_limit_exceeded":
        assert failed.value.response.headers["retry-after"] == "7"


def test_unknown_model_and_invalid_parameter_are_typed_errors(client: Any) -> None:
    create = client.chat.completions.create
    with pytest.raises(openai.NotFoundError) as unknown:
        create(model="unknown", messages=asking("say x"))
    with pytest.raises(openai.BadRequestError) as wrong:
        create(model="command_model", messages=asking("say x"), n=2)

    assert unknown.value.code == "model_not_found"
    assert wrong.value.param == "n"


def test_failure_in_the_stream_is_raised(client: Any) -> None:
    texts = []
    with pytest.raises(openai.APIError) as failed:
        for chunk in client.chat.completions.create(
            model="command_model", messages=asking("say Half", "fail with outage"), stream=True
        ):
            texts.append(chunk.choices[0].delta.content)

    assert texts == [None, "Half"]
    assert "not available" in str(failed.value)


def test_busy_model_is_retried_after_its_retry_after(server: Server) -> None:
    http = httpx2.Client(trust_env=False)
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key=KEY, max_retries=1, http_client=http
    ) as patient:
        started = time.monotonic()
        with pytest.raises(openai.RateLimitError):
            patient.chat.completions.create(
                model="command_model", messages=asking("refuse with 429")
            )

    assert time.monotonic() - started >= 0.9  # Retry-After: 1


@pytest.mark.parametrize(("order", "times"), [("timeout", 1), ("misconfigured", 1), ("outage", 3)])
def test_costly_failures_are_not_retried(server: Server, order: str, times: int) -> None:
    responses: list[httpx2.Response] = []
    http = httpx2.Client(trust_env=False, event_hooks={"response": [responses.append]})
    sdk_client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, http_client=http)
    with sdk_client as client, pytest.raises(openai.InternalServerError):
        client.chat.completions.create(
            model="command_model", messages=asking(f"refuse with {order}")
        )

    assert len(responses) == times


def test_models_are_listed(client: Any) -> None:
    listed = [model.id for model in client.models.list()]

    assert listed == ["command_model"]
    if not isinstance(client, openai.AzureOpenAI):
        assert client.models.retrieve("command_model").id == "command_model"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("org/unknown")


def test_tool_calls(client: Any) -> None:
    ask = {"model": "command_model", "messages": asking("call f"), "tools": [WEATHER]}
    (whole,) = client.chat.completions.create(**ask).choices
    streamed = client.chat.completions.create(**ask, stream=True)
    deltas = [chunk.choices[0].delta for chunk in streamed]
    parts = [delta.tool_calls[0] for delta in deltas if delta.tool_calls]

    (called,) = whole.message.tool_calls
    assert whole.finish_reason == "tool_calls"
    assert (called.id, called.function.name, called.function.arguments) == (
        "call_1",
        "f",
        '{"q": 1}',
    )
    assert [part.id for part in parts] == ["call_1", None]
    assert "".join(part.function.arguments for part in parts) == '{"q": 1}'


def without_indexes(annotations: Any) -> list[Any]:
    """Annotations of a message; those that come in a stream have an index besides."""
    return [{**each.to_dict(), "index": None} for each in annotations]


def test_stream_helper(client: Any) -> None:
    words = "What does Northwind Health Plus include that Northwind Standard does not?"
    marker = "say [plans/northwind_health_plus.pdf#page=2]"
    messages = asking(words, marker, "say , and", marker, "call f")
    ask: Any = {"model": "command_model", "messages": messages}
    ask["tools"] = [{**WEATHER, "function": {**WEATHER["function"], "strict": True}}]
    whole = client.chat.completions.create(**ask).choices[0].message
    with client.chat.completions.stream(**ask) as stream:
        texts = [event.delta for event in stream if event.type == "content.delta"]
        (choice,) = stream.get_final_completion().choices
    folded = choice.message

    assert folded.content == "".join(texts) == whole.content
    assert folded.context == whole.context
    assert len(whole.annotations) == 2
    assert without_indexes(folded.annotations) == without_indexes(whole.annotations)
    assert [call.function.name for call in folded.tool_calls] == ["f"]
    assert choice.finish_reason == "tool_calls"


def test_tools_are_accepted(client: Any) -> None:
    function = {"name": "f", "arguments": "{}"}
    called = {"id": "1", "type": "function", "function": function}
    messages = [
        *asking("say done"),
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
    ]
    got = client.chat.completions.create(model="command_model", messages=messages, tools=[WEATHER])

    assert got.choices[0].finish_reason == "stop"


def test_async_clients(server: Server) -> None:
    async def go() -> list[Any]:
        results: list[Any] = []
        for azure in (False, True):
            common: Any = {
                "api_key": KEY,
                "max_retries": 0,
                "http_client": httpx2.AsyncClient(trust_env=False),
            }
            client: Any = (
                openai.AsyncAzureOpenAI(
                    azure_endpoint=server.url, api_version="2024-05-01-preview", **common
                )
                if azure
                else openai.AsyncOpenAI(base_url=f"{server.url}/v1", **common)
            )
            async with client:
                create = client.chat.completions.create
                whole = await create(model="command_model", messages=asking("say Hello"))
                stream = await create(
                    model="command_model", messages=asking("say a", "say b"), stream=True
                )
                parts = [chunk.choices[0].delta.content async for chunk in stream]
                results.append((whole.choices[0].message.content, parts))
        return results

    assert asyncio.run(go()) == [("Hello", [None, "a", "b", None])] * 2


def test_other_part_of_the_api_is_a_404_that_lists_the_routes(client: Any) -> None:
    with pytest.raises(openai.NotFoundError) as error:
        client.embeddings.create(model="m", input="x")

    assert error.value.code == "unknown_url"
    assert "embeddings here. Chat completions and models are at POST /" in error.value.message
    assert "/chat/completions" in error.value.message
