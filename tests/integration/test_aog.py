"""The document's statements about AOG v0.2, one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.domain.events import Delta, Done
from shared.domain.messages import ToolCall
from shared.http.auth import AccessPolicy
from shared.protocols.aog.response import PAUSE, pace
from shared.protocols.exchange import App
from shared.settings import SettingsError, read_settings
from tests.support.aog_calls import aog_call, read_text
from tests.support.calls import (
    ANNA,
    JSON,
    PNG,
    PNG_URL,
    WEATHER,
    BufferedReply,
    ask,
    call,
    read_events,
    run_calls,
)
from tests.support.fakes import FakeModel, FakeRetriever, make_rag
from tests.support.flavors.aog import AOG_FLAVOR
from tests.support.flavors.ollama import OLLAMA_FLAVOR
from tests.support.model_requests import SHIRT_CONVERSATION
from tests.support.providers import REMOTE, provider_entry, provider_settings, run_gateways
from tests.support.servers import SAMPLES

HELLO = {"messages": [{"role": "user", "content": "Hello."}]}


@dataclass
class FakeApp:
    """The app over fakes, called as an AOG client does."""

    model: FakeModel = field(default_factory=FakeModel)
    search: FakeRetriever = field(default_factory=FakeRetriever)

    def __call__(self, body: Any = HELLO, path: str = "chat", **more: Any) -> BufferedReply:
        return ask(aog_call(body, path=path, **more), App(make_rag(self.model, self.search)))

    def send(self, *messages: Any, **more: Any) -> BufferedReply:
        return self({"messages": list(messages), **more})


@dataclass(frozen=True)
class Statement:
    """One statement of the document, and what shows that it holds."""

    number: int
    sentence: str
    holds: Callable[[], None]


STATEMENTS: list[Statement] = []


def statement(number: int, sentence: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """A row of the table."""

    def row(holds: Callable[[], None]) -> Callable[[], None]:
        STATEMENTS.append(Statement(number, sentence, holds))
        return holds

    return row


def assert_error(got: BufferedReply, code: int, status: int, *words: str) -> None:
    """Assert that a reply is an error in AOG's format, with these words in its message."""
    assert (got.status, got.json["business_code"]) == (status, code)
    assert got.json.keys() == {"business_code", "message"}
    assert all(word in got.json["message"] for word in words)


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


@statement(1, "The endpoint of the chat service is POST .../aog/v0.2/services/chat")
def endpoint() -> None:
    got = FakeApp()()

    assert got.status == 200
    assert got.json["message"] == {
        "role": "assistant",
        "content": "Dental care [plans/plus.pdf#page=2].",
    }
    assert ask(aog_call(b"", method="GET"), App(make_rag())).status == 405
    assert_error(ask(aog_call(b"", method="PUT"), App(make_rag())), 40005, 405, "POST")


@statement(2, "Every service has a unique name, which forms its endpoint")
def unknown_service() -> None:
    for name in ("embed", "Chat", "chat2", "<script>", ""):
        assert_error(FakeApp()(path=name), 10011, 404, "service")


@statement(3, "The major version is a part of the URL")
def version() -> None:
    for path in ("v0.1/services/chat", "v1.0/services/chat", "services/chat", ""):
        got = ask(call("/aog/{*path}", HELLO, path=path), App(make_rag()))

        assert_error(got, 404, 404, "/aog/v0.2/services/chat")


@statement(4, "AOG requires JSON in requests and answers")
def json_only() -> None:
    assert FakeApp()(headers={"content-type": "application/json; charset=utf-8"}).status == 200
    for kind in ({}, {"content-type": "text/plain"}, {"content-type": "multipart/form-data"}):
        assert_error(FakeApp()(headers=kind), 40004, 415, "application/json")
    assert_error(FakeApp()(b'{"messages": ['), 40003, 400, "JSON")
    assert_error(FakeApp()([]), 40003, 400, "object")


@statement(5, "The Authorization header is not always required")
def no_authorization() -> None:
    assert FakeApp()(headers=JSON).status == 200


