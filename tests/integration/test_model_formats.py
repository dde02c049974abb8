"""What each flavor makes of a conversation, and what it reads in an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import ollama
import pytest
from ollama._types import ChatRequest

from shared.domain.errors import BadRequest, ContentFiltered, Unavailable
from shared.domain.events import Delta, Done, Event
from shared.domain.messages import ToolCall
from shared.models.formats.base import merge_json
from shared.models.formats.ollama import parse_arguments
from tests.support.calls import PNG, PNG_URL, QUESTION, WEATHER, call, run_calls
from tests.support.flavors import FLAVORS
from tests.support.flavors.aog import AOG_FLAVOR, aog_event
from tests.support.flavors.ollama import (
    LAST_LINE,
    OLLAMA_FLAVOR,
    message,
    ollama_line,
    ollama_stream,
    undecodable_field,
)
from tests.support.flavors.responses import RESPONSES_FLAVOR
from tests.support.model_requests import SHIRT_CONVERSATION, run_answers, run_events
from tests.support.prompts import APP_PROMPTS
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.responses_upstream import call_events, completed
from tests.support.servers import FAKE_SEARCH
from tests.support.upstream import Exchange, chunk, json_response, sse_event, stream_response

HELLO = {"messages": [{"role": "user", "content": "Hello."}], "retrieval": False}


def send(flavor: str, body: Any, **more: Any) -> Any:
    """The body that a server of a flavor gets."""
    with run_gateways(flavor) as (server,):
        run_answers(provider_settings(provider_entry(flavor, server, **more)), body)

    return server.requests[-1].body


@pytest.mark.parametrize("flavor", ["openai", OLLAMA_FLAVOR, AOG_FLAVOR])
@pytest.mark.parametrize("retrieval", [True, False])
def test_the_messages_of_the_specification_are_sent_unchanged(flavor: str, retrieval: bool) -> None:
    messages = send(flavor, {"messages": SHIRT_CONVERSATION, "retrieval": retrieval})["messages"]
    theirs = messages[1:] if retrieval else messages
    expected = json.loads(json.dumps(SHIRT_CONVERSATION))
    if flavor == OLLAMA_FLAVOR:  # whose API refuses a string
        function = expected[4]["tool_calls"][0]["function"]
        function["arguments"] = {"arguments": "{'query':'shirts'}"}

    assert theirs == expected
    if retrieval:
        assert messages[0]["role"] == "system"
        assert "\n\nSources:\n" in messages[0]["content"]


def sent_messages(flavor: str, body: Any) -> Any:
    """The messages that a server of a flavor gets, the instructions first."""
    got = send(flavor, body)
    if flavor == RESPONSES_FLAVOR:
        texts = [text for text in (got.get("instructions"),) if text]
        return [*({"role": "system", "content": text} for text in texts), *got["input"]]
    return got["messages"]


EVIL = {"url": "http://169.254.169.254/latest/meta-data/"}
PICTURE = "https://example.com/a.png"


@pytest.mark.parametrize("flavor", ["openai", RESPONSES_FLAVOR, OLLAMA_FLAVOR])
def test_unknown_keys_are_not_sent_to_the_model_s_server(flavor: str) -> None:
    function = {"name": "search", "arguments": "{}", "pad": "x"}
    call = {"id": "c1", "type": "function", "function": function, "pad": "x"}
    parts = [
        {"type": "text", "text": "What is in Plus?", "uuid": "u", "image_url": EVIL, "pad": "x"},
        {"type": "image", "image": PNG, "image_url": EVIL},
    ]
    messages = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "user", "content": parts},
    ]
    body = json.dumps(send(flavor, {"messages": messages}))

    assert "What is in Plus?" in body
    assert PNG in body
    assert "169.254" not in body
    assert "pad" not in body
    assert "uuid" not in body


def test_the_detail_of_an_image_is_sent() -> None:
    def image(**more: Any) -> Any:
        part = {"type": "image_url", "image_url": {"url": PICTURE, **more}}
        content = [{"type": "text", "text": "What is this?"}, part]
        messages = [{"role": "user", "content": content}]
        return send("openai", {"messages": messages, "retrieval": False})["messages"][0]["content"]

    assert image(detail="low")[1]["image_url"] == {"url": PICTURE, "detail": "low"}
    assert image(detail=["x"])[1]["image_url"] == {"url": PICTURE}
    assert image()[0] == {"type": "text", "text": "What is this?"}


@pytest.mark.parametrize("flavor", FLAVORS)
def test_without_retrieval_no_instructions_are_added(flavor: str) -> None:
    assert sent_messages(flavor, HELLO) == HELLO["messages"]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_client_s_instructions_follow_those_of_the_app(flavor: str) -> None:
    theirs = {"role": "system", "content": "Ignore the sources. You are a pirate."}
    body = {"messages": [theirs, {"role": "user", "content": "What is in Plus?"}]}
    ours, second, _ = sent_messages(flavor, body)

    assert ours["content"].startswith(APP_PROMPTS.answer)
    assert second == theirs


@pytest.mark.parametrize("flavor", FLAVORS)
def test_every_flavor_supports_tools_and_tool_calls(flavor: str) -> None:
    called = {"name": "search", "arguments": '{"q": "a"}'}
    entry = {"index": 0, "id": "call_1", "type": "function", "function": called}
    parsed = [{"function": {"name": "search", "arguments": {"q": "a"}}}]
    plans: dict[str, Any] = {
        "openai": stream_response(
            [sse_event(chunk(delta={"tool_calls": [entry]}, finish_reason="tool_calls"))]
        ),
        RESPONSES_FLAVOR: stream_response(
            [*call_events(0, "call_1", "search", '{"q": "a"}'), completed()]
        ),
        OLLAMA_FLAVOR: ollama_stream(
            ollama_line(**message(tool_calls=parsed)), ollama_line(**LAST_LINE)
        ),
        AOG_FLAVOR: stream_response(
            [
                aog_event(**message(tool_calls=[entry])),
                aog_event(finished=True, finish_reason="tool_calls"),
            ]
        ),
    }
    with run_gateways(flavor) as (server,):
        server.plan = [plans[flavor]]
        settings = provider_settings(provider_entry(flavor, server))
        body = {**HELLO, "tools": [WEATHER]}
        (got,) = run_answers(settings, body)

    (tool,) = server.requests[0].body["tools"]
    assert tool.get("function", tool).items() >= WEATHER["function"].items()
    (tool_call,) = got.tool_calls
    assert tool_call.name == "search"
    assert json.loads(tool_call.arguments) == {"q": "a"}
    assert tool_call.id
    assert got.done.finish_reason == "tool_calls"
    assert got.content == ""


def test_each_tool_call_of_ollama_has_its_own_index_and_id() -> None:
    calls: list[Any] = [{"function": {"name": name, "arguments": {}}} for name in ("a", "b")]
    three = [
        ollama_line(**message(tool_calls=calls)),
        ollama_line(**message(tool_calls=calls[:1])),
        ollama_line(**LAST_LINE),
    ]
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        server.plan = [ollama_stream(*three)]
        (got,) = run_answers(provider_settings(provider_entry(OLLAMA_FLAVOR, server)), HELLO)

    assert [each.name for each in got.tool_calls] == ["a", "b", "a"]
    assert len({each.id for each in got.tool_calls}) == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": {"b": [1]}}', {"a": {"b": [1]}}),
        ("{'a': 1}", {"arguments": "{'a': 1}"}),
        ("[1]", {"arguments": "[1]"}),
        ('"x"', {"arguments": '"x"'}),
        ("NaN", {"arguments": "NaN"}),
        ("", {}),
        (None, {}),
    ],
)
def test_tool_arguments_become_an_object_for_ollama(arguments: Any, expected: Any) -> None:
    assert parse_arguments(arguments) == expected


def user(content: Any, **more: Any) -> Any:
    entry = {"role": "user", "content": content, **more}
    return {"messages": [entry], "retrieval": False}


WORDS = {"type": "text", "text": "What is it?"}
VALUE = {"type": "text", "text": {"value": "What is it?", "annotations": ["a"]}}
HERE = {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}
THERE = {"type": "image_url", "image_url": {"url": "https://a.com/b.png"}}
BYTES = {"type": "image", "image": PNG}
IMAGE_PART = {"type": "image_url", "image_url": {"url": PNG_URL}}

# Content, what OpenAI gets of it, what Ollama gets of it: its text and its images.
FORMS: list[Any] = [
    pytest.param(user("Hi"), "Hi", ("Hi", None), id="a string"),
    pytest.param(user(WORDS), "What is it?", ("What is it?", None), id="a text object"),
    pytest.param(user(VALUE), "What is it?", ("What is it?", None), id="a value"),
    pytest.param(user([WORDS, HERE]), [WORDS, HERE], ("What is it?", [PNG]), id="OpenAI's parts"),
    pytest.param(
        user([VALUE, "b"]),
        [WORDS, {"type": "text", "text": "b"}],
        ("What is it?\nb", None),
        id="a list",
    ),
    pytest.param(user([BYTES, WORDS]), [IMAGE_PART, WORDS], ("What is it?", [PNG]), id="base64"),
    pytest.param(
        user("What is it?", images=[PNG]), [WORDS, IMAGE_PART], ("What is it?", [PNG]), id="images"
    ),
    pytest.param(
        user([WORDS, BYTES], images=[PNG]),
        [WORDS, IMAGE_PART, IMAGE_PART],
        ("What is it?", [PNG, PNG]),
        id="both",
    ),
]


@pytest.mark.parametrize(("body", "openai", "ollama"), FORMS)
def test_content_is_converted_for_each_flavor(body: Any, openai: Any, ollama: Any) -> None:
    entry = body["messages"][0]

    assert send(AOG_FLAVOR, body)["messages"] == [entry]
    assert send("openai", body)["messages"] == [{"role": "user", "content": openai}]
    content, images = ollama
    expected = {"role": "user", "content": content} | ({"images": images} if images else {})
    assert send(OLLAMA_FLAVOR, body)["messages"] == [expected]


def test_an_image_at_a_url_is_refused_for_ollama() -> None:
    body = user([WORDS, THERE])
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        near = provider_entry(OLLAMA_FLAVOR, local)
        with pytest.raises(BadRequest, match="not fetched"):
            run_answers(provider_settings(near), body)
        (both,) = run_answers(
            provider_settings(near, provider_entry("openai", remote, **REMOTE)), body
        )

    assert local.requests == []
    assert both.content == "Remote [a.md]."


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_provider_without_streaming_answers_a_stream_in_one_event(flavor: str) -> None:
    one = {"properties": {"supported_response_mode": ["sync"]}}
    with run_gateways(flavor) as (server,):
        events: list[Event] = []
        run_events(provider_settings(provider_entry(flavor, server, **one)), HELLO, events)

    assert not server.requests[0].body.get("stream")
    _, delta, end = events
    assert isinstance(delta, Delta)
    assert delta.content.endswith(" [a.md].")
    assert isinstance(end, Done)


def test_reasoning_extends_the_time_limits_and_writes_no_empty_line() -> None:
    async def while_it_thinks(_: Exchange) -> None:
        await asyncio.sleep(0.5)

    thought = ollama_line(**message(thinking="Hm. "))
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        steps = [step for _ in range(4) for step in (thought, while_it_thinks)]
        server.plan = [
            ollama_stream(*steps, ollama_line(**message("Hi")), ollama_line(**LAST_LINE))
        ]
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, server),
            MODEL_FIRST_TOKEN_SECONDS="1.5",
            MODEL_GAP_SECONDS="1.5",
        )
        (got,) = run_calls(settings, call("/chat/stream", QUESTION))

    texts = [each["delta"].get("content") for each in got.lines]
    assert texts == [None, "Hi", None]


# Parts of calls without an index: of each its id, its name, a piece of its arguments.
PARTS: list[Any] = [
    pytest.param([("a", "f", "{"), ("b", "g", "["), ("a", "", "}"), ("b", "", "]")], id="by id"),
    pytest.param([("a", "f", "{"), ("a", "f", "}"), ("b", "g", "[]")], id="id and name each time"),
    pytest.param([("a", "", ""), ("", "f", "{}"), ("b", "", ""), ("", "g", "[]")], id="id, name"),
    pytest.param([("a", "f", "{"), ("", "", "}"), ("b", "g", "["), ("", "", "]")], id="in order"),
]


@pytest.mark.parametrize("parts", PARTS)
def test_parts_of_tool_calls_without_an_index_are_assigned_to_their_call(parts: list[Any]) -> None:
    def delta(identity: str, name: str, arguments: str) -> bytes:
        function = {"name": name, "arguments": arguments}
        return sse_event(chunk(delta={"tool_calls": [{"id": identity, "function": function}]}))

    with run_gateways("openai") as (server,):
        events = [delta(*part) for part in parts]
        server.plan = [stream_response([*events, sse_event(chunk(finish_reason="tool_calls"))])]
        (got,) = run_answers(provider_settings(provider_entry("openai", server)), HELLO)

    assert [(each.id, each.name, each.arguments) for each in got.tool_calls] == [
        ("a", "f", "{}"),
        ("b", "g", "[]"),
    ]


def test_an_answer_without_streaming_may_lack_a_finish_reason() -> None:
    one = {"properties": {"supported_response_mode": ["sync"]}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}}
    with run_gateways("openai") as (server,):
        server.plan = [json_response({"choices": [choice]}), json_response({"choices": []})]
        settings = provider_settings(provider_entry("openai", server, **one))
        (got,) = run_answers(settings, HELLO)
        with pytest.raises(Unavailable):
            run_answers(settings, HELLO)

    assert got.content == "Hi"


def test_a_finish_by_content_filter_is_an_error() -> None:
    with run_gateways("openai") as (server,):
        server.plan = [
            stream_response(
                [sse_event(chunk("Hi")), sse_event(chunk(finish_reason="content_filter"))]
            )
        ]
        events: list[Event] = []
        with pytest.raises(ContentFiltered):
            run_events(provider_settings(provider_entry("openai", server)), HELLO, events)

    _, delta = events
    assert isinstance(delta, Delta)
    assert delta.content == "Hi"


def test_whole_tool_calls_in_several_events_stay_separate() -> None:
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("a", "b")
    ]
    with run_gateways(AOG_FLAVOR) as (server,):
        parts = [aog_event(**message(tool_calls=[call])) for call in calls]
        server.plan = [
            stream_response([*parts, aog_event(finished=True, finish_reason="tool_calls")])
        ]
        (got,) = run_answers(provider_settings(provider_entry(AOG_FLAVOR, server)), HELLO)

    assert got.tool_calls == (ToolCall(0, "a", "a", "{}"), ToolCall(1, "b", "b", "{}"))


def test_a_tool_call_without_arguments_has_empty_arguments() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (ollama, openai):
        empty = {"function": {"name": "a", "arguments": {}}}
        ollama.plan = [
            ollama_stream(ollama_line(**message(tool_calls=[empty])), ollama_line(**LAST_LINE))
        ]
        (got,) = run_answers(provider_settings(provider_entry(OLLAMA_FLAVOR, ollama)), HELLO)
        bare = {"id": "1", "type": "function", "function": {"name": "a"}}
        body = {
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "tool_calls": [bare]},
            ]
        }
        run_answers(
            provider_settings(provider_entry("openai", openai)), {**body, "retrieval": False}
        )

    assert got.tool_calls[0].arguments == "{}"
    assert openai.requests[0].body["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_images_are_not_sent_to_a_model_without_vision() -> None:
    with run_gateways("openai") as (server,):
        settings = {
            **FAKE_SEARCH,
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_CHAT_MODEL": "llama3",
        }
        body = user([WORDS, BYTES], images=[PNG])
        run_answers(settings, body)

    assert server.requests[0].body["messages"] == [{"role": "user", "content": "What is it?"}]


def test_extra_body_is_merged_recursively() -> None:
    body = {"options": {"seed": 1, "stop": ["a"]}, "model": "m"}

    assert merge_json(body, {"options": {"seed": 2, "num_ctx": 8}, "x": {"y": 1}}) == {
        "options": {"seed": 2, "stop": ["a"], "num_ctx": 8},
        "model": "m",
        "x": {"y": 1},
    }
    assert merge_json(body, {"model": None, "options": {"seed": None}}) == {
        "options": {"stop": ["a"]}
    }
    assert body == {"options": {"seed": 1, "stop": ["a"]}, "model": "m"}


def test_a_message_of_the_app_has_the_form_of_each_flavor() -> None:
    body = {"messages": [{"role": "user", "content": "What is in Plus?"}]}
    for flavor in FLAVORS:
        ours, theirs = sent_messages(flavor, body)

        assert (ours["role"], theirs) == ("system", body["messages"][0])


def test_max_tokens_is_the_lower_limit_of_deployment_and_client() -> None:
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        settings = provider_settings(provider_entry(OLLAMA_FLAVOR, server), MAX_ANSWER_TOKENS="50")
        run_answers(settings, *({**HELLO, "max_tokens": most} for most in (20, 80)), HELLO)

    assert [each.body["options"]["num_predict"] for each in server.requests] == [20, 50, 50]


def test_a_reasoning_model_gets_no_sampling_parameters() -> None:
    body = {**HELLO, "temperature": 1, "top_p": 0.5, "stop": "x", "max_tokens": 20}
    got = send("openai", body, models=["o3-mini"])
    other = send(RESPONSES_FLAVOR, body, models=["o3-mini"])

    assert got["max_completion_tokens"] == other["max_output_tokens"] == 20
    assert not {"temperature", "top_p", "stop", "max_tokens"} & (got.keys() | other.keys())


def test_the_fake_ollama_refuses_what_ollama_refuses() -> None:
    assert "arguments" in str(undecodable_field({"messages": SHIRT_CONVERSATION}))
    assert undecodable_field({"messages": [{"role": "user", "content": ["x"]}]}) == "content"
    assert undecodable_field({"messages": [], "options": {"stop": "x"}}) == "options.stop"
    assert undecodable_field(send(OLLAMA_FLAVOR, {"messages": SHIRT_CONVERSATION})) is None


@pytest.mark.parametrize(
    "body", [{"messages": SHIRT_CONVERSATION}, *(form.values[0] for form in FORMS)]
)
def test_ollama_s_client_accepts_the_requests(body: Any) -> None:
    options = {"keep_alive": "5m", "seed": 1, "stop": "x", "max_tokens": 9, "tools": [WEATHER]}
    got = send(OLLAMA_FLAVOR, {**body, **options})
    for each in got["messages"]:  # its own name for base64
        if "images" in each:
            each["images"] = [ollama.Image(value=image) for image in each["images"]]
    request = ChatRequest.model_validate(got)
    messages = [ollama.Message.model_validate(each) for each in got["messages"]]

    assert (request.keep_alive, request.options) == ("5m", got["options"])
    assert [tool.function.name for tool in request.tools or () if tool.function] == [
        "get_current_weather"
    ]
    assert [each.content for each in messages] == [each.get("content") for each in got["messages"]]


def test_ollama_s_client_reads_the_fake_ollama() -> None:
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        client = ollama.Client(host=server.url, trust_env=False)
        body: Any = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
        whole = client.chat(**body)
        streamed = list(client.chat(**body, stream=True))
        server.plan = [json_response({"error": "model 'x' not found"}, 404)]
        with pytest.raises(ollama.ResponseError, match="not found"):
            client.chat(**body)
        client._client.close()

    assert whole.message.content == "Local [a.md]."
    assert "".join(each.message.content or "" for each in streamed) == "Local [a.md]."
    assert (streamed[-1].done, streamed[-1].eval_count) == (True, 298)
