"""The routes of OpenAI's chat completions over HTTP: access, requests, answers, errors."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from shared.bootstrap.build import build
from shared.domain import errors
from shared.domain.events import Delta, Done
from shared.domain.messages import ToolCall
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.models.demo import DemoModel
from shared.protocols.exchange import App
from shared.protocols.message_json import MAX_BYTES
from shared.settings import read_settings
from tests.support.calls import (
    ANNA,
    CHAT_KEY,
    JSON,
    WEATHER,
    BufferedReply,
    ask,
    call,
    local_service,
    run_calls,
)
from tests.support.fakes import PLUS, STANDARD, FakeModel, FakeRetriever, make_rag
from tests.support.flavors import FLAVORS
from tests.support.flavors.ollama import OLLAMA_FLAVOR
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.servers import LAPTOP, SAMPLES, SIGN_IN
from tests.support.upstream import error_response

ROUTE = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "What is in Plus?"}]}
DEPLOYMENT = "/openai/deployments/{deployment}/chat/completions"
CONTAINERS = ("CONTAINER_APP_NAME", "KUBERNETES_SERVICE_HOST")
NOWHERE = {"AZURE_FUNCTIONS_ENVIRONMENT": ""}  # nothing tells where the app runs
AZURE = ("WEBSITE_INSTANCE_ID", "CONTAINER_NAME", "WEBSITE_POD_NAME", "WEBSITE_SITE_NAME")


def chat(body: Any = HELLO, service: App | None = None, **more: Any) -> BufferedReply:
    return ask(call(more.pop("route", ROUTE), body, **more), service)


def chunks(got: BufferedReply) -> list[Any]:
    """A stream's chunks, up to the mark of its end."""
    assert got.media_type == "text/event-stream"
    *parts, end, rest = got.data.split(b"\n\n")
    assert (end, rest) == (b"data: [DONE]", b"")
    return [json.loads(part.removeprefix(b"data: ")) for part in parts]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_answer_has_the_context_of_on_your_data() -> None:
    got = chat().json

    assert got["object"] == "chat.completion"
    assert got["id"] == "chatcmpl-call-1"
    (choice,) = got["choices"]
    assert choice["message"]["content"] == "Dental care [doc1]."
    assert choice["finish_reason"] == "stop"
    context = choice["message"]["context"]
    assert context["citations"] == [
        {
            "content": PLUS.content,
            "title": "plans/plus.pdf#page=2",
            "url": "/content/plans/plus.pdf#page=2",
            "filepath": "plans/plus.pdf",
            "chunk_id": "plus-2",
        },
        {
            "content": STANDARD.content,
            "title": "plans/standard.md",
            "url": "/content/plans/standard.md",
            "filepath": "plans/standard.md",
            "chunk_id": "standard-1",
        },
    ]
    assert json.loads(context["intent"]) == ["What is in Plus?"]
    assert got["usage"] == {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}


@pytest.mark.parametrize("usage", [True, False, None])
def test_stream_is_the_answer_in_chunks(usage: bool | None) -> None:
    options = {} if usage is None else {"stream_options": {"include_usage": usage}}
    got = chunks(chat({**HELLO, "stream": True, **options}))
    if usage:
        last = got.pop()
        assert (last["choices"], last["usage"]["total_tokens"]) == ([], 49)
    deltas = [chunk["choices"][0]["delta"] for chunk in got]

    assert [set(delta) for delta in deltas] == [
        {"role", "context"},
        {"content"},
        {"content"},
        {"annotations"},
        set(),
    ]
    assert "".join(delta.get("content", "") for delta in deltas) == "Dental care [doc1]."
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in got]
    assert reasons == [None, None, None, None, "stop"]
    assert len({chunk["id"] for chunk in got}) == 1
    assert deltas[0]["context"] == chat().json["choices"][0]["message"]["context"]


CHATS = [
    "/v1/chat/completions",
    pytest.param("/aog/v0.2/services/{service}", marks=pytest.mark.part("aog")),
]


@pytest.mark.parametrize("choice", [{}, {"name": "f"}, {"type": 1}, ["auto"], 1, True])
@pytest.mark.parametrize("route", CHATS)
def test_tool_choice_without_a_type_is_a_400(route: str, choice: Any) -> None:
    model = FakeModel()
    body = {**HELLO, "tools": [WEATHER], "tool_choice": choice}
    got = ask(call(route, body, path="chat"), local_service(make_rag(model)))

    assert got.status == 400
    assert b"tool_choice: must be a string, or an object with a type" in got.data
    assert model.calls == []