@statement(6, "A service has hybrid_policy, local_service_providers, remote_service_providers")
def service_fields() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local),
            provider_entry("openai", remote, **REMOTE),
            HYBRID_POLICY="always_remote",
        )
        (got,) = run_calls(settings, call("/aog/v0.2/service", b"", method="GET"))

    assert got.json["business_code"] == 10000
    assert got.json["data"] == [
        {
            "service_name": "chat",
            "hybrid_policy": "always_remote",
            "local_service_providers": "ollama",
            "remote_service_providers": "openai",
        }
    ]


@statement(7, "A provider has a unique ID, by which a service refers to it")
def unique_names() -> None:
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        with pytest.raises(SettingsError) as wrong:
            read_settings(
                provider_settings(
                    provider_entry(OLLAMA_FLAVOR, server), provider_entry(OLLAMA_FLAVOR, server)
                )
            )
        (service, providers) = run_calls(
            provider_settings(provider_entry(OLLAMA_FLAVOR, server)),
            call("/aog/v0.2/service", b"", method="GET"),
            call("/aog/v0.2/service_provider", b"", method="GET"),
        )

    assert wrong.value.problems == ("MODEL_PROVIDERS has two providers of the name ollama",)
    (named,) = [one["provider_name"] for one in providers.json["data"]]
    assert service.json["data"][0]["local_service_providers"] == named
    assert service.json["data"][0]["remote_service_providers"] == ""


FIELDS = {
    "provider_name": "deepseek",
    "service_name": "chat",
    "service_source": "remote",
    "desc": "A model far away.",
    "method": "POST",
    "url": "https://api.example.com/v1/chat/completions",
    "flavor": "openai",
    "properties": {"max_input_tokens": 2048, "supported_response_mode": ["stream", "sync"]},
    "auth_type": "apikey",
    "auth_key": {"apikey": "${FAR_KEY}"},
    "extra_headers": {"X-Team": "blue", "Authorization": "Bearer ${FAR_KEY}"},
    "extra_json_body": {"user": "app"},
    "status": 1,
}


@statement(8, "The fields that most providers have")
def thirteen_fields() -> None:
    (got,) = run_calls(
        provider_settings(FIELDS, FAR_KEY="s3cret"),
        call("/aog/v0.2/service_provider", b"", method="GET"),
    )

    (one,) = got.json["data"]
    assert got.json["business_code"] == 20000
    assert one == {
        **{key: value for key, value in FIELDS.items() if key != "auth_key"},
        "extra_headers": {"X-Team": "***", "Authorization": "***"},
        "models": [],
        "allow_to_select_model": True,
    }


@statement(9, "Default is local; default is none; default is 0")
def provider_defaults() -> None:
    bare = {
        "provider_name": "bare",
        "url": "http://localhost:1/v1/chat/completions",
        "flavor": "openai",
    }
    (got,) = run_calls(
        provider_settings(bare, CHAT_MODEL="demo"),
        call("/aog/v0.2/service_provider", b"", method="GET"),
    )

    one = got.json["data"][1]
    defaults = (one["service_source"], one["auth_type"], one["status"])
    assert defaults == ("local", "none", 0)


@statement(10, "remote or local; none or apikey or token; 0 or 1; stream, sync")
def enumerations() -> None:
    for name, value in {
        "service_source": "cloud",
        "auth_type": "basic",
        "status": 2,
        "flavor": "openai2",
        "method": "GET",
        "properties": {"supported_response_mode": ["stream", "batch"]},
        "service_name": "embed",
    }.items():
        with pytest.raises(SettingsError) as wrong:
            read_settings(provider_settings(FIELDS | {name: value}, FAR_KEY="k"))

        (problem,) = wrong.value.problems
        assert problem.startswith(f"MODEL_PROVIDERS[0] (deepseek).{name}")
    with pytest.raises(SettingsError, match=r"\(deepseek\): auth_type token .* no header"):
        read_settings(
            provider_settings(FIELDS | {"auth_type": "token", "auth_key": {"ak": "a", "sk": "b"}})
        )


