"""The real SDK against a small server: what goes out, and what every failure becomes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx2
import openai
import pytest

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.bootstrap.clients import Clients, get_max_prompt_tokens
from shared.domain import errors
from shared.domain.events import Answer, collect
from shared.domain.messages import Message, ToolCall
from shared.models.base import Prompt
from shared.models.formats.openai import known_capabilities
from shared.models.openai.client import embed, make_client, map_errors
from shared.rag.model_stream import check_stream
from shared.settings import Settings, SettingsError, read_settings
from tests.support.calls import QUESTION, BufferedReply, call
from tests.support.calls import read as read_reply
from tests.support.fakes import FAKE_INDEX
from tests.support.responses_upstream import ResponsesUpstream
from tests.support.servers import LAPTOP, free_port
from tests.support.upstream import (
    STOP,
    USAGE,
    Exchange,
    ModelApi,
    Step,
    Upstream,
    answer_events,
    chunk,
    error_response,
    http_chunk,
    json_response,
    response_head,
    run_upstream,
    sse_event,
    stream_response,
)

PATIENCE = 20.0  # seconds; only a hang takes so long
LIMITS = {
    "MODEL_ACCEPT_SECONDS": "0.6",
    "MODEL_FIRST_TOKEN_SECONDS": "0.6",
    "MODEL_GAP_SECONDS": "0.6",
}


BOTH_APIS = pytest.mark.parametrize(
    "server", [Upstream, ResponsesUpstream], ids=lambda kind: kind.api.name, indirect=True
)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    """A server of chat completions, or of another API by BOTH_APIS."""
    with run_upstream(getattr(request, "param", Upstream)()) as running:
        yield running


def settings(server: Upstream, **more: str) -> dict[str, str]:
    model = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_CHAT_MODEL": "gpt-4o"}
    return {**FAKE_INDEX, **model, "CHAT_MODEL_API": server.api.name, **more}


def call_app(
    server: Upstream, *routes: str, body: Any = QUESTION, **more: str
) -> list[BufferedReply]:
    """What the app answers, one request after the other, with one client."""

    async def go() -> list[BufferedReply]:
        service = build(read_settings(settings(server, **more)))
        assert service.rag is not None
        try:
            async with asyncio.timeout(PATIENCE):
                got = [await read_reply(await handle_call(service, call(r, body))) for r in routes]
                while server.open_connections > 1:  # one is kept for the next request
                    await asyncio.sleep(0.01)
                return got
        finally:
            await service.rag.model.client.close()  # type: ignore[attr-defined]

    return asyncio.run(go())


def text(got: BufferedReply) -> str:
    return str(got.json["message"]["content"])


@BOTH_APIS
def test_an_answer_is_returned_whole_and_as_a_stream(server: Upstream) -> None:
    whole, stream = call_app(server, "/chat", "/chat/stream")

    assert text(whole) == "Yes [a.md]."
    assert whole.json["context"]["usage"]["total_tokens"] == 14
    assert [line["delta"].get("content") for line in stream.lines] == [
        None,
        "Yes",
        " [a.md].",
        None,
    ]


def test_the_request_has_the_form_of_the_service(server: Upstream) -> None:
    call_app(server, "/chat", OPENAI_API_KEY="k3y")
    (request,) = server.requests

    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k3y"
    assert request.body.keys() == {"model", "messages", "stream", "stream_options", "temperature"}
    assert request.body["model"] == "gpt-4o"
    assert request.body["temperature"] == 0.3
    assert request.body["stream_options"] == {"include_usage": True}
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    assert request.body["messages"][1]["content"].startswith("What is in Plus?\n\nSources:\n")


def test_a_temperature_and_a_seed_of_zero_are_sent(server: Upstream) -> None:
    overrides = {"temperature": 0, "seed": 0}
    (got,) = call_app(server, "/chat", body={**QUESTION, "context": {"overrides": overrides}})

    assert (server.requests[0].body["temperature"], server.requests[0].body["seed"]) == (0, 0)
    assert len(got.json["context"]["thoughts"]) == 4


@pytest.mark.parametrize("name", ["o3-mini", "gpt-5", "gpt-5-mini", "gpt-6-luna"])
def test_a_reasoning_model_gets_parameters_it_supports(server: Upstream, name: str) -> None:
    overrides = {"temperature": 0.5}
    (got,) = call_app(
        server,
        "/chat",
        body={**QUESTION, "context": {"overrides": overrides}},
        OPENAI_CHAT_MODEL=name,
        MAX_ANSWER_TOKENS="500",
        REASONING_EFFORT="low",
    )
    body = server.requests[0].body
    note = got.json["context"]["thoughts"][4]["description"]

    assert got.status == 200
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (500, "low")
    assert body.keys().isdisjoint({"temperature", "max_tokens"})
    assert note == [f"temperature was left out: {name} is a reasoning model, without one."]


@pytest.mark.parametrize(
    ("name", "setting", "effort"),
    [
        ("gpt-5.6-luna", "", "none"),
        ("openai/GPT-5.6-terra", "", "none"),
        ("gpt-5.6-luna", "low", "low"),
        ("gpt-5.4-mini", "", None),
        ("gpt-5-mini", "", None),  # rejects `none`
        ("gpt-4o", "", None),
    ],
)
def test_a_model_that_reasons_by_default_is_told_not_to(
    server: Upstream, name: str, setting: str, effort: str | None
) -> None:
    call_app(server, "/chat", OPENAI_CHAT_MODEL=name, REASONING_EFFORT=setting)

    assert server.requests[0].body.get("reasoning_effort") == effort


def test_settings_override_the_capabilities_known_by_name(server: Upstream) -> None:
    call_app(server, "/chat", OPENAI_CHAT_MODEL="mine", MAX_ANSWER_TOKENS="9")
    call_app(server, "/chat", OPENAI_CHAT_MODEL="gpt-5-chat")
    server.plan.append(stream_response(answer_events("x")))
    call_app(server, "/chat", OPENAI_CHAT_MODEL="mine", CHAT_MODEL_REASONING="true")
    plain, chat, reasoning = (request.body for request in server.requests)

    assert plain["max_tokens"] == 9
    assert "temperature" in chat
    assert "temperature" not in reasoning


def answered(server: Upstream, prompt: Prompt) -> Answer:
    """What the adapter alone makes of a prompt."""

    async def go() -> Answer:
        service = build(read_settings(settings(server)))
        assert service.rag is not None
        model = service.rag.model
        try:
            async with asyncio.timeout(PATIENCE), model.open(prompt) as stream:
                return await collect(check_stream(stream))
        finally:
            await model.client.close()  # type: ignore[attr-defined]

    return asyncio.run(go())


def test_images_are_sent_to_a_vision_model(server: Upstream) -> None:
    message = Message("user", "What is this?", ("data:image/png;base64,AA==",))
    answered(server, Prompt("answer", (message,), 0.0))

    assert server.requests[0].body["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALLS = (ToolCall(0, "call_1", "weather", '{"city": "Köln"}'), ToolCall(1, "call_2", "weather"))


def called(**part: Any) -> bytes:
    return sse_event(chunk(delta={"tool_calls": [part]}))


def test_tools_calls_and_results_are_sent_unchanged(server: Upstream) -> None:
    turns = (
        Message("user", "How warm is it?"),
        Message("assistant", "", tool_calls=(ToolCall(0, "call_1", "weather", "{no JSON"),)),
        Message("tool", "21", tool_call_id="call_1"),
    )
    answered(server, Prompt("answer", turns, 0.0, tools=(WEATHER,)))
    body = server.requests[0].body

    assert body["tools"] == [WEATHER]
    assert body["messages"] == [
        {"role": "user", "content": "How warm is it?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": "{no JSON"},
                }
            ],
        },
        {"role": "tool", "content": "21", "tool_call_id": "call_1"},
    ]


def test_tool_calls_in_parts_are_joined(server: Upstream) -> None:
    parts = [
        called(index=0, id="call_1", type="function", function={"name": "weather"}),
        called(index=0, function={"arguments": '{"city": '}),
        called(index=1, id="call_2", type="function", function={"name": "weather"}),
        called(index=0, function={"arguments": '"Köln"}'}),
    ]
    server.plan.append(stream_response([*parts, sse_event(chunk(finish_reason="tool_calls"))]))
    answer = answered(server, Prompt("answer", (Message("user", "x"),), 0.0, tools=(WEATHER,)))

    assert answer.tool_calls == CALLS
    assert (answer.content, answer.done.finish_reason) == ("", "tool_calls")


def test_whole_tool_calls_without_an_index_are_read(server: Upstream) -> None:
    whole = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in CALLS
    ]
    server.plan.append(
        stream_response([sse_event(chunk(delta={"tool_calls": whole})), sse_event(STOP)])
    )

    assert answered(server, Prompt("answer", (Message("user", "x"),), 0.0)).tool_calls == CALLS


def test_an_invalid_tool_call_is_an_error(server: Upstream) -> None:
    server.plan.append(stream_response([called(index=0, function={"arguments": {"city": 1}})]))

    with pytest.raises(errors.Unavailable):
        answered(server, Prompt("answer", (Message("user", "x"),), 0.0))


def test_variables_that_the_sdk_reads_are_not_sent(server: Upstream) -> None:
    code = (
        "import asyncio; from shared.models.openai.client import make_client\n"
        "async def key(): return 'ours'\n"
        "async def main():\n"
        f"    client = make_client('{server.url}/v1', key)\n"
        "    create = client.chat.completions.with_streaming_response.create\n"
        "    asking = create(model='m', messages=[{'role': 'user', 'content': 'x'}], stream=True)\n"
        "    async with asking as response:\n"
        "        async for _ in response.iter_bytes(): pass\n"
        "    await client.close()\n"
        "asyncio.run(main())\n"
    )
    names = "API_KEY ADMIN_KEY ORG_ID PROJECT_ID BASE_URL WEBHOOK_SECRET API_TYPE API_VERSION"
    evil = {f"OPENAI_{name}": "evil" for name in names.split()}
    headers = ("X-Evil", "Authorization", "X-Stainless-Evil", "Host", "Content-Type", "User-Agent")
    custom = [*(f"{name}: evil" for name in headers), "Content-Length: 3", "Connection: close"]
    evil["OPENAI_CUSTOM_HEADERS"] = "\n".join(custom)
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": "", **evil}, capture_output=True, timeout=60
    )
    (request,) = server.requests

    assert done.returncode == 0, done.stderr
    assert request.headers["authorization"] == "Bearer ours"
    assert "evil" not in str(request).lower()
    assert request.headers["host"] == server.url.removeprefix("http://")
    assert request.body["model"] == "m"


@BOTH_APIS
def test_a_client_reuses_its_connection(server: Upstream) -> None:
    call_app(server, *["/chat"] * 5)

    assert server.connections == 1


NO_DATE = "Mon, 01 Jan 99999999999 00:00:00 GMT"
TWO_WAITS = {"x-ms-retry-after-ms": "100", "Retry-After": "60"}  # the SDK knows the second one
# What a server does, the status, whether Retry-After is there, and how often it was asked.
REFUSALS: list[Any] = [
    pytest.param([error_response(400, code="content_filter")], 400, None, 1, id="content filter"),
    pytest.param(
        [error_response(400, code="context_length_exceeded")], 400, None, 1, id="too long"
    ),
    pytest.param([error_response(400, code="invalid_image")], 400, None, 1, id="other bad request"),
    pytest.param([error_response(400, param="seed")], 503, None, 1, id="a parameter of ours"),
    pytest.param([error_response(400, param="messages[1]")], 400, None, 1, id="the user's image"),
    pytest.param(
        [error_response(429, {"Retry-After": "nan"})] * 2, 429, "1", 2, id="429, no number"
    ),
    pytest.param([error_response(429, {"Retry-After": "1e400"})], 429, "1", 1, id="429, for ever"),
    pytest.param(
        [error_response(429, {"Retry-After": NO_DATE})] * 2, 429, "1", 2, id="429, no date"
    ),
    pytest.param(
        [error_response(429, {"Retry-After-Ms": "8000"})], 429, "8", 1, id="429, milliseconds"
    ),
    pytest.param(
        [json_response({"error": "no such path"})], 503, None, 1, id="a 200 that is no stream"
    ),
    pytest.param([error_response(401)], 503, None, 1, id="wrong key"),
    pytest.param([error_response(403)], 503, None, 1, id="no role"),
    pytest.param(
        [error_response(404, code="DeploymentNotFound")], 503, None, 1, id="no deployment"
    ),
    pytest.param([error_response(405)], 503, None, 1, id="another path"),
    pytest.param([error_response(501)] * 2, 503, None, 2, id="not implemented"),
    pytest.param([error_response(429, {"Retry-After": "30"})], 429, "30", 1, id="429, long wait"),
    pytest.param([error_response(429, TWO_WAITS)] * 2, 429, "1", 2, id="429, two waits"),
    pytest.param(
        [error_response(429, {"Retry-After": "1"})] * 2, 429, "1", 2, id="429, short wait twice"
    ),
    pytest.param([error_response(429)] * 2, 429, "1", 2, id="429 without Retry-After"),
    pytest.param([error_response(500)] * 2, 503, "1", 2, id="500"),
    pytest.param([error_response(502)] * 2, 503, "1", 2, id="502"),
    pytest.param([error_response(503, {"Retry-After": "20"})], 503, "20", 1, id="503, long wait"),
    pytest.param([error_response(503)] * 2, 503, "1", 2, id="503 without Retry-After"),
    pytest.param([[Exchange.reset]] * 2, 503, "1", 2, id="closed"),
    pytest.param([[Exchange.rst]] * 2, 503, "1", 2, id="reset"),
    pytest.param([[Exchange.rst], error_response(502)], 503, "1", 2, id="reset, then 502"),
    pytest.param([[b"garbage\r\n\r\n"]], 503, "1", 1, id="garbage"),
    pytest.param([[Exchange.stall]], 504, None, 1, id="stall before the headers"),
    pytest.param(
        [[response_head(307, {"Location": "/v2"}), b"0\r\n\r\n"]], 503, "1", 1, id="redirect"
    ),
]


@BOTH_APIS
@pytest.mark.parametrize(("plan", "status", "retry_after", "times"), REFUSALS)
@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_an_error_response_is_mapped_and_the_next_request_works(
    server: Upstream, route: str, plan: list[list[Step]], status: int, retry_after: str, times: int
) -> None:
    server.plan += plan
    accept = "0.6" if status == 504 else "15"
    refused, after = call_app(server, route, "/chat", MODEL_ACCEPT_SECONDS=accept)

    assert refused.status == status
    assert refused.headers.get("Retry-After") == retry_after
    assert "upstream" not in refused.data.decode()
    assert after.status == 200
    assert len(server.requests) == times + 1


@BOTH_APIS
def test_a_request_is_retried_after_a_short_wait(server: Upstream) -> None:
    server.plan += [error_response(429, {"Retry-After": "0.1"})]
    (got,) = call_app(server, "/chat")

    assert got.status == 200
    assert len(server.requests) == 2


ONCE: list[Any] = [
    pytest.param([Exchange.reset], id="closed"),
    pytest.param([Exchange.rst], id="reset"),
    pytest.param(error_response(502), id="502"),
    pytest.param(error_response(503), id="503 without Retry-After"),
]


@BOTH_APIS
@pytest.mark.parametrize("steps", ONCE)
@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_a_request_is_retried_after_a_dropped_connection(
    server: Upstream, route: str, steps: list[Step]
) -> None:
    server.plan += [
        stream_response(server.api.answer("first")),
        steps,
        stream_response(server.api.answer("second")),
    ]
    _, got = call_app(server, "/chat", route)

    assert got.status == 200
    assert b"second" in got.data
    assert len(server.requests) == 3


def embedded(url: str) -> tuple[BaseException | None, int]:
    """How an embedding fails, if it does, and how often it was tried: each try asks for the key."""
    tries = 0

    async def key() -> str:
        nonlocal tries
        tries += 1
        return "k3y"

    async def go() -> BaseException | None:
        client = make_client(url, key)
        try:
            await embed(client, "m", PATIENCE, ["x"])
        except errors.ChatError as failure:
            return failure
        finally:
            await client.close()
        return None

    return asyncio.run(go()), tries


@pytest.mark.parametrize("steps", ONCE)
def test_an_embedding_is_retried_after_a_failure(server: Upstream, steps: list[Step]) -> None:
    server.plan.append(steps)

    assert embedded(f"{server.url}/v1") == (None, 2)
    assert len(server.requests) == 2


@pytest.mark.parametrize("value", [{"error": "no such endpoint"}, {"data": []}])
def test_an_answer_without_vectors_is_misconfigured(server: Upstream, value: Any) -> None:
    """LM Studio answers so for another path."""
    server.plan.append(json_response(value))
    failure, tries = embedded(f"{server.url}/v1")

    assert isinstance(failure, errors.Misconfigured)
    assert str(failure.cause).endswith(": is the address right?")
    assert tries == 1


@pytest.mark.parametrize("end", [Exchange.reset, Exchange.rst])
def test_an_answer_that_has_begun_is_not_retried(server: Upstream, end: Step) -> None:
    server.plan.append(
        [response_head(200, {"Content-Type": "application/json"}), http_chunk(b'{"data'), end]
    )
    failure, tries = embedded(f"{server.url}/v1")

    assert isinstance(failure, errors.Unavailable)
    assert tries == 1


def embed_with(settings: Mapping[str, str], batch: bool = False) -> int:
    """Embed two texts by the model `e`. Returns the number of vectors."""

    async def go() -> int:
        clients = Clients(read_settings({"OPENAI_EMBEDDING_MODEL": "e", **settings}), batch)
        assert clients.embed is not None
        try:
            async with asyncio.timeout(PATIENCE):
                return len(await clients.embed(["x", "y"]))
        finally:
            await clients.close()

    return asyncio.run(go())


@pytest.mark.parametrize("wait", ["2.5", None])
def test_a_batch_client_waits_as_long_as_retry_after_says(
    server: Upstream, wait: str | None
) -> None:
    times = 1 if wait else 3
    server.plan += [error_response(429, {"Retry-After": wait} if wait else {})] * times

    assert embed_with(settings(server), batch=True) == 2
    assert len(server.requests) == times + 1


@pytest.mark.parametrize(("key", "authorization"), [("", "Bearer none"), ("k2", "Bearer k2")])
def test_embeddings_of_another_server_do_not_get_the_key_of_the_chat_model(
    server: Upstream, key: str, authorization: str
) -> None:
    with run_upstream(Upstream()) as other:
        own = {
            "OPENAI_EMBEDDING_BASE_URL": f"{other.url}/v1",
            "OPENAI_EMBEDDING_API_KEY": key,
        }
        embed_with(settings(server, OPENAI_API_KEY="k1", **own))

    assert server.requests == []
    assert [request.headers["authorization"] for request in other.requests] == [authorization]


def test_embeddings_need_no_server_of_a_chat_model(server: Upstream) -> None:
    embedding = {"OPENAI_EMBEDDING_MODEL": "e", "OPENAI_EMBEDDING_BASE_URL": f"{server.url}/v1"}
    service = build(read_settings({**FAKE_INDEX, **embedding}))
    embed_with(embedding)

    assert service.rag is not None
    assert service.rag.model.name == "demo"
    assert [request.path for request in server.requests] == ["/v1/embeddings"]


def test_embedding_model_without_a_server_is_named() -> None:
    with pytest.raises(SettingsError) as wrong:
        embed_with({})

    assert wrong.value.problems == ("OPENAI_EMBEDDING_BASE_URL is required, or OPENAI_BASE_URL",)


# What comes after a piece of text.
BROKEN: list[Any] = [
    pytest.param(lambda _: Exchange.reset, errors.Unavailable.default, 503, id="reset"),
    pytest.param(lambda _: b"data: {\n\n", errors.Unavailable.default, 503, id="malformed chunk"),
    pytest.param(lambda _: b"data: 7\n\n", errors.Unavailable.default, 503, id="no object"),
    pytest.param(lambda _: b"", "The model's answer broke off. Ask again.", 503, id="no end"),
    pytest.param(lambda _: Exchange.stall, errors.DeadlineExceeded.default, 504, id="stall"),
    pytest.param(lambda api: api.end("content_filter"), errors.FILTERED_MESSAGE, 400, id="filter"),
    pytest.param(
        lambda api: api.error({"code": "content_filter", "message": "words"}),
        errors.FILTERED_MESSAGE,
        400,
        id="error for the filter",
    ),
    pytest.param(
        lambda api: api.error({"code": "rate_limit_exceeded"}),
        errors.TooManyRequests.default,
        429,
        id="error for the rate",
    ),
    pytest.param(
        lambda api: api.error("words"), errors.Unavailable.default, 503, id="any other error"
    ),
]


@BOTH_APIS
@pytest.mark.parametrize(("make_step", "sentence", "status"), BROKEN)
def test_a_failure_during_an_answer_is_reported_and_its_stream_closed(
    server: Upstream, make_step: Callable[[ModelApi], Step], sentence: str, status: int
) -> None:
    for _ in range(2):
        steps = [server.api.text("Some "), make_step(server.api)]
        server.plan.append(stream_response([step for step in steps if step]))
    stream, whole, after = call_app(server, "/chat/stream", "/chat", "/chat", **LIMITS)

    *lines, last = stream.lines
    assert last == {"error": sentence}
    # a reset may take with it what was not read by then
    assert [line["delta"].get("content") for line in lines] in ([None], [None, "Some "])
    assert (whole.status, whole.json) == (status, {"error": sentence})
    assert after.status == 200


@BOTH_APIS
def test_a_stall_before_the_first_token_is_reported_after_the_context(server: Upstream) -> None:
    server.plan.append(stream_response([Exchange.stall]))
    (stream,) = call_app(server, "/chat/stream", **LIMITS)

    assert "context" in stream.lines[0]
    assert stream.lines[1:] == [{"error": errors.DeadlineExceeded.default}]


def test_a_refused_connection_is_unavailable_and_its_address_is_logged(
    server: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://localhost:{free_port()}"
    (got,) = call_app(server, "/chat", OPENAI_BASE_URL=f"{url}/v1", OPENAI_API_KEY="k3y")

    assert (got.status, got.json) == (503, {"error": errors.Unavailable.default})
    assert f"Unavailable: gpt-4o: connection refused: {url}\n" in caplog.text
    assert "k3y" not in caplog.text


def test_a_missing_model_is_named_in_the_log(
    server: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    error = {"message": "model 'llama3.2' not found", "type": "api_error"}
    server.plan.append(json_response({"error": {**error, "param": None, "code": None}}, 404))
    (got,) = call_app(server, "/chat", OPENAI_CHAT_MODEL="llama3.2")

    assert (got.status, got.json) == (503, {"error": errors.Misconfigured.default})
    assert "Misconfigured: llama3.2: status 404" in caplog.text
    assert "there is no such deployment, model or endpoint, or" in caplog.text


@BOTH_APIS
def test_a_prompt_beyond_the_context_of_llama_cpp_is_too_long(
    server: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    server.plan.append(error_response(400, code=400, type="exceed_context_size_error"))
    (got,) = call_app(server, "/chat")

    assert (got.status, got.json) == (400, {"error": errors.TooLong.default})
    assert "MAX_PROMPT_TOKENS" in caplog.text


def test_a_server_on_this_machine_gets_small_prompts(server: Upstream) -> None:
    long = {"messages": [{"role": "user", "content": "copay " * 5000}]}
    (refused,) = call_app(server, "/chat", body=long)
    (answered,) = call_app(server, "/chat", body=long, MAX_PROMPT_TOKENS="16000")

    assert refused.status == 400
    assert "3000 tokens" in refused.json["error"]
    assert answered.status == 200
    assert get_max_prompt_tokens(Settings(), "https://api.openai.com/v1") == 16_000


def test_a_refused_connection_is_not_retried() -> None:
    failure, tries = embedded(f"http://127.0.0.1:{free_port()}/v1")

    assert isinstance(failure, errors.Unavailable)
    assert tries == 1


CHUNK = sse_event(chunk("Some "))


def test_cached_and_reasoning_tokens_reach_the_client(server: Upstream) -> None:
    usage = {
        **USAGE["usage"],
        "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    server.plan.append(
        stream_response(
            [sse_event(chunk("x")), sse_event(STOP), sse_event({**USAGE, "usage": usage})]
        )
    )
    first, second = call_app(server, *["/v1/chat/completions"] * 2, **LAPTOP)

    assert first.json["usage"] == {
        "prompt_tokens": 11,
        "completion_tokens": 3,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert second.json["usage"].keys() == {"prompt_tokens", "completion_tokens", "total_tokens"}


TRIMMINGS: list[Any] = [
    pytest.param([sse_event({**USAGE, "usage": {"total_tokens": 3}})], id="usage of another form"),
    pytest.param([sse_event({**USAGE, "usage": [None]})], id="usage that is none"),
    pytest.param([Exchange.reset], id="reset"),
    pytest.param([Exchange.stall], id="stall"),
]


@pytest.mark.parametrize("behind", TRIMMINGS)
def test_a_failure_after_a_complete_answer_is_ignored(
    server: Upstream, behind: Sequence[Step]
) -> None:
    server.plan.append(stream_response([CHUNK, sse_event(STOP), *behind]))
    (got,) = call_app(server, "/chat", **LIMITS)

    assert text(got) == "Some "
    assert "usage" not in got.json["context"]


@BOTH_APIS
def test_chunks_without_text_do_not_extend_the_time_limits(server: Upstream) -> None:
    async def idle(going: Exchange) -> None:
        for _ in range(100):
            going.writer.write(http_chunk(server.api.idle))
            await going.writer.drain()
            await asyncio.sleep(0.1)

    for first in ([], [server.api.text("Some ")]):
        server.plan.append(stream_response([*first, idle]))
    answers = call_app(server, "/chat", "/chat", **LIMITS)

    assert [got.status for got in answers] == [504, 504]


@BOTH_APIS
def test_the_limits_to_the_first_token_and_between_tokens_differ(server: Upstream) -> None:
    async def late(_: Exchange) -> None:
        await asyncio.sleep(1.2)

    server.plan += [
        stream_response([late, *server.api.answer("x")]),
        stream_response([server.api.text("Some "), late, *server.api.answer("x")]),
    ]
    first = {"MODEL_FIRST_TOKEN_SECONDS": "0.3", "MODEL_GAP_SECONDS": "10"}
    gap = {"MODEL_FIRST_TOKEN_SECONDS": "10", "MODEL_GAP_SECONDS": "0.3"}
    statuses = [call_app(server, "/chat", **limits)[0].status for limits in (first, gap)]

    assert statuses == [504, 504]


def test_a_model_on_this_machine_is_called_without_a_proxy(server: Upstream) -> None:
    code = (
        "import asyncio; from shared.models.openai.client import make_client\n"
        "async def key(): return 'ours'\n"
        "async def main():\n"
        f"    client = make_client('{server.url}/v1', key)\n"
        "    await client.embeddings.create(model='e', input='x', encoding_format='float')\n"
        "    await client.close()\n"
        "asyncio.run(main())\n"
    )
    proxies = {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": "", **proxies}, capture_output=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 1


def test_content_in_parts_is_joined(server: Upstream) -> None:
    parts = [{"type": "text", "text": "Yes"}, {"type": "text", "text": " no"}]
    server.plan.append(stream_response([sse_event(chunk(parts)), sse_event(STOP)]))  # type: ignore[arg-type]
    (got,) = call_app(server, "/chat")

    assert text(got) == "Yes no"


KINDS = {
    "gpt-4o": (False, True),
    "gpt-5": (True, True),
    "openai/gpt-5-mini": (True, True),
    "gpt-5-chat-latest": (False, True),
    "gpt-50": (False, False),
    "o1": (True, True),
    "o1-mini": (True, False),
    "o3-mini": (True, False),
    "o4-mini": (True, True),
    "llama3.2": (False, False),
    "llama3.2-vision": (False, True),
    "olmo": (False, False),
}


@pytest.mark.parametrize("name", KINDS)
def test_capabilities_are_known_by_the_name_of_a_model(name: str) -> None:
    assert known_capabilities(name) == KINDS[name]


def test_an_answer_may_end_by_length_or_without_usage(server: Upstream) -> None:
    server.plan.append(stream_response([CHUNK, sse_event(chunk(finish_reason="length"))]))
    server.plan.append(stream_response([CHUNK, b"data: [DONE]\n\n"]))
    cut, bare = call_app(server, "/chat", "/chat")

    assert cut.json["context"]["finish_reason"] == "length"
    assert bare.json["context"]["finish_reason"] == "stop"
    assert "usage" not in bare.json["context"]


@BOTH_APIS
@pytest.mark.parametrize("words", ["a\u2028b\u2029c\u0085d", "漢字 😀", "data: x", "\\n\\u00e9"])
def test_any_text_is_read_wherever_its_bytes_are_split(server: Upstream, words: str) -> None:
    first = server.api.text(words)
    data, cuts = first + server.api.end("stop"), range(1, len(first))
    server.plan += [
        [response_head(200), http_chunk(data[:cut]), http_chunk(data[cut:]), b"0\r\n\r\n"]
        for cut in cuts
    ]
    answers = call_app(server, *["/chat"] * len(cuts))

    assert {text(got) for got in answers} == {words}


def test_crlf_comments_and_other_fields_of_server_sent_events_are_read(server: Upstream) -> None:
    lines = b": ping\r\n\r\nevent: x\r\ndata:" + sse_event(chunk("Yes"))[6:].replace(b"\n", b"\r\n")
    server.plan.append(stream_response([lines, b"data: [DONE]"]))
    (got,) = call_app(server, "/chat")

    assert text(got) == "Yes"


@BOTH_APIS
def test_a_client_that_disconnects_closes_the_connection_to_the_model(server: Upstream) -> None:
    async def go() -> int:
        service = build(read_settings(settings(server)))
        assert service.rag is not None
        server.plan.append(stream_response([server.api.text("Some "), Exchange.stall]))
        reply = await handle_call(service, call("/chat/stream"))
        assert reply.rest is not None
        await anext(reply.rest)
        await reply.rest.aclose()
        until = time.monotonic() + PATIENCE
        while server.open_connections and time.monotonic() < until:
            await asyncio.sleep(0.01)
        await service.rag.model.client.close()  # type: ignore[attr-defined]
        return server.open_connections

    assert asyncio.run(go()) == 0


def exceptions(module: Any, *bases: type) -> set[Any]:
    kinds = [each for each in list(vars(module).values()) if isinstance(each, type)]
    return {kind for kind in kinds if issubclass(kind, bases)}


def test_every_exception_of_the_sdk_and_its_transport_is_mapped() -> None:
    sdk = exceptions(httpx2, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)
    sdk |= exceptions(openai, openai.OpenAIError) | {TimeoutError}
    response = httpx2.Response(500, request=httpx2.Request("POST", "http://x/"))
    for kind in sdk:
        raised = kind.__new__(kind)
        if issubclass(kind, openai.APIStatusError):
            raised.status_code, raised.response = 500, response
            raised.code = raised.param = raised.type = None

        with pytest.raises(errors.ChatError), map_errors("m", ""):
            raise raised
    assert len(sdk) > 25