@pytest.mark.parametrize("route", CHATS)
def test_tools_over_the_limit_are_a_400(route: str) -> None:
    def answer(text: str) -> BufferedReply:
        tool = {"type": "function", "function": {"name": "f", "description": text}}
        body = {**HELLO, "tools": [tool], "unknown": "x" * MAX_BYTES}
        return ask(call(route, body, path="chat"))

    most, chinese, more = map(answer, ("x" * (MAX_BYTES - 200), "漢" * 80_000, "x" * MAX_BYTES))
    assert (most.status, chinese.status, more.status) == (200, 200, 400)
    assert b"tools: must have 262144 bytes at most, together" in more.data


def test_passage_cannot_cite_another_source() -> None:
    text = "Plus covers transport by ambulance, see [doc2]."
    passage = replace(PLUS, content=text, sourcepage="a%5Bdoc2%5D.md")
    service = local_service(make_rag(DemoModel(), FakeRetriever([passage, STANDARD])))
    body = {"messages": [user("What does Plus cover by ambulance?")]}
    message = chat(body, service).json["choices"][0]["message"]
    streamed = chunks(chat({**body, "stream": True}, service))

    assert message["content"].endswith("Plus covers transport by ambulance, see (doc2). [doc1]")
    assert message["context"]["citations"][0]["content"] == text
    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in streamed]
    assert "".join(deltas) == message["content"]


def test_missing_usage_is_estimated() -> None:
    service = local_service(make_rag(FakeModel([Delta("four words are here"), Done()])))
    used = chat(HELLO, service).json["usage"]

    assert used["prompt_tokens"] > 10
    assert used["completion_tokens"] >= 4
    assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"]


def test_links_are_absolute_if_the_public_url_is_known() -> None:
    def url(**settings: str) -> str:
        service = build(read_settings({**SAMPLES, **LAPTOP, "CHAT_API_KEY": CHAT_KEY, **settings}))
        got = chat(HELLO, service, headers={**JSON, "api-key": CHAT_KEY})
        return str(got.json["choices"][0]["message"]["context"]["citations"][0]["url"])

    assert url().startswith("/content/plans/")
    assert url(PUBLIC_URL="https://chat.example.com/").startswith(
        "https://chat.example.com/content/"
    )
    azure = {"WEBSITE_SITE_NAME": "app", "WEBSITE_HOSTNAME": "app.azurewebsites.net"}
    assert url(**azure).startswith("https://app.azurewebsites.net/content/")
    assert url(WEBSITE_HOSTNAME="localhost:7071").startswith("/content/")


def test_tool_calls_are_returned() -> None:
    script: list[Any] = [
        Delta("", (ToolCall(0, "call_1", "search", '{"q"'),)),
        Delta("", (ToolCall(0, arguments=": 1}"),)),
        Done("tool_calls"),
    ]
    model = FakeModel(script)
    service = local_service(make_rag(model))
    body = {**HELLO, "tools": [WEATHER], "tool_choice": "auto"}
    (choice,) = chat(body, service).json["choices"]
    streamed = chunks(chat({**body, "stream": True}, service))

    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "search", "arguments": '{"q": 1}'},
        }
    ]
    assert choice["finish_reason"] == "tool_calls"
    parts = [chunk["choices"][0]["delta"].get("tool_calls") for chunk in streamed]
    assert [part[0]["function"]["arguments"] for part in parts if part] == ['{"q"', ": 1}"]
    assert model.calls[0].tools == (WEATHER,)
    assert model.calls[0].options["tool_choice"] == "auto"


def test_conversation_continues_after_tool_results() -> None:
    model = FakeModel()
    function = {"name": "search", "arguments": "{}"}
    called = {"id": "1", "type": "function", "function": function}
    messages = [
        user("What is in Plus?"),
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
    ]
    got = chat({"messages": messages}, local_service(make_rag(model)))

    assert got.status == 200
    ours, *theirs = model.calls[0].messages
    assert ours.role == "system"
    assert [message.role for message in theirs] == ["user", "assistant", "tool"]
    assert theirs[0].content == "What is in Plus?"