@statement(11, "The properties of a service: the longest context, whether it streams")
def properties() -> None:
    turns = [user("word " * 30), {"role": "assistant", "content": "said " * 30}]
    body = {"messages": [*turns * 10, user("Last?")], "retrieval": False}
    with run_gateways(AOG_FLAVOR, AOG_FLAVOR) as (small, large):
        narrow = {"properties": {"max_input_tokens": 300, "supported_response_mode": ["sync"]}}
        settings = provider_settings(
            provider_entry(AOG_FLAVOR, small, **narrow),
            provider_entry(AOG_FLAVOR, large, provider_name="far", **REMOTE),
        )
        whole, streamed, far = run_calls(
            settings,
            aog_call(body),
            aog_call({**body, "stream": True}),
            aog_call({**body, "hybrid_policy": "always_remote"}),
        )

    assert read_text(whole) == read_text(streamed) == read_text(far) == "Gateway [a.md]."
    assert all(request.body["stream"] is False for request in small.requests)
    assert all(1 < len(request.body["messages"]) < 21 for request in small.requests)
    assert len(large.requests[0].body["messages"]) == 21
    (one,) = read_events(streamed)
    assert (one["finished"], one["finish_reason"]) == (True, "stop")


@statement(12, "auth_key: none {}, apikey {apikey}, token {ak, sk}; a string")
def auth_keys() -> None:
    with run_gateways("openai", "openai", "openai") as servers:
        plain, keyed, string = servers
        settings = provider_settings(
            provider_entry("openai", plain, provider_name="none", auth_type="none", auth_key="{}"),
            provider_entry(
                "openai",
                keyed,
                provider_name="object",
                auth_type="apikey",
                auth_key={"apikey": "${A_KEY}"},
                **REMOTE,
            ),
            provider_entry(
                "openai",
                string,
                provider_name="string",
                auth_type="apikey",
                auth_key='{"apikey": "${B_KEY}"}',
                **REMOTE,
            ),
            A_KEY="k-a",
            B_KEY="k-b",
        )
        far = {**HELLO, "hybrid_policy": "always_remote"}
        run_calls(
            settings,
            aog_call({**HELLO, "hybrid_policy": "always_local"}),
            aog_call(far),
            aog_call({**far, "remote_service_provider": "string"}),
        )

    headers = [server.requests[-1].headers.get("authorization") for server in servers]
    assert headers == [None, "Bearer k-a", "Bearer k-b"]
    with pytest.raises(SettingsError, match="no secret stands in the list"):
        read_settings(provider_settings(FIELDS | {"auth_key": {"apikey": "sk-in-the-clear"}}))
    with pytest.raises(SettingsError, match="variable FAR_KEY is not set"):
        read_settings(provider_settings(FIELDS))


@statement(13, "What else is needed in the header of the request, about authorization, say")
def extra_headers() -> None:
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        headers = {"X-Team": "blue", "api-key": "${OTHER}"}
        run_calls(
            provider_settings(
                provider_entry(OLLAMA_FLAVOR, server, extra_headers=headers), OTHER="k3y"
            ),
            aog_call(HELLO),
        )

    assert server.requests[0].headers["x-team"] == "blue"
    assert server.requests[0].headers["api-key"] == "k3y"


@statement(14, "What else is to be added to the body of the request")
def extra_json_body() -> None:
    with run_gateways(OLLAMA_FLAVOR) as (server,):
        more = {"options": {"num_ctx": 8192}, "think": False}
        run_calls(
            provider_settings(provider_entry(OLLAMA_FLAVOR, server, extra_json_body=more)),
            aog_call(HELLO),
        )

    body = server.requests[0].body
    assert body["think"] is False
    assert body["options"] == {"temperature": 0.3, "num_ctx": 8192}


@statement(15, "flavor: the API that a provider has, for the conversion")
def flavors() -> None:
    with run_gateways("openai", OLLAMA_FLAVOR, AOG_FLAVOR) as servers:
        for flavor, server in zip(("openai", "ollama", "aog"), servers, strict=True):
            whole, streamed = run_calls(
                provider_settings(provider_entry(flavor, server)),
                aog_call(HELLO),
                aog_call({**HELLO, "stream": True}),
            )

            assert read_text(whole) == read_text(streamed)
            assert whole.json["finish_reason"] == "stop"
    openai, ollama, aog = (server.requests[0].body.keys() for server in servers)
    assert "stream_options" in openai
    assert "options" in ollama
    assert not {"options", "stream_options"} & aog


