"""A model that speaks OpenAI's Responses API: what it is sent, and what clients see of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from openai.types.responses.response_input_param import ResponseInputParam
from pydantic import TypeAdapter

from tests.support.aog_calls import aog_call, read_text
from tests.support.calls import PNG, PNG_URL, QUESTION, WEATHER, BufferedReply, call, run_calls
from tests.support.fakes import FAKE_INDEX
from tests.support.model_requests import SHIRT_CONVERSATION
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.responses_upstream import (
    ResponsesUpstream,
    answer_events,
    call_events,
    completed,
    failed,
    find_problems,
    incomplete,
    response,
    text_delta,
)
from tests.support.upstream import (
    Exchange,
    Step,
    Upstream,
    error_response,
    json_response,
    run_upstream,
    stream_response,
)

OPENAI = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "What is in Plus?"}]}


@pytest.fixture
def server() -> Iterator[ResponsesUpstream]:
    with run_upstream(ResponsesUpstream()) as running:
        yield running


def settings(server: Upstream, **more: str) -> dict[str, str]:
    model = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_CHAT_MODEL": "gpt-4o"}
    return {**FAKE_INDEX, **model, "CHAT_MODEL_API": "responses", **more}


def ask_openai(server: ResponsesUpstream, body: Any = HELLO, **more: str) -> BufferedReply:
    """The reply to a client of chat completions."""
    (got,) = run_calls(settings(server, **more), call(OPENAI, {**HELLO, **body}))
    return got


def sent(server: ResponsesUpstream, body: Any = HELLO, **more: str) -> Any:
    """What the model is sent for a client of chat completions."""
    got = ask_openai(server, body, **more)

    assert got.status == 200, got.data
    return server.requests[-1].body


def test_the_request_has_the_form_of_the_service(server: ResponsesUpstream) -> None:
    run_calls(settings(server, OPENAI_API_KEY="k3y"), call("/chat", QUESTION))
    (request,) = server.requests
    (question,) = request.body.pop("input")

    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == "Bearer k3y"
    assert request.body.pop("instructions")
    assert question.keys() == {"role", "content"}
    assert question["content"].startswith("What is in Plus?\n\nSources:\n")
    assert request.body == {"model": "gpt-4o", "stream": True, "store": False, "temperature": 0.3}


def test_a_conversation_becomes_items(server: ResponsesUpstream) -> None:
    image = {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}
    parts = [
        {"type": "text", "text": "What is it?"},
        image,
        {**image, "image_url": {"url": PNG_URL}},
    ]
    said = [{"type": "text", "text": "One."}, {"type": "refusal", "refusal": "Two."}]
    called = {"name": "f", "arguments": "{no JSON"}
    tool_calls = [{"id": "c1", "type": "function", "function": called}]
    messages = [
        {"role": "user", "content": parts, "name": "Ann"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": "Wait.", "tool_calls": tool_calls},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "21"}]},
    ]
    body = sent(server, {"messages": messages})
    content = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": PNG_URL, "detail": "low"},
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
    ]

    assert body["input"] == [
        {"role": "user", "content": content},
        {"role": "assistant", "content": "One.\nTwo."},
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": "Wait."},
        {"type": "function_call", "call_id": "c1", **called},
        {"type": "function_call_output", "call_id": "c1", "output": "21"},
    ]
    assert "\n\nSources:\n" in body["instructions"]
    items = list(TypeAdapter(ResponseInputParam).validate_python(body["input"]))
    assert [item.get("role", item.get("type")) for item in items] == [
        *("user", "assistant", "user", "assistant"),
        *("function_call", "function_call_output"),
    ]


def test_the_client_s_instructions_follow_those_of_the_app(server: ResponsesUpstream) -> None:
    theirs = {"role": "system", "content": "Talk like a pirate."}
    messages = [theirs, *HELLO["messages"]]
    with_retrieval, without = (
        aog_call({"messages": messages}),
        aog_call({"messages": messages, "retrieval": False}),
    )
    run_calls(settings(server), with_retrieval, without)
    first, second = (request.body for request in server.requests)

    assert "Sources:" in first["instructions"]
    assert first["input"] == messages
    assert (second["instructions"], second["input"]) == (theirs["content"], HELLO["messages"])


SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}}
FUNCTION = {"name": "f", "description": "Does it.", "parameters": SCHEMA, "strict": True}
CHOICE = {"type": "function", "function": {"name": "f"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [CHOICE]}}
FLAT_CHOICE = {"type": "function", "name": "f"}
# An option of chat completions, and what is sent for it.
OPTIONS: list[Any] = [
    (
        {"tools": [{"type": "function", "function": FUNCTION}]},
        "tools",
        [{"type": "function", **FUNCTION}],
    ),
    (
        {"tools": [CHOICE]},
        "tools",
        [{**FLAT_CHOICE, "parameters": {"type": "object", "properties": {}}, "strict": False}],
    ),
    ({"tool_choice": "required"}, "tool_choice", "required"),
    ({"tool_choice": CHOICE}, "tool_choice", FLAT_CHOICE),
    (
        {"tool_choice": ALLOWED},
        "tool_choice",
        {"type": "allowed_tools", "mode": "auto", "tools": [FLAT_CHOICE]},
    ),
    ({"parallel_tool_calls": False}, "parallel_tool_calls", False),
    ({"response_format": {"type": "json_object"}}, "text", {"format": {"type": "json_object"}}),
    (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
            }
        },
        "text",
        {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}},
    ),
    ({"max_tokens": 100}, "max_output_tokens", 100),
    ({"max_tokens": 1}, "max_output_tokens", 16),
    ({"temperature": 0}, "temperature", 0),
    ({"top_p": 0.5}, "top_p", 0.5),
]


@pytest.mark.parametrize(("options", "name", "value"), OPTIONS)
def test_options_of_chat_completions_are_translated(
    server: ResponsesUpstream, options: Any, name: str, value: Any
) -> None:
    body = sent(server, options)

    assert body[name] == value
    assert body.keys() <= ResponseCreateParamsStreaming.__annotations__.keys() | {"model"}


def test_options_that_do_not_exist_there_are_left_out_with_a_notice(
    server: ResponsesUpstream,
) -> None:
    options = {"seed": 1, "stop": "x", "frequency_penalty": 1, "presence_penalty": 1}
    notice = ask_openai(server, options).headers["x-chat-notice"]

    assert not options.keys() & server.requests[0].body.keys()
    for name in options:
        assert f"{name} was left out: the server of gpt-4o has no such parameter." in notice


@pytest.mark.parametrize("name", ["o3-mini", "gpt-5.4-pro", "gpt-5.3-codex"])
def test_a_reasoning_model_gets_parameters_it_supports(
    server: ResponsesUpstream, name: str
) -> None:
    model = {"OPENAI_CHAT_MODEL": name, "REASONING_EFFORT": "low", "MAX_ANSWER_TOKENS": "500"}
    body = sent(server, {"temperature": 1, "top_p": 0.5}, **model)
    other = sent(server, {"reasoning_effort": "high"}, **model)

    assert body["reasoning"] == {"effort": "low"}
    assert body["max_output_tokens"] == 500
    assert not {"temperature", "top_p", "reasoning_effort"} & body.keys()
    assert other["reasoning"] == {"effort": "high"}


def test_another_model_gets_no_effort_of_the_settings(server: ResponsesUpstream) -> None:
    assert "reasoning" not in sent(server, REASONING_EFFORT="low")


def test_calls_and_usage_reach_the_client(server: ResponsesUpstream) -> None:
    events = [
        text_delta("Wait."),
        *call_events(1, "c1", "f", '{"a"', ": 1}"),
        *call_events(2, "c2", "g"),
        completed({"id": "rs_1", "type": "reasoning"}),
    ]
    server.plan = [stream_response(events)] * 2
    body = {"tools": [WEATHER], "stream": True, "stream_options": {"include_usage": True}}
    whole, streamed = ask_openai(server, {"tools": [WEATHER]}), ask_openai(server, body)
    (choice,) = whole.json["choices"]
    chunks = [json.loads(line) for line in streamed.data.split(b"data: ")[1:-1]]
    parts = [
        part for each in chunks[:-1] for part in each["choices"][0]["delta"].get("tool_calls", ())
    ]

    assert (choice["message"]["content"], choice["finish_reason"]) == ("Wait.", "tool_calls")
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    assert [part["index"] for part in parts] == [0, 0, 0, 1, 1]
    assert (
        whole.json["usage"]
        == chunks[-1]["usage"]
        == {
            "prompt_tokens": 11,
            "completion_tokens": 3,
            "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
    )


def test_a_client_of_responses_is_answered_over_either_api() -> None:
    body = {
        "input": "What is in Plus?",
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tools": [FLAT_CHOICE],
        "max_output_tokens": 20,
    }
    with run_upstream() as completions, run_upstream(ResponsesUpstream()) as responses:
        chat = settings(completions, CHAT_MODEL_API="chat_completions")
        (over_chat,) = run_calls(chat, call("/v1/responses", body))
        (over_responses,) = run_calls(settings(responses), call("/v1/responses", body))

    assert completions.requests[0].body["verbosity"] == "low"
    assert responses.requests[0].body["text"] == body["text"]
    assert responses.requests[0].body["max_output_tokens"] == 20
    assert responses.requests[0].body["tools"][0].items() >= FLAT_CHOICE.items()
    texts = [got.json["output"][0]["content"][0]["text"] for got in (over_chat, over_responses)]
    assert texts == ["Yes [a.md]."] * 2
    assert over_chat.json["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}
    assert over_responses.json["usage"] == {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 14,
    }


def test_an_answer_may_end_by_length(server: ResponsesUpstream) -> None:
    server.plan = [stream_response([text_delta("Some"), incomplete("max_output_tokens")])]
    (choice,) = ask_openai(server).json["choices"]

    assert (choice["message"]["content"], choice["finish_reason"]) == ("Some", "length")


# A failure before any text, the status, and the code or the parameter that the client gets.
FAILURES: list[Any] = [
    (stream_response([failed("rate_limit_exceeded")]), 429, "rate_limit_exceeded"),
    (stream_response([failed("server_error")]), 503, None),
    (stream_response([failed("invalid_image_format")]), 400, None),
    (stream_response([failed("context_length_exceeded")]), 400, "context_length_exceeded"),
    (stream_response([incomplete("content_filter")]), 400, "content_filter"),
    (error_response(400, code="content_filter"), 400, "content_filter"),
    (error_response(400, code="context_length_exceeded"), 400, "context_length_exceeded"),
    (error_response(400, code="invalid_value", param="max_output_tokens"), 400, "max_tokens"),
    (error_response(400, code="invalid_value", param="text.format"), 400, "response_format"),
    (error_response(400, code="invalid_schema", param="tools[0].parameters"), 400, None),
    (error_response(400, code="unsupported_parameter", param="temperature"), 503, None),
    (error_response(400, code="OperationNotSupported"), 503, None),
]


@pytest.mark.parametrize(("plan", "status", "name"), FAILURES)
def test_a_failure_reaches_the_client_without_the_server_s_words(
    server: ResponsesUpstream, plan: list[Step], status: int, name: str | None
) -> None:
    server.plan = [plan]
    options = {"max_tokens": 20, "response_format": {"type": "text"}}
    got = ask_openai(server, options)
    error = got.json["error"]

    assert got.status == status, got.data
    assert "upstream" not in got.data.decode()
    assert name in (error["code"], error["param"])


# A parameter of chat completions, of a client of Responses, and what the client sends.
PARAMETERS: list[Any] = [
    ("max_tokens", "max_output_tokens", {"max_output_tokens": 20}),
    ("max_completion_tokens", "max_output_tokens", {"max_output_tokens": 20}),
    ("response_format", "text", {"text": {"format": {"type": "json_object"}}}),
    ("reasoning_effort", "reasoning", {"reasoning": {"effort": "low"}}),
    ("temperature", "temperature", {"temperature": 1}),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("theirs", "ours", "body"), PARAMETERS)
def test_a_client_of_responses_is_told_which_parameter_the_model_rejects(
    theirs: str, ours: str, body: Any, stream: bool
) -> None:
    with run_upstream() as model:
        model.plan = [error_response(400, code="invalid_value", param=theirs)] * 2
        chat = settings(model, CHAT_MODEL_API="chat_completions")
        question = {"input": "What is in Plus?", "stream": stream}
        bodies: list[Any] = [question | body, question]
        sent, not_sent = run_calls(chat, *(call("/v1/responses", each) for each in bodies))
    error = sent.json["error"]

    assert (sent.status, error["param"], error["code"]) == (400, ours, "invalid_value")
    assert error["message"] == f"{ours}: the model did not accept it."
    assert not_sent.status == (400 if theirs == "response_format" else 503)


def test_a_model_of_another_api_is_named_in_the_log(
    server: ResponsesUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    server.plan = [error_response(400, code="OperationNotSupported")]
    ask_openai(server)

    assert "gpt-4o: status 400, code 'OperationNotSupported'" in caplog.text
    assert "the model has another API (CHAT_MODEL_API)" in caplog.text


# Failures before the first token, of a local provider.
BEFORE: list[Any] = [
    pytest.param(error_response(401), id="a wrong key"),
    pytest.param(error_response(400, code="invalid_value"), id="a 400"),
    pytest.param(stream_response([failed("server_error")]), id="a failed response"),
    pytest.param(stream_response(answer_events("Half")[:4]), id="an end before any text"),
    pytest.param(stream_response([*answer_events("Half")[:2], Exchange.stall]), id="a stall"),
    pytest.param(stream_response([completed()[:-9]]), id="an event without its end"),
]


@pytest.mark.parametrize("steps", BEFORE)
def test_a_failure_before_the_first_token_falls_back(steps: list[Step]) -> None:
    with run_gateways("responses", "openai") as (local, remote):
        local.plan = [steps]
        settings = provider_settings(
            provider_entry("responses", local),
            provider_entry("openai", remote, models=["m2"], **REMOTE),
            LOCAL_FIRST_TOKEN_SECONDS="1",
        )
        (got,) = run_calls(settings, aog_call({**HELLO, "retrieval": False}))

    assert (read_text(got), got.json["model"]) == ("Remote [a.md].", "gpt-4o-2024-11-20")
    assert len(local.requests) == len(remote.requests) == 1


def test_a_rewritten_question_is_asked_of_it(server: ResponsesUpstream) -> None:
    history = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hi."}]
    messages = [*history, {"role": "user", "content": "And in Plus?"}]
    (got,) = run_calls(settings(server), call("/chat", {"messages": messages}))
    rewrite, answer = (request.body for request in server.requests)

    assert got.status == 200
    assert rewrite["input"] == messages
    assert [item["role"] for item in answer["input"]] == ["user", "assistant", "user"]


def test_a_provider_without_streaming_answers(server: ResponsesUpstream) -> None:
    one = {"properties": {"supported_response_mode": ["sync"]}, "models": ["m"]}
    with run_gateways("responses") as (provider,):
        provider.plan = [json_response(response("completed"))]
        settings = provider_settings(provider_entry("responses", provider, **one))
        empty, got = run_calls(settings, aog_call(HELLO), aog_call(HELLO))

    assert "stream" not in provider.requests[0].body
    assert (empty.status, read_text(empty)) == (200, "")
    assert read_text(got) == "Remote [a.md]."


def test_the_card_of_the_settings_names_the_api() -> None:
    azure = {
        "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com",
        "AZURE_OPENAI_CHAT_DEPLOYMENT": "gpt-5.4-pro",
        "CHAT_MODEL_API": "responses",
    }
    path = "/aog/v0.2/service_provider"
    (got,) = run_calls({**FAKE_INDEX, **azure}, call(path, b"", method="GET"))
    (card,) = got.json["data"]

    assert card["url"] == "https://mine.openai.azure.com/openai/v1/responses"
    assert card["flavor"] == "responses"


def test_health_asks_for_the_models_beside_it(server: ResponsesUpstream) -> None:
    with run_gateways("responses") as (provider,):
        entry = provider_entry("responses", provider)
        entry["url"] = f"{provider.url}/openai/responses?api-version=2025-04-01-preview"
        (got,) = run_calls(provider_settings(entry), call("/health", b"", method="GET"))

    assert got.status == 200
    (request,) = provider.requests
    assert (request.method, request.path) == (
        "GET",
        "/openai/models?api-version=2025-04-01-preview",
    )


REJECTED: list[Any] = [
    {"messages": []},
    {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
    {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
    {"input": [{"role": "user", "content": "x", "name": "Ann"}]},
    {"input": [{"role": "tool", "content": "x"}]},
    {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]},
    {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
    {"input": []},
    {"tools": [WEATHER]},
    {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"text": {"format": {"type": "json_schema", "json_schema": {}}}},
    {"max_output_tokens": 15},
    {"seed": 1},
    {"model": "o3-mini", "temperature": 1},
    {"reasoning": {"effort": "low"}},
]


@pytest.mark.parametrize("body", REJECTED)
def test_the_fake_server_rejects_what_the_service_rejects(body: Any) -> None:
    right = {"model": "m", "input": [{"role": "user", "content": "x"}], "stream": True}

    assert list(find_problems(right)) == []
    assert list(find_problems(right | body)) != []


def test_aog_s_conversation_becomes_items(server: ResponsesUpstream) -> None:
    last = {"role": "user", "content": [{"type": "image", "image": PNG}, "The first one."]}
    body = {"messages": [*SHIRT_CONVERSATION, last], "tools": [WEATHER]}
    (got,) = run_calls(settings(server, CHAT_MODEL_VISION="true"), aog_call(body))
    items = server.requests[-1].body["input"]

    assert got.status == 200, got.data
    assert [item.get("type", item.get("role")) for item in items] == [
        *("system", "user", "assistant", "user"),
        *("function_call", "function_call_output", "assistant", "user"),
    ]
    assert items[-1]["content"] == [
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
        {"type": "input_text", "text": "The first one."},
    ]