@pytest.mark.parametrize("role", ["system", "developer"])
def test_client_instructions_are_used_only_if_allowed(role: str) -> None:
    body = {"messages": [{"role": role, "content": "Be a pirate."}, *HELLO["messages"]]}
    for allowed in (True, False):
        model = FakeModel()
        service = local_service(make_rag(model, client_prompts=allowed))
        for got in (chat(body, service), chat({**body, "stream": True}, service)):
            contents = [message.content for message in model.calls[-1].messages]

            assert ("Be a pirate." in contents) == allowed
            assert contents[0].startswith("Answer.")
            assert ("x-chat-notice" in got.headers) != allowed
    assert "own instructions" in got.headers["x-chat-notice"]


def test_unsupported_options_are_omitted_with_a_note() -> None:
    with run_gateways("openai") as (server,):
        settings = provider_settings(provider_entry("openai", server, models=["o3-mini"]))
        body = {**HELLO, "temperature": 0, "top_p": 0, "stop": None, "max_tokens": 9}
        (got,) = run_calls(settings, call(ROUTE, body))

    request_body = server.requests[0].body
    assert got.status == 200
    assert request_body["max_completion_tokens"] == 9
    assert not {"temperature", "top_p", "stop", "max_tokens"} & request_body.keys()
    notice = got.headers["x-chat-notice"]
    assert "top_p was left out" in notice
    assert notice.isascii()


def test_demo_model_names_what_it_does_not_support() -> None:
    service = local_service(make_rag(DemoModel()))
    tool = {"type": "function", "function": {"name": "f", "description": "word " * 20_000}}
    options = {"tools": [tool], "response_format": {"type": "json_object"}, "max_tokens": 9}
    for stream in (False, True):
        got = chat({**HELLO, **options, "stream": stream}, service)

        assert got.status == 200
        assert got.headers["x-chat-notice"] == (
            "tools were left out: the demo model cannot call them. "
            "response_format was left out: the demo model answers in plain text. "
            "max_tokens was left out: the demo model quotes, so it has no effect."
        )
    assert "x-chat-notice" not in chat({**HELLO, "tools": [], "stop": None}, service).headers


def test_option_that_ollama_has_not_is_left_out_with_a_note() -> None:
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        settings = provider_settings(provider_entry(OLLAMA_FLAVOR, server))
        body = {**HELLO, "tools": [WEATHER], "top_p": 0.5, "response_format": {"type": "text"}}
        (got,) = run_calls(settings, call(ROUTE, body))

    assert got.status == 200
    assert server.requests[0].body["tools"] == [WEATHER]
    assert "response_format" not in server.requests[0].body
    notice = got.headers["x-chat-notice"]
    assert notice.startswith("response_format was left out: the server of ")
    assert notice.count("left out") == 1


def test_options_are_forwarded() -> None:
    options = {
        "temperature": 0,
        "seed": 7,
        "top_p": 0.5,
        "stop": ["a", "b"],
        "response_format": {"type": "json_object"},
        "frequency_penalty": 0.1,
        "presence_penalty": -0.1,
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [WEATHER],
    }
    with run_gateways("openai") as (server,):
        settings = provider_settings(provider_entry("openai", server))
        (got,) = run_calls(settings, call(ROUTE, {**HELLO, **options, "max_completion_tokens": 9}))

    body = server.requests[0].body
    assert got.status == 200
    assert {key: body[key] for key in options} == options
    assert body["max_tokens"] == 9


NULLS = {
    key: None
    for key in (
        *(
            "model",
            "stream",
            "stream_options",
            "temperature",
            "top_p",
            "max_tokens",
            "stop",
            "seed",
        ),
        *("tools", "tool_choice", "n", "logprobs", "data_sources", "response_format", "user"),
    )
}


def test_null_means_missing() -> None:
    assert chat({**HELLO, **NULLS}).status == 200