@statement(16, "status: 0 is not available, 1 is available")
def status() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (down, up):
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, down, status=0), provider_entry("openai", up, **REMOTE)
        )
        got, local = run_calls(
            settings, aog_call(HELLO), aog_call({**HELLO, "hybrid_policy": "always_local"})
        )

    assert read_text(got) == "Remote [a.md]."
    assert_error(local, 40001, 404, "local")
    assert down.requests == []


def prompt_text(app: FakeApp) -> str:
    """Return the text of the last message that the model got."""
    return app.model.calls[-1].messages[-1].content


@statement(17, "Text content can be a string")
def string() -> None:
    app = FakeApp()

    assert app.send(user("a plan string content")).status == 200
    assert prompt_text(app) == "a plan string content"


@statement(18, "Or an object of a type: text")
def text_object() -> None:
    app = FakeApp()

    assert app.send(user({"type": "text", "text": "the text content here"})).status == 200
    assert prompt_text(app) == "the text content here"
    assert_error(app.send(user({"type": "text"})), 40003, 400, "messages[0].content.text")
    assert_error(app.send(user({"text": "x"})), 40003, 400, "messages[0].content.type")


@statement(19, "It can have more information: a value, and annotations")
def annotated() -> None:
    app = FakeApp()
    content = {"type": "text", "text": {"value": "the text content", "annotations": ["tag1"]}}

    assert app.send(user(content)).status == 200
    assert prompt_text(app) == "the text content"


def images(app: FakeApp) -> tuple[str, ...]:
    return app.model.calls[-1].messages[-1].images


@statement(20, "Images can be strings in base64, such as the two in `images`")
def base64_images() -> None:
    app = FakeApp(FakeModel(max_prompt_tokens=5000))
    other = "YAAADBPx+VAA"

    assert app.send(user("What is it?", images=[PNG, other])).status == 200
    assert images(app) == (PNG_URL, f"data:application/octet-stream;base64,{other}")
    assert_error(app.send(user("?", images=["no base64!"])), 40003, 400, "messages[0].images[0]")


@statement(21, "Or an object with a URL")
def image_url() -> None:
    app = FakeApp(FakeModel(max_prompt_tokens=5000))
    part = {"type": "image_url", "image_url": {"url": "http://a.com/b.jpg"}}

    assert app.send(user(["What is it?", part])).status == 200
    assert images(app) == ("http://a.com/b.jpg",)
    for url in ("file:///etc/passwd", "javascript:alert(1)", "https://[::1]/a.png", 7, None):
        wrong = {"type": "image_url", "image_url": {"url": url}}
        assert_error(app.send(user(["?", wrong])), 40003, 400, "messages[0].content[1].image_url")


@statement(22, "Or an object with a string in base64")
def image_object() -> None:
    app = FakeApp(FakeModel(max_prompt_tokens=5000))

    assert app.send(user(["What is it?", {"type": "image", "image": PNG}])).status == 200
    assert images(app) == (PNG_URL,)


@statement(23, "OpenAI also has image_file, which is on the roadmap of AOG")
def image_file() -> None:
    part = {"type": "image_file", "image_file": {"file_id": "f"}}

    assert_error(
        FakeApp().send(user(["?", part])), 40003, 400, "messages[0].content[1]", "image_file"
    )
    assert_error(FakeApp().send(user(part)), 40003, 400, "image_file")


@statement(24, "Array content is a list of what is defined above")
def array() -> None:
    app = FakeApp(FakeModel(max_prompt_tokens=5000))
    parts = [
        "one",
        {"type": "text", "text": "two"},
        {"type": "text", "text": {"value": "three", "annotations": []}},
        {"type": "image", "image": PNG},
    ]

    assert app.send(user(parts)).status == 200
    assert (prompt_text(app), images(app)) == ("one\ntwo\nthree", (PNG_URL,))
    assert_error(app.send(user([])), 40003, 400, "messages[0].content")
    assert_error(app.send(user([["nested"]])), 40003, 400, "messages[0].content[0]")


