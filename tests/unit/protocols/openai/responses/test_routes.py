"""The Responses API: its requests, its answers, the order of its streams, its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from shared.app import handle_call
from shared.domain import errors
from shared.domain.events import Delta, Done, Usage
from shared.domain.messages import ToolCall
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.protocols.exchange import App
from shared.protocols.openai.responses.routes import PREFIXES
from tests.support.calls import CHAT_KEY, JSON, BufferedReply, ask, call, local_service, read_events
from tests.support.fakes import PLUS, STANDARD, FakeModel, FakeRetriever, ScriptStep, make_rag

ROUTE = "/v1/responses"
QUESTION = "What is in Plus?"
CITED = "[plans/plus.pdf#page=2]"
SEARCH = {"type": "file_search", "vector_store_ids": ["docs"]}
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
EVENT = TypeAdapter[Any](ResponseStreamEvent)
CALL = Delta(tool_calls=(ToolCall(0, "c1", "weather", ""),))


def post(
    service: App | None = None, headers: Mapping[str, str] | None = None, **body: Any
) -> BufferedReply:
    """The reply to a request, whose input is the question by default."""
    return ask(call(ROUTE, {"input": QUESTION, **body}, JSON | dict(headers or {})), service)


def scripted(*script: ScriptStep, **parts: Any) -> App:
    return local_service(make_rag(FakeModel(script)), **parts)


def arguments(*pieces: str, index: int = 0) -> list[Delta]:
    """The pieces of a call's arguments."""
    return [Delta(tool_calls=(ToolCall(index, arguments=piece),)) for piece in pieces]


def types(events: Sequence[Any]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


# Requests


def sent_messages(
    *items: Any, client_prompts: bool = True, **body: Any
) -> list[Mapping[str, Any] | None]:
    """What the model gets of the client's messages, behind the app's own instructions."""
    model = FakeModel(limits={}, max_prompt_tokens=10_000)
    service = local_service(make_rag(model, client_prompts=client_prompts))
    reply = post(service, input=list(items) or QUESTION, **body)
    assert reply.status == 200, reply.data
    return [message.raw for message in model.calls[-1].messages[1:]]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (user("Hello?"), user("Hello?")),
        ({"type": "message", "id": "m", "status": "completed", **user("Hello?")}, user("Hello?")),
        ({"type": None, **user("Hello?")}, user("Hello?")),
        (
            user([{"type": "input_text", "text": "Hello?"}]),
            user([{"type": "text", "text": "Hello?"}]),
        ),
        (
            user([{"type": "refusal", "refusal": "No."}]),
            user([{"type": "text", "text": "No."}]),
        ),
        (
            user(
                [
                    {"type": "text", "text": "Hello?"},
                    {"type": "input_image", "image_url": PIXEL, "detail": "low"},
                ]
            ),
            user(
                [
                    {"type": "text", "text": "Hello?"},
                    {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                ]
            ),
        ),
    ],
)
def test_a_message_of_the_user_goes_to_the_model(item: Any, message: Any) -> None:
    assert sent_messages(item) == [message]


def test_earlier_items_become_the_messages_of_a_chat() -> None:
    items = [
        {"role": "developer", "content": "Be brief."},
        user("Hello?"),
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "file_search_call", "id": "fs_1", "queries": [], "status": "completed"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
        },
        user("And?"),
        {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "b", "arguments": ""},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "2"}],
        },
    ]
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "b", "arguments": ""}},
    ]

    assert sent_messages(*items, instructions="Be kind.") == [
        {"role": "system", "content": "Be kind."},
        {"role": "system", "content": "Be brief."},
        user("Hello?"),
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        user("And?"),
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "1", "tool_call_id": "c1"},
        {"role": "tool", "content": "2", "tool_call_id": "c2"},
    ]


def test_blank_instructions_are_none() -> None:
    reply = post(instructions=" ")

    assert sent_messages(user("Hello?"), instructions=" ") == [user("Hello?")]
    assert "x-chat-notice" not in reply.headers


def test_instructions_are_left_out_where_clients_may_not_give_any() -> None:
    items = ({"role": "system", "content": "Be brief."}, user("Hello?"))
    reply = post(input=[*items], instructions="Be kind.")

    assert sent_messages(*items, client_prompts=False, instructions="Be kind.") == [user("Hello?")]
    assert reply.json["instructions"] is None
    assert "instructions" in reply.headers["x-chat-notice"]