WRONG: list[tuple[Any, str]] = [
    ({}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "x"}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [user(7)]}, "messages[0].content"),
    ({"messages": [user([{"type": "input_audio"}])]}, "messages[0].content[0].type"),
    ({"messages": [user([{"type": "text"}])]}, "messages[0].content[0].text"),
    ({"messages": [user(["image_url", 1])]}, "messages[0].content[0]"),
    (
        {"messages": [user([{"type": "text", "text": "x"}, {"type": "image_url"}])]},
        "messages[0].content[1].image_url",
    ),
    (
        {"messages": [user([{"type": "image_url", "image_url": {"url": "file:///x"}}])]},
        "messages[0].content[0].image_url.url",
    ),
    (
        {"messages": [user([{"type": "image_url", "image_url": {"url": "http://127.1/x"}}])]},
        "messages[0].content[0].image_url.url",
    ),
    ({"messages": [user("x"), {"role": "assistant", "content": "y"}]}, "messages[1].role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
    (
        {"messages": [user("x"), {"role": "tool", "content": "y"}]},
        "messages[1].tool_call_id",
    ),
    ({**HELLO, "n": 2}, "n"),
    ({**HELLO, "logprobs": True}, "logprobs"),
    ({**HELLO, "temperature": 3}, "temperature"),
    ({**HELLO, "max_tokens": 0}, "max_tokens"),
    ({**HELLO, "tools": [{"type": "function"}]}, "tools[0].function"),
    ({**HELLO, "functions": [{"name": "f"}]}, "functions"),
    ({**HELLO, "data_sources": [{"type": "azure_search"}]}, "data_sources[0].parameters"),
    ({**HELLO, "stream": "yes"}, "stream"),
    ({**HELLO, "model": "a\nb"}, "model"),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
def test_invalid_request_names_the_parameter(body: Any, param: str) -> None:
    got = chat(body)
    error = got.json["error"]

    assert got.status == 400
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["param"], error["type"], error["code"]) == (param, "invalid_request_error", None)
    assert error["message"].startswith(param)


def test_non_json_numbers_are_rejected() -> None:
    raw = json.dumps({**HELLO, "response_format": {"x": "BIG"}}).replace('"BIG"', "1e400")
    got = chat(raw.encode())

    assert (got.status, got.json["error"]["param"]) == (400, "response_format")


FAILURES: list[Any] = [
    (errors.ContentFiltered(), 400, "invalid_request_error", "content_filter"),
    (errors.TooLong(), 400, "invalid_request_error", "context_length_exceeded"),
    (errors.TooManyRequests(retry_after=7), 429, "rate_limit_error", "rate_limit_exceeded"),
    (errors.Unavailable(), 503, "server_error", None),
    (errors.Misconfigured(), 503, "server_error", None),
    (errors.DeadlineExceeded(), 504, "server_error", None),
    (RuntimeError("secret"), 500, "server_error", None),
]


@pytest.mark.parametrize(("failure", "status", "kind", "code"), FAILURES)
def test_failure_has_the_form_of_openai(
    failure: Exception, status: int, kind: str, code: str | None
) -> None:
    for stream in (False, True):
        got = chat({**HELLO, "stream": stream}, local_service(make_rag(FakeModel([failure]))))

        assert got.status == status
        assert (got.json["error"]["type"], got.json["error"]["code"]) == (kind, code)
        assert "secret" not in got.data.decode()
    late = chat(
        {**HELLO, "stream": True}, local_service(make_rag(FakeModel([Delta("Half"), failure])))
    )
    *_, last, rest = late.data.split(b"\n\n")
    assert rest == b""
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == code
    assert b"[DONE]" not in late.data


@pytest.mark.parametrize(
    ("body", "param", "status", "named"),
    [
        ({"top_p": 0.5}, "top_p", 400, "top_p"),
        ({"frequency_penalty": 1}, "frequency_penalty", 400, "frequency_penalty"),
        ({}, "x" * 500, 400, None),
        ({"temperature": 1}, "temperature", 400, "temperature"),
        ({}, "temperature", 503, None),  # which is ours
        ({"stream": True}, "stream_options", 503, None),
    ],
)
def test_parameter_rejected_by_the_model_is_a_400(
    body: Any, param: str, status: int, named: str | None
) -> None:
    for refused in (400, 422):
        with run_gateways("openai") as (server,):
            server.plan = [error_response(refused, param=param, code="unsupported")]
            (got,) = run_calls(
                provider_settings(provider_entry("openai", server)), call(ROUTE, HELLO | body)
            )

        error = got.json["error"]
        assert (got.status, error["param"]) == (status, named)
        assert not named or error["message"].startswith(named)
        assert "upstream" not in got.data.decode()


IMAGE = {"type": "image_url", "image_url": {"url": "https://evil.example.com/instructions.png"}}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": [IMAGE]},
        {"role": "developer", "content": "", "images": ["YAAADBPx"]},
        {"role": "system", "content": [{"type": "text", "text": " ", "refusal": "Be a pirate."}]},
        {"role": "system", "content": None},
    ],
)
@pytest.mark.parametrize("flavor", sorted(FLAVORS.keys() - {"responses"}))
def test_instructions_as_images_are_omitted(message: Any, flavor: str) -> None:
    with run_gateways(flavor) as (server,):
        body = {"messages": [message, *HELLO["messages"]]}
        (got,) = run_calls(provider_settings(provider_entry(flavor, server)), call(ROUTE, body))

    ours, *theirs = server.requests[0].body["messages"]
    assert (ours["role"], theirs) == ("system", HELLO["messages"])
    assert "x-chat-notice" in got.headers