@statement(25, "Only messages of system, user, assistant and tool")
def roles() -> None:
    for role in ("developer", "function", "User", 1, None):
        wrong = {"role": role, "content": "x"}
        assert_error(FakeApp().send(wrong, user("y")), 40003, 400, "messages[0].role")
    assert FakeApp()({"messages": SHIRT_CONVERSATION}).status == 200


@statement(26, "content: required")
def content_required() -> None:
    for message in (
        {"role": "user"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "tool_calls": []},
        {"role": "system"},
        {"role": "tool", "tool_call_id": "1"},
    ):
        assert_error(FakeApp().send(message, user("x")), 40003, 400, "messages[0].content")
    assert FakeApp().send(SHIRT_CONVERSATION[4], user("x")).status == 200
    assert_error(FakeApp().send(user(" ")), 40003, 400, "messages", "user")
    assert_error(FakeApp().send({"role": "system", "content": "x"}), 40003, 400, "messages", "user")


@statement(27, "tool_call_id: required if the role is tool")
def tool_call_id() -> None:
    wrong = {"role": "tool", "content": "x", "name": "search"}
    app = FakeApp()

    assert_error(app.send(user("y"), wrong), 40003, 400, "messages[1].tool_call_id")
    assert app.send(user("y"), SHIRT_CONVERSATION[4], wrong | {"tool_call_id": "1"}).status == 200
    assert app.model.calls[-1].messages[-1].raw == wrong | {"tool_call_id": "1"}


@statement(28, "An example of messages")
def seven_messages() -> None:
    app = FakeApp()

    assert app({"messages": SHIRT_CONVERSATION}).status == 200
    ours, *theirs = app.model.calls[-1].messages
    assert [message.raw for message in theirs] == SHIRT_CONVERSATION
    assert ours.role == "system"
    assert ours.content.startswith("Answer.\n\nSources:\nplans/plus.pdf#page=2: ")
    assert app.search.calls[0][1] == "dental care in Health Plus"  # the rewritten question


@statement(29, "This describes a function that there is, for the model")
def tool_description() -> None:
    app = FakeApp()

    assert app({**HELLO, "tools": [WEATHER]}).status == 200
    assert app.model.calls[-1].tools == (WEATHER,)
    for wrong in (
        {"type": "other", "function": {"name": "f"}},
        {"type": "function"},
        {"type": "function", "function": {}},
        {"type": "function", "function": {"name": "f", "parameters": "x"}},
    ):
        assert_error(app({**HELLO, "tools": [wrong]}), 40003, 400, "tools[0]")