def test_parameters_go_to_the_model_by_their_names_in_chat_completions() -> None:
    model = FakeModel()
    schema = {"name": "a", "description": "An a.", "schema": {"type": "object"}, "strict": True}
    reply = post(
        local_service(make_rag(model)),
        tools=[{**WEATHER, "description": "The weather.", "strict": True}, SEARCH],
        tool_choice={"type": "function", "name": "weather"},
        parallel_tool_calls=False,
        top_p=0.5,
        temperature=0.25,
        max_output_tokens=30,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_schema", **schema}, "verbosity": "low"},
    )
    (prompt,) = model.calls

    assert reply.status == 200
    function = {"name": "weather", "description": "The weather.", "strict": True}
    assert prompt.tools == (
        {"type": "function", "function": {**function, "parameters": {"type": "object"}}},
    )
    assert prompt.temperature == 0.25
    assert prompt.options == {
        "top_p": 0.5,
        "max_tokens": 30,
        "parallel_tool_calls": False,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {"type": "json_schema", "json_schema": schema},
        "verbosity": "low",
        "reasoning_effort": "low",
    }


@pytest.mark.parametrize(
    ("kind", "sent"), [("text", None), ("json_object", {"type": "json_object"})]
)
def test_a_format_of_text_is_not_sent_and_one_of_json_is(kind: str, sent: Any) -> None:
    model = FakeModel()
    reply = post(local_service(make_rag(model)), text={"format": {"type": kind}})

    assert reply.status == 200
    assert model.calls[0].options.get("response_format") == sent