@pytest.mark.parametrize("flavor", sorted(FLAVORS.keys() - {"responses"}))
def test_unknown_message_fields_are_not_forwarded(flavor: str) -> None:
    odd = {
        **user([{"type": "text", "text": "Hello?", "x": "y" * 9}]),
        "images": ["file:///etc/passwd"],
        "unheard_of": 1,
    }
    with run_gateways(flavor) as (server,):
        (got,) = run_calls(
            provider_settings(provider_entry(flavor, server)), call(ROUTE, {"messages": [odd]})
        )

    (message,) = server.requests[0].body["messages"][1:]
    assert got.status == 200
    assert message.keys() == {"role", "content"}
    assert "passwd" not in str(server.requests)
    assert "yyy" not in str(server.requests)


def test_notice_is_limited_and_ascii() -> None:
    retriever = FakeRetriever()
    retriever.result = replace(retriever.result, notes=("\u00e9" * 2000,))
    got = chat(service=local_service(make_rag(None, retriever)))

    assert got.headers["x-chat-notice"] == "?" * 1000


@pytest.mark.parametrize("path", ["evil\nrequest id=forged", "x" * 201, ""])
def test_invalid_model_name_is_a_404(path: str, caplog: pytest.LogCaptureFixture) -> None:
    with run_gateways("openai") as (server,):
        settings = provider_settings(provider_entry("openai", server, models=[]))
        (got,) = run_calls(settings, call(DEPLOYMENT, HELLO, path=path))

    assert (got.status, got.json["error"]["code"]) == (404, "model_not_found")
    assert server.requests == []
    assert "forged" not in caplog.text


def test_null_arguments_are_empty() -> None:
    function = {"name": "f", "arguments": None}
    called = {"id": "1", "type": None, "function": function}
    messages = [*HELLO["messages"], {"role": "assistant", "tool_calls": [called]}, user("And?")]

    assert chat({"messages": messages}).status == 200


def test_tokens_outside_the_text_are_counted() -> None:
    service = local_service(make_rag(FakeModel(max_prompt_tokens=200)))
    schema = {"type": "json_schema", "json_schema": {"x": ["word"] * 500}}

    assert chat({**HELLO, "response_format": schema}, service).status == 400


def test_models_are_those_of_the_settings() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local, models=["small", "org/large:7b"]),
            provider_entry("openai", remote, models=["small", "far"], **REMOTE),
            provider_entry("openai", remote, provider_name="off", models=["never"], status=0),
        )
        get: Any = {"method": "GET"}
        lists = [call(path, b"", **get) for path in ("/v1/models", "/openai/models")]
        one = call("/v1/models/{*id}", b"", path="org/large:7b", **get)
        none = call("/openai/v1/models/{*id}", b"", path="never", **get)
        first, second, existing, missing = run_calls(settings, *lists, one, none)

    ids = [(model["id"], model["owned_by"]) for model in first.json["data"]]
    assert ids == [("small", "ollama"), ("org/large:7b", "ollama"), ("far", "openai")]
    assert first.json == second.json
    assert (existing.json["id"], existing.json["object"]) == ("org/large:7b", "model")
    assert (missing.status, missing.json["error"]["code"]) == (404, "model_not_found")


def test_model_of_the_path_takes_precedence() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local, models=["near"]),
            provider_entry("openai", remote, models=["far"], **REMOTE),
        )
        got = run_calls(
            settings,
            call(DEPLOYMENT, {**HELLO, "model": "near"}, path="far"),
            call(ROUTE, {**HELLO, "model": "near"}),
            call(ROUTE, HELLO),
            call(DEPLOYMENT, HELLO, path="unknown"),
        )

    assert [each.json.get("model") for each in got] == ["far", "near", "near", None]
    assert got[3].json["error"]["code"] == "model_not_found"


KEY = {"CHAT_API_KEY": CHAT_KEY}
BEARER = {"authorization": f"Bearer {CHAT_KEY}"}