@statement(30, "This describes a request to call a function; the model may not make valid JSON")
def tool_call() -> None:
    begin = ToolCall(0, "call_1", "search", "{'query'")
    app = FakeApp(
        FakeModel(
            [Delta("", (begin,)), Delta("", (ToolCall(0, arguments=":"),)), Done("tool_calls")]
        )
    )
    called = {"name": "search", "arguments": "{'query':"}

    whole = app({**HELLO, "tools": [WEATHER]}).json
    assert whole["message"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": called}
    ]
    assert whole["finish_reason"] == "tool_calls"
    parts = [
        part
        for each in read_events(app({**HELLO, "stream": True}))
        for part in each["message"].get("tool_calls", ())
    ]
    assert parts == [
        {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": "search", "arguments": "{'query'"},
        },
        {"index": 0, "function": {"arguments": ":"}},
    ]


@statement(31, "Must be given, but for a field that has a default")
def missing_fields() -> None:
    assert_error(FakeApp()({}), 40003, 400, "messages: is required")
    assert_error(FakeApp()({"messages": []}), 40003, 400, "messages")
    assert_error(FakeApp()({"messages": None}), 40003, 400, "messages")


@statement(32, "The provider gets the required fields and uses them")
def required_reach() -> None:
    with run_gateways(AOG_FLAVOR) as (server,):
        run_calls(
            provider_settings(provider_entry(AOG_FLAVOR, server)),
            aog_call({"messages": SHIRT_CONVERSATION, "retrieval": False}),
        )

    body = server.requests[0].body
    assert body["messages"] == SHIRT_CONVERSATION
    assert body["stream"] is True  # it can, and what it says is folded


@statement(33, "Only the fields that the provider supports are passed on; others are ignored")
def optional_removed() -> None:
    optional = {
        "seed": 7,
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 20,
        "stop": "END",
        "keep_alive": "10m",
        "unheard_of": 1,
    }
    bodies = {}
    with run_gateways("openai", OLLAMA_FLAVOR, AOG_FLAVOR) as servers:
        for flavor, server in zip(("openai", "ollama", "aog"), servers, strict=True):
            (got,) = run_calls(
                provider_settings(provider_entry(flavor, server)),
                aog_call({**HELLO, **optional, "retrieval": False}),
            )

            assert got.status == 200
            bodies[flavor] = {
                key: value
                for key, value in server.requests[0].body.items()
                if key not in ("messages", "model", "stream", "stream_options")
            }
    sampling = {"seed": 7, "temperature": 0, "top_p": 0.5, "max_tokens": 20, "stop": "END"}
    assert bodies["openai"] == sampling
    assert bodies["ollama"] == {
        "options": {
            "seed": 7,
            "temperature": 0,
            "top_p": 0.5,
            "num_predict": 20,
            "stop": ["END"],
        },
        "keep_alive": "10m",
    }
    assert bodies["aog"] == {**sampling, "keep_alive": "10m", "unheard_of": 1, "retrieval": False}


@statement(34, "Required fields of an answer are always there")
def required_answered() -> None:
    app = FakeApp(FakeModel([Done()]))
    for got in ([app().json], read_events(app({**HELLO, "stream": True}))):
        for each in got:
            assert each["message"].keys() == {"role", "content"}
            assert isinstance(each["finished"], bool)
            assert {"id", "model", "created_at"} <= each.keys()
            assert each["created_at"].endswith("Z")
        assert [each["finished"] for each in got] == [False] * (len(got) - 1) + [True]
        assert [("finish_reason" in each) for each in got] == [each["finished"] for each in got]


@statement(35, "Optional fields of an answer are there only if the provider gave them")
def optional_answered() -> None:
    got = FakeApp()({**HELLO, "retrieval": False}).json

    assert got.keys() == {"id", "model", "created_at", "message", "finished", "finish_reason"}


@statement(36, "Fields that AOG does not define and that the provider returns are kept")
def added_fields() -> None:
    thinking = {"reasoning_content": "Hm"}
    app = FakeApp(
        FakeModel(
            [
                Delta("", (), {"new_field": {"a": [1]}}, thinking),
                Delta("Yes", (), {}, {"reasoning_content": "m."}),
                Done(extra={"usage": {"total_tokens": 9}, "finished": "no"}),
            ]
        )
    )
    whole = app().json
    streamed = read_events(app({**HELLO, "stream": True}))

    assert whole["new_field"] == streamed[0]["new_field"] == {"a": [1]}
    assert whole["message"]["reasoning_content"] == "Hmm."
    assert streamed[0]["message"]["reasoning_content"] == "Hm"
    assert whole["usage"] == streamed[-1]["usage"] == {"total_tokens": 9}
    assert whole["finished"] is streamed[-1]["finished"] is True


@statement(
    37, "model: a string or an object; the default without one; ignored where none is chosen"
)
def models() -> None:
    with run_gateways(OLLAMA_FLAVOR, AOG_FLAVOR) as (local, fixed):
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local, models=["small", "large"]),
            provider_entry(AOG_FLAVOR, fixed, allow_to_select_model=False, **REMOTE),
        )
        far = {**HELLO, "hybrid_policy": "always_remote"}
        near = {**HELLO, "hybrid_policy": "always_local"}
        calls = [
            {**near, "model": "large"},
            {**near, "model": {"chat": "large", "embed": "e"}},
            {**near, "model": {"embed": "e"}},
            near,
            {**near, "model": "unknown"},
            {**far, "model": "unknown"},
            {**near, "model": 7},
        ]
        got = run_calls(settings, *(aog_call(body) for body in calls))

    assert [request.body["model"] for request in local.requests] == [
        "large",
        "large",
        "small",
        "small",
    ]
    assert fixed.requests[0].body["model"] == "m"
    assert_error(got[4], 30003, 404, "unknown")
    assert got[5].status == 200
    assert_error(got[6], 40003, 400, "model")