def test_parallel_tool_calls_are_not_sent_without_functions() -> None:
    model = FakeModel()
    reply = post(local_service(make_rag(model)), tools=[SEARCH], parallel_tool_calls=False)

    assert (reply.status, reply.json["parallel_tool_calls"]) == (200, False)
    assert "parallel_tool_calls" not in model.calls[0].options


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        ([SEARCH], {"type": "file_search"}),
        ([SEARCH], "required"),
        ([SEARCH], "auto"),
        ([], "required"),
        ([], "none"),
    ],
)
def test_a_choice_that_the_search_meets_is_not_sent(tools: list[Any], choice: Any) -> None:
    model = FakeModel()
    reply = post(local_service(make_rag(model)), tools=tools, tool_choice=choice)

    assert (reply.status, reply.json["tool_choice"]) == (200, choice)
    assert "tool_choice" not in model.calls[0].options


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (3, None, None)),
        ({"max_num_results": 7}, (7, None, None)),
        ({"filters": {"type": "eq", "key": "category", "value": "a"}}, (3, "a", None)),
        ({"filters": {"type": "ne", "key": "category", "value": "a"}}, (3, None, "a")),
        ({"ranking_options": {"ranker": "auto"}}, (3, None, None)),
    ],
)
def test_options_of_the_search_become_overrides(
    options: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    retriever = FakeRetriever()
    reply = post(local_service(make_rag(retriever=retriever)), tools=[{**SEARCH, **options}])
    ((_, _, overrides),) = retriever.calls

    assert reply.status == 200
    found = (overrides.top, overrides.include_category, overrides.exclude_category)
    assert found == expected


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"input": None}, "input", "missing_required_parameter"),
    ({"input": 5}, "input", "invalid_value"),
    ({"input": []}, "input", "invalid_value"),
    ({"input": ""}, "input", "missing_required_parameter"),
    ({"input": [user("x")] * 10_001}, "input", "invalid_value"),
    ({"input": ["x"]}, "input[0]", "invalid_value"),
    ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role", "unsupported_value"),
    ({"input": [{"content": "x"}]}, "input[0].role", "missing_required_parameter"),
    ({"input": [{"role": "user"}]}, "input[0].content", "missing_required_parameter"),
    ({"input": [user(5)]}, "input[0].content", "invalid_value"),
    ({"input": [user(["x"])]}, "input[0].content[0]", "invalid_value"),
    (
        {"input": [user([{"type": "input_audio", "input_audio": {}}])]},
        "input[0].content[0].type",
        "unsupported_value",
    ),
    (
        {"input": [user([{"type": "input_image", "file_id": "f"}])]},
        "input[0].content[0]",
        "unsupported_value",
    ),
    (
        {"input": [user([{"type": "input_image", "image_url": "http://10.0.0.1/a.png"}])]},
        "input[0].content[0].image_url",
        "invalid_value",
    ),
    (
        {"input": [user([{"type": "input_text"}])]},
        "input[0].content[0].text",
        "missing_required_parameter",
    ),
    ({"input": [{"type": "computer_call"}]}, "input[0].type", "unsupported_value"),
    ({"input": [{"role": "assistant", "content": "x"}]}, "input", "invalid_value"),
    ({"input": [user("x"), {"role": "system", "content": "x"}]}, "input", "invalid_value"),
    (
        {"input": [user("x"), {"type": "function_call_output", "call_id": "c", "output": "1"}]},
        "input[1].call_id",
        "invalid_value",
    ),
    ({"model": 5}, "model", "invalid_value"),
    (
        {
            "input": [
                user("x"),
                {"type": "function_call", "call_id": "c", "name": "f"},
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": PIXEL}],
                },
            ]
        },
        "input[2].output",
        "unsupported_value",
    ),
    ({"temperature": 3}, "temperature", "invalid_value"),
    ({"top_p": 1.5}, "top_p", "invalid_value"),
    ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
    ({"stream": "yes"}, "stream", "invalid_value"),
    ({"metadata": {"a": 1}}, "metadata.a", "invalid_value"),
    ({"metadata": {"a": "x" * 513}}, "metadata.a", "invalid_value"),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "invalid_value"),
    ({"tools": [WEATHER] * 129}, "tools", "invalid_value"),
    ({"tools": [{**WEATHER, "parameters": "x" * 300_000}]}, "tools", "invalid_value"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "unsupported_value"),
    ({"tools": [WEATHER, {"type": "mcp"}]}, "tools[1].type", "unsupported_value"),
    ({"tools": [SEARCH, SEARCH]}, "tools[1].type", "unsupported_value"),
    ({"tools": [{"type": "function"}]}, "tools[0].name", "missing_required_parameter"),
    (
        {"tools": [{"type": "file_search"}]},
        "tools[0].vector_store_ids",
        "missing_required_parameter",
    ),
    (
        {"tools": [{**SEARCH, "vector_store_ids": ["a", "b"]}]},
        "tools[0].vector_store_ids",
        "invalid_value",
    ),
    ({"tools": [{**SEARCH, "max_num_results": 51}]}, "tools[0].max_num_results", "invalid_value"),
    (
        {"tools": [{**SEARCH, "filters": {"type": "gt", "key": "category", "value": "a"}}]},
        "tools[0].filters.type",
        "unsupported_value",
    ),
    (
        {"tools": [{**SEARCH, "filters": {"type": "eq", "key": "author", "value": "a"}}]},
        "tools[0].filters.key",
        "unsupported_value",
    ),
    ({"tool_choice": {"type": "web_search"}}, "tool_choice", "unsupported_value"),
    ({"tool_choice": {"type": "file_search"}}, "tool_choice", "unsupported_value"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type", "unsupported_value"),
    ({"background": True}, "background", "unsupported_value"),
    ({"prompt": {"id": "p"}}, "prompt", "unsupported_value"),
    ({"top_logprobs": 3}, "top_logprobs", "unsupported_value"),
    ({"conversation": "c"}, "conversation", "unsupported_value"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]", "unsupported_value"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
]


@pytest.mark.parametrize(("body", "param", "code"), WRONG)
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_parameter_is_named(
    body: dict[str, Any], param: str, code: str, stream: bool
) -> None:
    reply = post(**{"stream": stream, **body})
    error = reply.json["error"]

    assert reply.status == 400
    assert (error["param"], error["code"], error["type"]) == (param, code, "invalid_request_error")
    assert error["message"].startswith(f"{param}: ")


def test_a_number_that_json_cannot_repeat_is_named() -> None:
    reply = ask(call(ROUTE, b'{"input": "x", "text": {"format": {"schema": {"maximum": 1e400}}}}'))

    assert (reply.status, reply.json["error"]["param"]) == (400, "text")


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        (b'"' + b"x" * 5_000_000, "application/json", 413, "request_too_large"),
        (b"input=x", "text/plain", 415, "unsupported_media_type"),
        (b"{", "application/json", 400, "invalid_value"),
        (b"[]", "application/json", 400, "invalid_value"),
    ],
)
def test_a_body_that_cannot_be_read_has_a_code(
    body: bytes, kind: str, status: int, code: str
) -> None:
    reply = ask(call(ROUTE, body, {"content-type": kind}))

    assert (reply.status, reply.json["error"]["code"]) == (status, code)