@pytest.mark.parametrize(
    ("settings", "headers", "status"),
    [
        ({}, {}, 200),
        ({"CHAT_API_KEY": ""}, {}, 200),
        ({}, {"api-key": "whatever"}, 200),
        (KEY, {"api-key": CHAT_KEY}, 200),
        (KEY, BEARER, 200),
        (KEY, {"authorization": f"bearer  {CHAT_KEY}"}, 200),
        (KEY, {"api-key": "wrong", **BEARER}, 200),
        (KEY, {}, 401),
        (KEY, {"api-key": "wrong"}, 401),
        (KEY, {"api-key": CHAT_KEY[:-1]}, 401),
        (KEY, {"api-key": ""}, 401),
        (KEY, {"authorization": CHAT_KEY}, 401),
        (KEY, {"authorization": f"Basic {CHAT_KEY}"}, 401),
        (KEY, {"api-key": "\u00e9"}, 401),
        *(({name: "x"}, {}, 401) for name in AZURE),
        *(({name: "x", **NOWHERE}, {}, 401) for name in CONTAINERS),
        (NOWHERE, {}, 401),
        ({"AZURE_FUNCTIONS_ENVIRONMENT": "Production"}, {}, 401),
        ({**NOWHERE, **KEY}, BEARER, 200),
        *(({name: "x"}, {"api-key": ""}, 401) for name in AZURE),
        *(({name: "x", **KEY}, BEARER, 200) for name in AZURE),
        (SIGN_IN, {}, 401),
        (SIGN_IN, {"x-ms-client-principal-id": "anna"}, 200),
        ({**SIGN_IN, **KEY}, BEARER, 200),
        ({"WEBSITE_SITE_NAME": "x"}, {"x-ms-client-principal-id": "anna"}, 401),
    ],
)
def test_authentication(settings: dict[str, str], headers: dict[str, str], status: int) -> None:
    service = build(read_settings({**SAMPLES, **LAPTOP, **settings}))
    got = chat(HELLO, service, headers={**JSON, **headers})
    models = ask(call("/v1/models", b"", {**JSON, **headers}, method="GET"), service)

    assert (got.status, models.status) == (status, status)
    if status == 401:
        assert got.json["error"]["code"] == "invalid_api_key"
        assert "CHAT_API_KEY" in got.json["error"]["message"]
    assert CHAT_KEY not in got.data.decode()


def test_key_is_not_logged_or_forwarded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "chat")
    with run_gateways("openai") as (server,):
        headers = {**JSON, "api-key": CHAT_KEY, **BEARER}
        settings = provider_settings(provider_entry("openai", server), **KEY)
        run_calls(settings, call(ROUTE, HELLO, headers), call(ROUTE, b"{", headers))

    assert CHAT_KEY not in caplog.text
    assert CHAT_KEY not in str(server.requests)


def test_api_key_identifies_no_user() -> None:
    search = FakeRetriever()
    access = AccessPolicy(sign_in=True, single_user=False)
    service = replace(
        local_service(make_rag(FakeModel(), search), access),
        api_key=ApiKeyPolicy(CHAT_KEY, allow_anonymous=False),
    )
    chat(HELLO, service, headers={**JSON, "api-key": CHAT_KEY})
    chat(HELLO, service, headers={**ANNA, "api-key": CHAT_KEY})

    (nobody, _, first), (anna, _, second) = search.calls
    assert (nobody.is_signed_in, first.use_oid_security_filter) == (False, None)
    assert (anna.oid, second.use_oid_security_filter) == ("anna", True)


def test_wrong_method_has_the_form_of_openai() -> None:
    got = ask(call(ROUTE, b"", method="GET"))

    assert (got.status, got.headers["Allow"]) == (405, "POST")
    assert ROUTE in got.json["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD"])
def test_unknown_path_is_a_404_that_lists_the_routes(method: str) -> None:
    got = chat(route="/v1/{*path}", method=method, path="files/\u202ex")

    assert got.status == 404
    if method == "HEAD":
        assert got.data == b""
    else:
        assert got.json["error"] == {
            "message": f"There is no {method} /v1/files/?x here. Chat completions and models are "
            "at POST /v1/chat/completions, GET /v1/models, GET /v1/models/{id}.",
            "type": "invalid_request_error",
            "param": None,
            "code": "unknown_url",
        }


def test_unknown_path_needs_the_key() -> None:
    service = local_service(make_rag(), api_key=ApiKeyPolicy(CHAT_KEY))
    headers = {**JSON, "api-key": CHAT_KEY}
    statuses = [
        chat(service=service, route="/openai/{*path}", path="x", headers=each).status
        for each in (JSON, headers)
    ]

    assert statuses == [401, 404]