@statement(38, "stream: true or false, default is false")
def stream_default() -> None:
    assert FakeApp()().media_type == "application/json"
    assert FakeApp()({**HELLO, "stream": None}).media_type == "application/json"
    assert FakeApp()({**HELLO, "stream": True}).media_type == "text/event-stream"
    assert_error(FakeApp()({**HELLO, "stream": "yes"}), 40003, 400, "stream")


@statement(39, "hybrid_policy: if it is not given, the service's")
def policy_default() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        both = provider_entry(OLLAMA_FLAVOR, local), provider_entry("openai", remote, **REMOTE)
        for policy, expected in {
            "always_remote": "Remote [a.md].",
            "always_local": "Local [a.md].",
            "default": "Local [a.md].",
            "": "Local [a.md].",
        }.items():
            (got,) = run_calls(provider_settings(*both, HYBRID_POLICY=policy), aog_call(HELLO))

            assert read_text(got) == expected


@statement(40, "always_remote, always_local, default")
def policies() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        both = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local), provider_entry("openai", remote, **REMOTE)
        )
        values = ["always_remote", "always_local", "default", None]
        got = run_calls(both, *(aog_call({**HELLO, "hybrid_policy": each}) for each in values))

    assert [read_text(each).partition(" ")[0] for each in got] == [
        "Remote",
        "Local",
        "Local",
        "Local",
    ]
    wrong: list[Any] = ["sometimes", "", 7, True, [], {}]
    for each in wrong:
        assert_error(FakeApp()({**HELLO, "hybrid_policy": each}), 10016, 400, "hybrid_policy")


@statement(
    41, "remote_service_provider: a provider's ID or an object, used when AOG chooses remote"
)
def remote_provider() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai", AOG_FLAVOR) as (local, first, second):
        settings = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local),
            provider_entry("openai", first, **REMOTE),
            provider_entry(AOG_FLAVOR, second, **REMOTE),
        )
        far = {**HELLO, "hybrid_policy": "always_remote"}
        named, default, near, unknown, local_one, wrong, inline = run_calls(
            settings,
            aog_call({**far, "remote_service_provider": "aog"}),
            aog_call(far),
            aog_call({**HELLO, "remote_service_provider": "nobody"}),
            aog_call({**far, "remote_service_provider": "nobody"}),
            aog_call({**far, "remote_service_provider": "ollama"}),
            aog_call({**far, "remote_service_provider": 7}),
            aog_call({**HELLO, "remote_service_provider": {"url": "nonsense"}}),
        )

    assert [read_text(each) for each in (named, default, near, inline)] == [
        "Gateway [a.md].",
        "Remote [a.md].",
        "Local [a.md].",
        "Local [a.md].",
    ]
    assert_error(unknown, 40010, 404, "nobody")
    assert_error(local_one, 40010, 404, "ollama")
    assert_error(wrong, 40003, 400, "remote_service_provider")


@statement(42, "keep_alive: a hint for how long a local model stays in memory")
def keep_alive() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        both = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local), provider_entry("openai", remote, **REMOTE)
        )
        for value in ("5m", 300, -1, 0):
            far = {"hybrid_policy": "always_remote"}
            body = {**HELLO, "keep_alive": value}
            run_calls(both, aog_call(body), aog_call(body | far))

            assert local.requests[-1].body["keep_alive"] == value
            assert "keep_alive" not in remote.requests[-1].body
    assert_error(FakeApp()({**HELLO, "keep_alive": True}), 40003, 400, "keep_alive")


@statement(43, "model: the model that was really called")
def model_used() -> None:
    with run_gateways(OLLAMA_FLAVOR, "openai") as (local, remote):
        both = provider_settings(
            provider_entry(OLLAMA_FLAVOR, local), provider_entry("openai", remote, **REMOTE)
        )
        near, far = run_calls(
            both, aog_call(HELLO), aog_call({**HELLO, "hybrid_policy": "always_remote"})
        )

        (streamed,) = run_calls(both, aog_call({**HELLO, "stream": True}))

    assert (near.json["model"], far.json["model"]) == ("qwen3:8b", "gpt-4o-2024-11-20")
    assert {each["model"] for each in read_events(streamed)} == {"qwen3:8b"}