def test_a_parameter_that_is_null_is_missing() -> None:
    names = (
        "model instructions tools tool_choice stream temperature top_p max_output_tokens text "
        "parallel_tool_calls reasoning metadata store previous_response_id include background "
        "prompt top_logprobs conversation truncation user"
    )
    reply = post(**dict.fromkeys(names.split()))

    assert reply.status == 200
    assert reply.json["metadata"] == {}


def test_a_reference_to_an_item_that_is_not_stored_is_a_404() -> None:
    reply = post(input=[{"type": "item_reference", "id": "msg_1"}, user("And?")])

    assert reply.status == 404
    assert reply.json["error"]["param"] == "input"
    assert reply.json["error"]["code"] == "item_not_found"
    assert "the id 'msg_1' is not stored here" in reply.json["error"]["message"]
    assert "store: false" in reply.json["error"]["message"]


@pytest.mark.parametrize("prefix", ["/v1/responses", "/openai/v1/responses", "/openai/responses"])
@pytest.mark.parametrize("name", ["compact", "input_tokens"])
def test_a_missing_part_of_the_api_is_a_404_that_names_it(prefix: str, name: str) -> None:
    reply = ask(call(f"{prefix}/{{id}}", {"input": "Hello?"}, path=name))

    assert (reply.status, reply.json["error"]["code"]) == (404, "unknown_url")
    assert f"There is no POST {prefix}/{name} here" in reply.json["error"]["message"]


FAILURES: list[tuple[Exception, int, str]] = [
    (errors.NoSuchModel(), 404, "model_not_found"),
    (errors.TooManyRequests(), 429, "rate_limit_exceeded"),
    (errors.TooLong(), 400, "context_length_exceeded"),
    (errors.ContentFiltered(), 400, "content_filter"),
    (errors.Unavailable(), 503, "server_error"),
    (errors.DeadlineExceeded(), 504, "server_error"),
    (RuntimeError("a secret"), 500, "server_error"),
]


@pytest.mark.parametrize(("failure", "status", "code"), FAILURES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_before_the_answer_has_its_status(
    failure: Exception, status: int, code: str, stream: bool
) -> None:
    reply = post(scripted(failure), stream=stream)

    assert (reply.status, reply.json["error"]["code"]) == (status, code)
    assert "secret" not in reply.json["error"]["message"]


@pytest.mark.parametrize("failure", [failure for failure, _, _ in FAILURES])
def test_every_member_of_an_error_is_a_string(failure: Exception) -> None:
    error = post(scripted(failure)).json["error"]

    # Otherwise `@ai-sdk/open-responses` shows no message.
    assert {type(value) for value in error.values()} == {str}


def test_a_long_key_is_not_repeated_in_full() -> None:
    reply = post(metadata={"k" * 10_000: 1})

    assert reply.status == 400
    assert len(reply.data) < 1000


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_other_methods_are_not_allowed(method: str) -> None:
    reply = ask(call(ROUTE, [b""], JSON, method=method))

    assert (reply.status, reply.headers["Allow"]) == (405, "POST")
    assert isinstance(reply.json["error"]["code"], str)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("rest", ["", "/{id}", "/{id}/input_items", "/{id}/cancel"])
def test_every_route_needs_the_key(prefix: str, rest: str) -> None:
    service = App(make_rag(), AccessPolicy(), api_key=ApiKeyPolicy(CHAT_KEY))
    method = "GET" if rest in ("/{id}", "/{id}/input_items") else "POST"
    request = {"input": QUESTION}
    refused = ask(call(f"{prefix}{rest}", request, method=method, path="resp_1"), service)
    key = {**JSON, "authorization": f"Bearer {CHAT_KEY}"}
    passed = ask(call(f"{prefix}{rest}", request, key, method=method, path="resp_1"), service)

    assert (refused.status, refused.json["error"]["code"]) == (401, "invalid_api_key")
    assert passed.status == {"": 200, "/{id}/cancel": 400}.get(rest, 404)


# Answers


def test_an_answer_fits_the_published_type() -> None:
    answers = [
        post().json,
        post(tools=[SEARCH, WEATHER], include=["file_search_call.results"]).json,
        post(scripted(CALL, *arguments("{", "}"), Done("tool_calls")), tools=[WEATHER]).json,
        post(scripted(Delta("Yes"), Done("length"))).json,
    ]

    for answer in answers:
        Response.model_validate(answer, strict=False)
        assert "output_text" not in answer


def test_an_answer_repeats_the_parameters_of_its_request() -> None:
    defaults: dict[str, Any] = {
        "background": False,
        "error": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": "fake",
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "auto",
    }
    sent: dict[str, Any] = {
        "instructions": "Be brief.",
        "max_output_tokens": 30,
        "metadata": {"k" * 64: "v" * 512},
        "model": "gpt-5",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tool_choice": {"type": "function", "name": "weather"},
        "tools": [WEATHER],
        "top_p": 0.25,
    }
    service = local_service(make_rag(client_prompts=True))
    without, answer = post().json, post(service, **sent).json
    verbose = post(text={"verbosity": "low"}).json

    assert {name: without[name] for name in defaults} == defaults
    assert {name: answer[name] for name in defaults} == defaults | sent
    assert verbose["text"] == {"format": {"type": "text"}, "verbosity": "low"}


@pytest.mark.parametrize("stream", [False, True])
def test_the_search_as_a_tool_names_its_passages(stream: bool) -> None:
    same_page = replace(PLUS, id="plus-3")

    def output(**body: Any) -> list[Any]:
        service = local_service(make_rag(retriever=FakeRetriever((PLUS, same_page))))
        reply = post(service, tools=[SEARCH], stream=stream, **body)
        answer = read_events(reply)[-1]["response"] if stream else reply.json
        return list(answer["output"])

    plain, message = output()
    search, _ = output(include=["file_search_call.results"])
    (part,) = message["content"]

    assert part["annotations"] == [
        {
            "type": "file_citation",
            "index": part["text"].index(CITED),
            "file_id": "plus-2",
            "filename": "plans/plus.pdf",
        }
    ]
    assert (plain["status"], plain["queries"], plain["results"]) == ("completed", [QUESTION], None)
    assert [result["file_id"] for result in search["results"]] == ["plus-2", "plus-3"]
    assert search["results"][0] == {
        "file_id": "plus-2",
        "filename": "plans/plus.pdf",
        "score": 2.5,
        "text": PLUS.content,
        "attributes": {
            "sourcepage": "plans/plus.pdf#page=2",
            "url": "/content/plans/plus.pdf#page=2",
        },
    }


def test_an_answer_that_only_calls_has_no_message() -> None:
    second = Delta(tool_calls=(ToolCall(1, None, "time", '{"a": 1}'),))
    service = scripted(CALL, *arguments("{", "}"), second, Done("tool_calls"))
    output = post(service, tools=[WEATHER]).json["output"]

    assert output == [
        {
            "id": "fc_call-1_0",
            "type": "function_call",
            "status": "completed",
            "call_id": "c1",
            "name": "weather",
            "arguments": "{}",
        },
        {
            "id": "fc_call-1_1",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_call-1_1",
            "name": "time",
            "arguments": '{"a": 1}',
        },
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_ends_at_its_limit_is_incomplete(stream: bool) -> None:
    reply = post(scripted(Delta("Yes"), Done("length")), stream=stream)
    answer = read_events(reply)[-1]["response"] if stream else reply.json

    assert reply.status == 200
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["completed_at"] is None
    assert answer["output"][0]["content"][0]["text"] == "Yes"


def test_usage_is_estimated_where_the_model_gives_none() -> None:
    usage = post(scripted(Delta("four words are here"), Done())).json["usage"]

    assert usage["input_tokens"] > 10
    assert usage["output_tokens"] >= 4
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_usage_has_the_details_that_the_model_gives() -> None:
    tokens = Usage(40, 9, cached_tokens=30, reasoning_tokens=5)
    usage = post(scripted(Delta("Yes"), Done(usage=tokens))).json["usage"]

    assert usage == {
        "input_tokens": 40,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 49,
    }


def test_each_marker_of_a_source_is_annotated_in_code_points() -> None:
    text = f"漢字 \U0001f600 {CITED} [x] [doc1] {CITED}[plans/standard.md] [plans/none.md]"
    service = scripted(Delta(text), Done())
    (part,) = post(service).json["output"][0]["content"]
    places = [(each["start_index"], each["end_index"]) for each in part["annotations"]]

    assert part["text"] == text
    assert [text[start:end] for start, end in places] == [CITED, CITED, "[plans/standard.md]"]
    assert [each["title"] for each in part["annotations"]] == [
        PLUS.sourcepage,
        PLUS.sourcepage,
        STANDARD.sourcepage,
    ]


def test_a_name_with_brackets_is_annotated_as_it_is_and_decoded() -> None:
    source = replace(PLUS, sourcepage="a%5B1%5D.pdf")
    text = "[a%5B1%5D.pdf] [a[1].pdf]"
    service = local_service(
        make_rag(FakeModel((Delta(text), Done())), FakeRetriever((source, STANDARD)))
    )
    annotations = post(service).json["output"][0]["content"][0]["annotations"]

    places = [(each["start_index"], each["end_index"]) for each in annotations]
    assert [text[start:end] for start, end in places] == text.split()


# Streams


def test_every_event_fits_the_published_type() -> None:
    service = scripted(Delta(f"Yes {CITED}"), CALL, *arguments("{", "}"), Done("tool_calls"))
    events = read_events(post(service, stream=True, tools=[SEARCH, WEATHER]))
    for event in events:
        EVENT.validate_python(event)

    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "file_search_call.in_progress",
        "file_search_call.searching",
        "file_search_call.completed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert {event["response"]["id"] for event in events if "response" in event} == {"resp_call-1"}
    assert (events[2]["item"]["status"], events[2]["item"]["queries"]) == ("in_progress", [])
    assert not any("error" in event for event in events)


CALLS = [
    CALL,
    *arguments("{", '"a"', ": 1}"),
    Delta(tool_calls=(ToolCall(1, "c2", "time", "{"),)),
    *arguments("}", index=1),
]


@pytest.mark.parametrize("tools", [[], [SEARCH]])
@pytest.mark.parametrize("calls", [[], CALLS])
def test_the_end_of_a_stream_is_the_whole_answer_however_it_is_cut(
    tools: list[Any], calls: list[Delta]
) -> None:
    text = f"No [x {CITED}. \U0001f600 [plans/standard.md][."
    end = Done("tool_calls" if calls else "stop")
    whole = post(scripted(Delta(text), *calls, end), tools=tools).json
    cuts = [[text[:place], text[place:]] for place in range(1, len(text))] + [[*text]]

    for pieces in cuts:
        service = scripted(*map(Delta, pieces), *calls, end)
        events = read_events(post(service, stream=True, tools=tools))
        last = events[-1]["response"]
        assert last["output"] == whole["output"]
        added = [event["annotation"] for event in events if "annotation" in event]
        (message,) = [item for item in last["output"] if item["type"] == "message"]
        assert added == message["content"][0]["annotations"]
        assert types(events).count("output_text.delta") == len(pieces)
        deltas = [each["delta"] for each in events if each["type"].endswith("arguments.delta")]
        assert deltas == (["{", '"a"', ": 1}", "{", "}"] if calls else [])
        begun = [event["item"] for event in events if event["type"].endswith("item.added")]
        assert all(item["arguments"] == "" for item in begun if item["type"] == "function_call")


def test_the_first_event_comes_before_the_first_token() -> None:
    async def go() -> tuple[bytes, bytes]:
        wait = asyncio.Event()
        service = scripted(wait, Delta("Yes"), Done())
        reply = await handle_call(service, call(ROUTE, {"input": QUESTION, "stream": True}))
        first = reply.body
        wait.set()
        assert reply.rest is not None
        return first, b"".join([piece async for piece in reply.rest])

    first, rest = asyncio.run(go())

    assert first.count(b"\n\n") == 2
    assert b"response.in_progress" in first
    assert b"output_item.added" in rest


@pytest.mark.parametrize(("failure", "status", "code"), FAILURES)
@pytest.mark.parametrize("place", range(4))
def test_a_failure_after_the_first_event_is_the_last_event(
    failure: Exception, status: int, code: str, place: int
) -> None:
    script: list[ScriptStep] = [Delta("Yes "), Delta("[a"), CALL, *arguments("{")]
    script.insert(place + 1, failure)
    reply = post(scripted(*script, Done()), stream=True, tools=[WEATHER])
    *_, last = events = read_events(reply)
    for event in events:
        EVENT.validate_python(event)

    assert reply.status == 200
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    if code == "content_filter":
        assert last["type"] == "response.incomplete"
        assert last["response"]["incomplete_details"] == {"reason": "content_filter"}
    else:
        assert last["type"] == "response.failed"
        expected = "rate_limit_exceeded" if status == 429 else "server_error"
        assert last["response"]["error"]["code"] == expected
        assert last["response"]["status"] == "failed"
    assert "secret" not in json.dumps(last)
    output = [item["type"] for item in last["response"]["output"]]
    assert output == (["message"] if place > 1 else [])  # the items that were done


@pytest.mark.parametrize("between", [CALLS, [CALL, Delta("A")]])
def test_calls_that_are_out_of_order_fail_the_response(between: list[Delta]) -> None:
    service = scripted(*between, *arguments("late"), Done("tool_calls"))
    last = read_events(post(service, stream=True, tools=[WEATHER]))[-1]

    assert last["type"] == "response.failed"


@st.composite
def scripts(draw: st.DrawFn) -> list[ScriptStep]:
    """The steps of a model that mixes texts and calls, in or out of their order."""
    indices = draw(st.sampled_from([[0, 1, 2], [0, 1, 0, 2], [1, 0], [0, 0]]))
    steps: list[ScriptStep] = []
    for index in indices:
        steps += map(
            Delta, draw(st.lists(st.sampled_from(["A", " ", "\n", CITED, "["]), max_size=3))
        )
        begun = ToolCall(index, f"c{index}", "weather", draw(st.sampled_from(["", "{}"])))
        steps.append(Delta(tool_calls=(begun,)))
        steps += draw(st.lists(st.just(*arguments("x", index=index)), max_size=2))
    steps += map(Delta, draw(st.lists(st.sampled_from(["B", "\n"]), max_size=2)))
    return [*steps, Done(draw(st.sampled_from(["stop", "tool_calls", "length"])))]


@given(scripts(), st.sampled_from([[WEATHER], [WEATHER, SEARCH]]))
@settings(deadline=None)
def test_stream_and_whole_answer_have_the_same_items_and_no_gap(
    script: list[ScriptStep], tools: list[Any]
) -> None:
    events = read_events(post(scripted(*script), stream=True, tools=tools))
    whole = post(scripted(*script), tools=tools).json
    last = events[-1]["response"]
    added = [each["item"]["id"] for each in events if each["type"].endswith("item.added")]
    done = [each["item"] for each in events if each["type"].endswith("item.done")]

    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert last["output"] == done
    if last["status"] != "failed":
        assert last["output"] == whole["output"]
        assert added == [item["id"] for item in done]
        assert last["status"] == whole["status"] == done[-1]["status"]
        assert {item["status"] for item in done[:-1]} <= {"completed"}


def test_text_behind_a_call_is_a_second_message() -> None:
    service = scripted(Delta("A"), CALL, *arguments("{}"), Delta("\n"), Delta("B"), Done())
    events = read_events(post(service, stream=True, tools=[WEATHER]))
    output = events[-1]["response"]["output"]

    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    assert [item["id"] for item in output] == ["msg_call-1", "fc_call-1_0", "msg_call-1_2"]
    assert [output[place]["content"][0]["text"] for place in (0, 2)] == ["A", "\nB"]
    for event in events:
        EVENT.validate_python(event)


@pytest.mark.parametrize("stream", [False, True])
def test_a_line_feed_behind_a_call_is_no_message(stream: bool) -> None:
    service = scripted(CALL, *arguments("{}"), Delta("\n"), Done("tool_calls"))
    reply = post(service, stream=stream, tools=[WEATHER])
    answer = read_events(reply)[-1]["response"] if stream else reply.json

    assert [item["type"] for item in answer["output"]] == ["function_call"]


def test_an_answer_without_text_still_has_a_message() -> None:
    events = read_events(post(scripted(Done()), stream=True))

    assert types(events)[2:] == [
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert events[-1]["response"]["output"] == post(scripted(Done())).json["output"]


def test_links_are_absolute_where_the_address_is_known() -> None:
    reply = post(local_service(make_rag(), links="https://app.example.com"))
    (annotation,) = reply.json["output"][0]["content"][0]["annotations"]

    assert annotation["url"] == "https://app.example.com/content/plans/plus.pdf#page=2"


def test_passages_of_a_foreign_index_keep_their_url_and_title() -> None:
    foreign = replace(PLUS, title="Plus", url="https://docs.example.com/plus")
    service = local_service(make_rag(retriever=FakeRetriever((foreign,))))
    (annotation,) = post(service).json["output"][0]["content"][0]["annotations"]

    assert (annotation["title"], annotation["url"]) == ("Plus", "https://docs.example.com/plus")