@pytest.mark.parametrize(
    "row", STATEMENTS, ids=[f"{row.number}: {row.sentence}" for row in STATEMENTS]
)
def test_statement_of_the_specification(row: Statement) -> None:
    row.holds()


def test_restricted_passages_need_sign_in() -> None:
    search = FakeRetriever()
    service = App(make_rag(FakeModel(), search), AccessPolicy(sign_in=True, single_user=False))

    assert ask(aog_call(HELLO, headers=ANNA), service).status == 200
    (search_call,) = search.calls
    assert (search_call[0].oid, search_call[2].use_oid_security_filter) == ("anna", True)


HUGE = 300_000
ODD: list[tuple[Any, str]] = [
    ({"tool_calls": [1] * HUGE}, "messages[0].tool_calls[0]"),
    ({"images": [1] * HUGE}, "messages[0].images[0]"),
    ({"content": [{"type": "image", "image": PNG, "text": {}}]}, ""),
    ({"content": [{"type": "image_url", "image_url": {"url": PNG_URL}, "text": {"a": 1}}]}, ""),
]


@pytest.mark.parametrize(("message", "named"), ODD)
def test_unusual_message_is_accepted_or_rejected_in_one_sentence(message: Any, named: str) -> None:
    got = FakeApp().send(user("x") | message, user("Hello."))

    assert got.status == (400 if named else 200)
    assert len(got.json.get("message", "")) < 300
    assert named in str(got.json.get("message"))


def test_non_json_numbers_are_rejected() -> None:
    for more in (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": "BIG"}}}]},
        {"unheard_of": ["BIG"]},
        {"remote_service_provider": {"extra_json_body": {"x": "BIG"}}},
        {"messages": [user("x") | {"unheard_of": "BIG"}]},
    ):
        raw = json.dumps({**HELLO, **more}).replace('"BIG"', "1e400").encode()
        assert_error(FakeApp()(raw), 40003, 400, "out of range")


def test_opensearch_prompt_with_brackets_is_answered_by_the_demo_model() -> None:
    service = build(read_settings(SAMPLES))
    for words in ("ANSWER:", "QUESTION: x", "SEARCH RESULT 1: x"):
        assert ask(aog_call({"messages": [user(words)]}), service).status == 200


def test_more_than_16_stop_texts_are_rejected() -> None:
    assert FakeApp()({**HELLO, "stop": ["x"] * 16}).status == 200
    assert_error(FakeApp()({**HELLO, "stop": ["x"] * 17}), 40003, 400, "stop")


def test_events_are_paced() -> None:
    times: list[float] = []

    async def lines() -> Any:
        for _ in range(5):
            yield b"x"

    async def go() -> None:
        async for _ in pace(lines(), 0.05):
            times.append(asyncio.get_running_loop().time())

    asyncio.run(go())

    assert PAUSE >= 0.002
    assert all(after - before >= 0.049 for before, after in pairwise(times))


def test_events_of_a_stream_are_paced() -> None:
    model = FakeModel((*[Delta("a")] * 20, Done("stop")))
    times: list[float] = []

    async def go() -> None:
        reply = await handle_call(App(make_rag(model)), aog_call({**HELLO, "stream": True}))
        assert reply.rest is not None
        async for _ in reply.rest:
            times.append(asyncio.get_running_loop().time())

    asyncio.run(go())

    assert len(times) == 20
    assert all(after - before >= PAUSE * 0.9 for before, after in pairwise(times))


def test_stream_is_server_sent_events_for_any_accept_header() -> None:
    headers = {**JSON, "accept": "application/jsonl"}

    assert FakeApp()({**HELLO, "stream": True}, headers=headers).media_type == "text/event-stream"


@pytest.mark.part("aog-models", "ollama-models", "providers")
def test_every_statement_has_a_row() -> None:
    assert [row.number for row in STATEMENTS] == list(range(1, 44))
