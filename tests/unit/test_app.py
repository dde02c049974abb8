"""Everything that can go wrong with one request, times where it goes wrong and how it is asked."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from shared.app import ROUTES, handle_call
from shared.bootstrap.build import build, start
from shared.domain import errors
from shared.domain.events import Delta, Done, Usage
from shared.http.call import DISCONNECT_POLL_SECONDS, Limits
from shared.models.base import Prompt
from shared.models.router import Provider, Router
from shared.protocols.exchange import App
from shared.settings import read_settings
from tests.support.calls import JSON, QUESTION, BufferedReply, ask, call, read
from tests.support.fakes import PLUS, FakeModel, FakeRetriever, ScriptStep, make_rag

WITH_HISTORY = {"messages": [*QUESTION["messages"], *QUESTION["messages"]]}
INPUT = {"messages": None, "input": WITH_HISTORY["messages"]}
WAYS = [
    pytest.param("/chat", {}, id="001"),
    pytest.param("/chat/stream", {}, id="001 streaming"),
    pytest.param("/chat", {"session_state": 1}, id="000"),
    pytest.param("/chat/stream", {"session_state": 1}, id="000 streaming"),
    pytest.param("/chat", {"stream": False}, id="004"),
    pytest.param("/chat", {"stream": True}, id="004 streaming"),
    pytest.param("/chat", INPUT, id="input"),
    pytest.param("/chat/stream", INPUT, id="input streaming"),
    pytest.param("/chat", {**INPUT, "stream": True}, id="input, stream in the body"),
    pytest.param("/ask", {}, id="ask"),
    pytest.param("/ask", {"stream": True}, id="ask streaming"),
]
PLACES = [
    pytest.param(where, *way.values, id=f"{way.id}: {where}")
    for where in ("search", "rewrite", "model")
    for way in WAYS
    if where != "rewrite" or way.values[0] != "/ask"  # which has no history to rewrite with
]
FAILURES: list[tuple[Exception, int, str | None, str]] = [
    (errors.ContentFiltered(), 400, None, errors.FILTERED_MESSAGE),
    (errors.TooLong(), 400, None, errors.TooLong.default),
    (errors.Unauthorized(), 401, None, errors.Unauthorized.default),
    (errors.TooManyRequests(), 429, "1", errors.TooManyRequests.default),
    (errors.TooManyRequests(retry_after=6.2), 429, "7", errors.TooManyRequests.default),
    (errors.TooManyRequests(retry_after=-3), 429, "1", errors.TooManyRequests.default),
    (errors.Unavailable(), 503, "1", errors.Unavailable.default),
    (errors.Misconfigured(), 503, None, errors.Misconfigured.default),
    (errors.DeadlineExceeded(), 504, None, errors.DeadlineExceeded.default),
    (RuntimeError("a secret of the inside"), 500, None, errors.UNEXPECTED_MESSAGE),
    (KeyError("a secret of the inside"), 500, None, errors.UNEXPECTED_MESSAGE),
]


def streams(route: str, keys: dict[str, Any]) -> bool:
    return route == "/chat/stream" or bool(keys.get("stream"))


@pytest.mark.parametrize(("failure", "status", "retry_after", "sentence"), FAILURES, ids=repr)
@pytest.mark.parametrize(("where", "route", "keys"), PLACES)
def test_a_failure_before_the_answer_has_its_real_status(
    where: str,
    route: str,
    keys: dict[str, Any],
    failure: Exception,
    status: int,
    retry_after: str | None,
    sentence: str,
) -> None:
    # A model that fails a rewrite alone costs no answer.
    model = FakeModel([failure] if where != "search" else (), query=failure)
    search = FakeRetriever(error=failure if where == "search" else None)
    body = (WITH_HISTORY if where == "rewrite" else QUESTION) | keys
    got = ask(call(route, body), App(make_rag(model, search)))

    assert (got.status, got.media_type, got.json) == (
        status,
        "application/json",
        {"error": sentence},
    )
    assert got.headers.get("Retry-After") == retry_after
    assert got.headers["x-request-id"] == "call-1"
    assert model.open_streams == 0


@pytest.mark.parametrize(("failure", "status", "retry_after", "sentence"), FAILURES, ids=repr)
@pytest.mark.parametrize(("route", "keys"), WAYS)
def test_a_failure_in_mid_answer_is_the_last_line_of_a_stream_and_a_status_without_one(
    route: str,
    keys: dict[str, Any],
    failure: Exception,
    status: int,
    retry_after: str | None,
    sentence: str,
) -> None:
    model = FakeModel([Delta("Some "), failure])
    got = ask(call(route, QUESTION | keys), App(make_rag(model)))

    assert model.open_streams == 0
    if streams(route, keys):
        assert got.status == 200
        assert len(got.lines) == 3
        assert got.lines[-1] == {"error": sentence}
    else:
        assert (got.status, got.json) == (status, {"error": sentence})
        assert got.headers.get("Retry-After") == retry_after


SCRIPTS: list[tuple[Sequence[ScriptStep], str, int]] = [
    ((Delta("x"), Done("content_filter")), errors.FILTERED_MESSAGE, 400),
    ((Delta("x"),), "The model's answer broke off. Ask again.", 503),
    ((), "The model's answer broke off. Ask again.", 503),
]


@pytest.mark.parametrize(("script", "sentence", "status"), SCRIPTS)
@pytest.mark.parametrize(("route", "keys"), WAYS)
def test_an_answer_that_the_model_does_not_end_rightly_is_a_failure(
    route: str, keys: dict[str, Any], script: Sequence[ScriptStep], sentence: str, status: int
) -> None:
    got = ask(call(route, QUESTION | keys), App(make_rag(FakeModel(script))))

    assert got.status == (200 if streams(route, keys) else status)
    assert (got.lines[-1] if streams(route, keys) else got.json) == {"error": sentence}


def test_length_is_how_an_answer_may_end() -> None:
    service = App(make_rag(FakeModel((Delta("x"), Done("length")))))

    assert ask(call("/chat"), service).json["context"]["finish_reason"] == "length"
    assert ask(call("/ask"), service).json["choices"][0]["finish_reason"] == "length"
    assert ask(call("/chat/stream"), service).lines[-1]["context"] == {"finish_reason": "length"}


def test_what_only_some_models_say_is_passed_on_in_the_oldest_envelope() -> None:
    done = Done("stop", None, Usage(1, 2), "gpt-x", "fp_1", {"hate": {}}, [{"prompt_index": 0}])
    service = App(make_rag(FakeModel((Delta("x"), done))))
    whole = ask(call("/ask"), service).json
    last = ask(call("/ask", {**QUESTION, "stream": True}), service).lines[-1]

    for envelope in (whole, last):
        assert envelope["system_fingerprint"] == "fp_1"
        assert envelope["prompt_filter_results"] == [{"prompt_index": 0}]
        assert envelope["choices"][0]["content_filter_results"] == {"hate": {}}
        assert envelope["model"] == "gpt-x"
        assert envelope["usage"]["total_tokens"] == 3


def test_the_model_is_asked_once_and_nothing_is_rewritten_without_history() -> None:
    model, search = FakeModel(), FakeRetriever()
    ask(call("/chat"), App(make_rag(model, search)))

    assert [prompt.task for prompt in model.calls] == ["answer"]
    assert [query for _, query, _ in search.calls] == ["What is in Plus?"]


@pytest.mark.parametrize("bad", ["", "0", "  ", '"0"', "x" * 1001])
def test_a_rewrite_that_cannot_be_used_leaves_the_question_as_it_is(bad: str) -> None:
    search = FakeRetriever()
    ask(call("/chat", WITH_HISTORY), App(make_rag(FakeModel(query=bad), search)))

    assert [query for _, query, _ in search.calls] == ["What is in Plus?"]


class Rewriting(FakeModel):
    """A rewrite plays a script too."""

    def __init__(self, script: Sequence[ScriptStep]) -> None:
        super().__init__()
        self.rewrite = script

    def open(self, prompt: Prompt) -> Any:
        script = self.rewrite if prompt.task == "rewrite" else self.script
        return FakeModel(script).open(replace(prompt, task="answer"))


def without_rewrite(why: str) -> str:
    return f"The question was searched for as it was asked: the model could not rewrite it ({why})."


def notes(got: BufferedReply) -> list[str]:
    """What was used instead, as the first line of a stream or a whole answer tells."""
    first = got.json if got.media_type == "application/json" else got.lines[0]
    context = first["context"] if "context" in first else first["choices"][0]["context"]
    return [note for step in context["thoughts"][4:] for note in step["description"]]


@pytest.mark.parametrize(
    "failure", [it for it, *_ in FAILURES if isinstance(it, errors.ChatError)], ids=repr
)
@pytest.mark.parametrize(("route", "keys"), WAYS[:-2])
def test_a_rewrite_that_fails_costs_no_answer(
    route: str, keys: dict[str, Any], failure: Exception
) -> None:
    model, search = FakeModel(query=failure), FakeRetriever()
    got = ask(call(route, WITH_HISTORY | keys), App(make_rag(model, search)))
    bare = ask(call(route, WITH_HISTORY | keys), App(make_rag(FakeModel(query="0"))))

    assert got.status == 200
    assert [query for _, query, _ in search.calls] == ["What is in Plus?"]
    assert notes(got) == [without_rewrite(type(failure).__name__)]
    assert notes(bare) == []
    if streams(route, keys):
        assert undated(got.lines[1:]) == undated(bare.lines[1:])
    else:
        assert message(got) == message(bare)
    assert [prompt.task for prompt in model.calls] == ["rewrite", "answer"]


def undated(lines: list[Any]) -> list[Any]:
    """Lines without `created`: two answers may begin in different seconds."""
    return [{key: value for key, value in line.items() if key != "created"} for line in lines]


def message(got: BufferedReply) -> Any:
    body = got.json
    return body.get("output_text") or body.get("message") or body["choices"][0]["message"]


def test_a_rewrite_that_the_filter_or_a_break_stopped_costs_no_answer() -> None:
    flagged = App(make_rag(Rewriting([Delta("half"), Done("content_filter")])))
    broken = App(make_rag(Rewriting([Delta("half")])))

    assert notes(ask(call("/chat", WITH_HISTORY), flagged)) == [without_rewrite("ContentFiltered")]
    assert notes(ask(call("/chat", WITH_HISTORY), broken)) == [without_rewrite("Unavailable")]


def test_a_rewrite_that_does_not_end_leaves_time_for_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, search = FakeModel(query=asyncio.Event()), FakeRetriever()
    rag = replace(make_rag(model, search), rewrite_seconds=0.05)
    got = ask(call("/chat", WITH_HISTORY), App(rag))

    assert got.status == 200
    assert [query for _, query, _ in search.calls] == ["What is in Plus?"]
    assert notes(got) == [without_rewrite("DeadlineExceeded")]
    assert "rewrite DeadlineExceeded: no search query in time\n" in caplog.text
    assert model.open_streams == 0


def test_a_local_model_that_does_not_rewrite_in_time_is_not_asked_for_the_answer() -> None:
    local, remote = FakeModel([asyncio.Event()], query=asyncio.Event()), FakeModel()
    providers = [
        Provider("local", "local", lambda _: local, ("m",)),
        Provider("remote", "remote", lambda _: remote, ("m",)),
    ]
    rag = replace(make_rag(), models=Router(providers, seconds=60), rewrite_seconds=0.05)
    got = ask(call("/chat", WITH_HISTORY), App(rag))

    assert got.status == 200
    assert [prompt.task for prompt in local.calls] == ["rewrite"]
    assert [prompt.task for prompt in remote.calls] == ["answer"]
    assert notes(got) == [
        "remote was asked instead of local (DeadlineExceeded).",
        without_rewrite("DeadlineExceeded"),
    ]


def test_a_long_question_without_a_history_is_not_reported_as_not_rewritten() -> None:
    content = f"What is in Plus? {'x' * 40_000}"  # its tokens are counted in a thread
    rag = replace(make_rag(), rewrite_seconds=0)
    got = ask(call("/chat", {"messages": [{"role": "user", "content": content}]}), App(rag))

    assert got.status == 200
    assert notes(got) == []


def test_a_rewrite_has_a_quarter_of_the_time_for_an_answer() -> None:
    service = build(read_settings({"INDEX_FILE": "samples", "ANSWER_TIMEOUT_SECONDS": "60"}))

    assert service.rag is not None
    assert service.rag.rewrite_seconds == 15


def test_why_a_rewrite_failed_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    failure = errors.Unavailable("words", cause="m: connection refused: http://localhost:11434")
    ask(call("/chat", WITH_HISTORY), App(make_rag(FakeModel(query=failure))))

    assert f"request id=call-1 rewrite Unavailable: {failure.cause}\n" in caplog.text


def test_a_question_that_is_too_long_is_refused_before_a_rewrite() -> None:
    model = FakeModel(max_prompt_tokens=3)
    got = ask(call("/chat", WITH_HISTORY), App(make_rag(model)))

    assert got.status == 400
    assert "The question is too long for the model, which takes 3 tokens" in got.json["error"]
    assert model.calls == []


def test_a_rewrite_that_was_cut_leaves_the_question_as_it_is() -> None:
    search = FakeRetriever()
    model = Rewriting([Delta("half"), Done("length")])
    ask(call("/chat", WITH_HISTORY), App(make_rag(model, search)))

    assert [query for _, query, _ in search.calls] == ["What is in Plus?"]


def test_rewrite_and_answer_both_see_the_history() -> None:
    model = FakeModel()
    ask(call("/chat", WITH_HISTORY), App(make_rag(model)))

    assert [prompt.task for prompt in model.calls] == ["rewrite", "answer"]
    assert all(prompt.messages[1].content == "What is in Plus?" for prompt in model.calls)


def overriding(**overrides: Any) -> dict[str, Any]:
    return {**QUESTION, "context": {"overrides": overrides}}


def chat(body: dict[str, Any], client_prompts: bool = False) -> tuple[Prompt, BufferedReply]:
    model = FakeModel()
    got = ask(call("/chat", body), App(make_rag(model, client_prompts=client_prompts)))
    return model.calls[-1], got


def test_overrides_reach_search_and_model_and_zero_is_a_value() -> None:
    search = FakeRetriever()
    ask(call("/chat", overriding(top=7, include_category="x")), App(make_rag(None, search)))
    _, _, overrides = search.calls[0]

    assert (overrides.top, overrides.include_category) == (7, "x")
    assert chat(overriding(temperature=0, seed=0))[0].temperature == 0
    assert chat(overriding(temperature=0, seed=0))[0].seed == 0
    assert chat(QUESTION)[0].temperature == 0.3


def test_a_prompt_template_acts_only_where_it_is_allowed_and_a_thought_says_so() -> None:
    replaced, _ = chat(overriding(prompt_template="Be a pirate."), client_prompts=True)
    appended, _ = chat(overriding(prompt_template=">>>Be a pirate."), client_prompts=True)
    refused, got = chat(overriding(prompt_template="Be a pirate."))
    note = got.json["context"]["thoughts"][4]

    assert replaced.messages[0].content == "Be a pirate."
    assert appended.messages[0].content == "Answer.\nBe a pirate."
    assert refused.messages[0].content == "Answer."
    assert note["title"] == "What was used instead"
    assert "prompt_template was left out" in note["description"][0]


def test_a_system_message_is_added_to_the_instructions_where_it_is_allowed() -> None:
    messages = [{"role": "system", "content": "Be brief."}, *QUESTION["messages"]]
    prompt, got = chat({"messages": messages}, client_prompts=True)

    assert got.status == 200
    assert prompt.messages[0].content == "Answer.\nBe brief."
    assert [message.role for message in prompt.messages] == ["system", "user"]


def test_captions_stand_for_the_content() -> None:

    search = FakeRetriever([replace(PLUS, captions=("dental care", "crowns"))])
    got = ask(call("/chat", overriding(semantic_captions=True)), App(make_rag(None, search)))
    line = "plans/plus.pdf#page=2: dental care . crowns"

    assert got.json["context"]["data_points"]["text"] == [line]
    assert line in got.json["context"]["thoughts"][3]["description"][1]


def test_an_empty_system_message_is_no_prompt() -> None:
    for content in ("", None, "  "):
        messages = [{"role": "system", "content": content}, *QUESTION["messages"]]

        assert chat({"messages": messages})[1].status == 200


def test_a_character_that_the_model_cut_in_two_does_not_break_the_answer() -> None:
    service = App(make_rag(FakeModel((Delta("a \ud83d"), Delta("\ude00"), Done()))))

    assert len(ask(call("/chat/stream"), service).lines) == 4
    assert ask(call("/chat"), service).status == 200


def test_answers_are_kept_by_no_cache() -> None:
    assert ask(call("/chat")).headers["Cache-Control"] == "no-store"
    assert ask(call("/chat/stream")).headers["Cache-Control"] == "no-store"


def test_a_time_limit_that_is_not_ours_is_not_told_as_ours() -> None:
    got = ask(call("/chat"), App(make_rag(FakeModel([Delta("x"), TimeoutError("inside")]))))

    assert (got.status, got.json) == (500, {"error": errors.UNEXPECTED_MESSAGE})


def test_a_source_cited_by_two_passages_is_listed_once() -> None:
    got = ask(call("/chat"), App(make_rag(None, FakeRetriever([PLUS, PLUS]))))

    assert got.json["context"]["data_points"]["citations"] == ["plans/plus.pdf#page=2"]
    assert len(got.json["context"]["data_points"]["text"]) == 2


@pytest.mark.parametrize(
    "route",
    [
        path
        for path, route in ROUTES.items()
        if route.methods == ("POST",) and path.startswith(("/chat", "/ask"))
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD"])
def test_a_wrong_method_is_a_405_that_shows_the_right_call(route: str, method: str) -> None:

    got = ask(replace(call(route), method=method))

    assert (got.status, got.headers["Allow"]) == (405, "POST")
    assert got.data == b"" if method == "HEAD" else f"Send POST {route} with" in got.json["error"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=UTF-8", 200),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("application/jsonl", 415),
        ("", 415),
        ("nonsense", 415),
    ],
)
def test_only_json_and_forms_are_read(kind: str, status: int) -> None:
    got = ask(call("/chat", headers={"content-type": kind}))

    assert got.status == status
    assert "error" in got.json or status == 200


def test_a_body_may_be_compressed() -> None:
    zipped = gzip.compress(json.dumps(QUESTION).encode())
    got = ask(call("/chat", zipped, {**JSON, "content-encoding": "gzip"}))

    assert got.json["message"]["content"] == "Dental care [plans/plus.pdf#page=2]."


def test_a_body_encoded_otherwise_is_a_415() -> None:
    got = ask(call("/chat", headers={**JSON, "content-encoding": "br"}))

    assert got.status == 415
    assert got.json == {"error": "Send the body as UTF-8, plain or with gzip."}


def test_a_body_over_its_limit_is_refused_while_it_is_read() -> None:
    served: list[int] = []

    async def endless() -> Any:
        while True:
            served.append(1)
            yield b" " * 1000

    service = App(make_rag(), limits=Limits(json_bytes=4500))
    got = ask(replace(call("/chat"), body=endless()), service)

    assert (got.status, len(served)) == (413, 5)
    assert got.json == {"error": "The request is larger than the limit of 4500 bytes."}


def test_a_body_that_does_not_arrive_is_a_408() -> None:
    async def stalled() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    service = App(make_rag(), limits=Limits(body_seconds=0.05))

    assert ask(replace(call("/chat"), body=stalled()), service).status == 408


@pytest.mark.parametrize(("route", "keys"), WAYS)
def test_our_own_time_limit_ends_an_answer_wherever_it_hangs(
    route: str, keys: dict[str, Any]
) -> None:
    model = FakeModel([asyncio.Event()])
    service = App(make_rag(model), limits=Limits(request_seconds=1))
    got = ask(call(route, QUESTION | keys), service)
    error = {"error": errors.DeadlineExceeded.default}

    assert model.open_streams == 0
    if streams(route, keys):  # the model has accepted: the context is out
        assert (got.status, len(got.lines), got.lines[-1]) == (200, 2, error)
    else:
        assert (got.status, got.json) == (504, error)


def leaves(after: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        return after()

    return gone


@pytest.mark.parametrize(("route", "keys"), WAYS)
def test_a_client_that_leaves_before_the_response_ends_the_work(
    route: str, keys: dict[str, Any]
) -> None:
    class Slow(FakeModel):
        def open(self, prompt: Prompt) -> Any:
            return held(self, prompt)

    entered = []

    @asynccontextmanager
    async def held(model: FakeModel, prompt: Prompt) -> Any:
        model.open_streams += 1
        entered.append(prompt)
        try:
            await asyncio.Event().wait()
            yield
        finally:
            model.open_streams -= 1

    model = Slow()
    request = call(route, QUESTION | keys, gone=leaves(lambda: True))
    got = ask(request, App(make_rag(model)))

    assert (got.status, got.data, len(entered), model.open_streams) == (499, b"", 1, 0)


def test_a_client_that_leaves_a_whole_answer_ends_the_work() -> None:
    model = FakeModel([Delta("x"), asyncio.Event()])
    request = call("/chat", gone=leaves(lambda: model.open_streams == 1))

    assert ask(request, App(make_rag(model))).status == 499
    assert model.open_streams == 0


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_a_stream_that_is_closed_early_closes_the_model_s(lines: int) -> None:
    model = FakeModel([Delta("x"), Delta("y"), asyncio.Event()])

    async def go() -> tuple[int, int]:
        reply = await handle_call(App(make_rag(model)), call("/chat/stream"))
        assert reply.rest is not None
        for _ in range(lines):
            await anext(reply.rest)
        before = model.open_streams
        await reply.rest.aclose()
        return before, model.open_streams

    assert asyncio.run(go()) == (1, 0)


def test_a_stream_that_is_cancelled_while_it_waits_closes_the_model_s() -> None:
    model = FakeModel([asyncio.Event()])

    async def go() -> tuple[int, int]:
        reply = await handle_call(App(make_rag(model)), call("/chat/stream"))
        reading = asyncio.create_task(read(reply))
        await asyncio.sleep(0.01)
        before = model.open_streams
        reading.cancel()
        await asyncio.wait({reading})
        return before, model.open_streams

    assert asyncio.run(go()) == (1, 0)


def test_the_first_line_goes_out_before_the_model_s_first_token() -> None:
    async def go() -> bytes:
        reply = await handle_call(App(make_rag(FakeModel([asyncio.Event()]))), call("/chat/stream"))
        assert reply.rest is not None
        await reply.rest.aclose()
        return reply.body

    assert b'"data_points"' in asyncio.run(go())


def test_wrong_settings_answer_every_route_and_health_names_them() -> None:
    service = start({"DEFAULT_TOP": "0", "CHAT_API_KEY": "k" * 20})

    for route in ROUTES.keys() & {"/v1/chat/completions", "/openai/v1/chat/completions"}:
        assert ask(call(route), service).status == 503, route
    for route in ("/chat", "/chat/stream", "/ask"):
        got = ask(call(route), service)
        assert (got.status, got.json) == (503, {"error": errors.Misconfigured.default})

    health = ask(replace(call("/health"), method="GET"), service)
    assert (health.status, health.json["settings"]) == (503, ["DEFAULT_TOP must be 1 or more"])


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "chat")
    return caplog


@pytest.mark.parametrize(("route", "keys"), WAYS)
def test_a_request_is_one_line_in_the_log_without_its_words(
    route: str, keys: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    ask(call(route, QUESTION | keys))

    assert len(log.messages) == 1
    assert "id=call-1" in log.text
    assert "hits=2 tokens=49 outcome=ok" in log.text
    assert "Plus" not in log.text


@pytest.mark.parametrize(("route", "keys"), WAYS)
def test_a_failure_is_logged_once_with_its_id_and_its_stack(
    route: str, keys: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    service = App(make_rag(FakeModel([Delta("x"), RuntimeError("inside")])))
    ask(call(route, QUESTION | keys), service)
    bug, line = log.records

    assert bug.getMessage().startswith("request id=call-1 failed: RuntimeError\n")
    assert "fakes.py" in bug.getMessage()
    assert "inside" not in log.text  # its message may hold what was asked
    assert line.getMessage().endswith("outcome=ChatError")


def test_what_is_behind_a_failure_is_logged_and_not_told(log: pytest.LogCaptureFixture) -> None:
    failure = errors.Misconfigured(cause="the role is missing")
    got = ask(call("/chat"), App(make_rag(FakeModel([failure]))))
    cause, line = log.records

    assert got.json == {"error": errors.Misconfigured.default}
    assert cause.getMessage() == "request id=call-1 Misconfigured: the role is missing"
    assert (cause.levelname, line.levelname) == ("WARNING", "WARNING")


def test_a_stream_that_its_client_leaves_is_logged_as_such(log: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        reply = await handle_call(App(make_rag()), call("/chat/stream"))
        assert reply.rest is not None
        await reply.rest.aclose()

    asyncio.run(go())

    assert [message[-19:] for message in log.messages] == ["outcome=client gone"]


@pytest.mark.parametrize(
    "route", sorted(ROUTES.keys() & {"/chat", "/v1/chat/completions", "/_search"})
)
def test_no_disconnect_is_looked_for_while_a_body_arrives(route: str) -> None:
    arriving = True

    async def is_disconnected() -> bool:
        assert not arriving, "the look could take a chunk from the body"
        return False

    async def body() -> AsyncIterator[bytes]:
        nonlocal arriving
        yield json.dumps(QUESTION).encode()
        await asyncio.sleep(1.5 * DISCONNECT_POLL_SECONDS)
        arriving = False

    got = ask(replace(call(route, gone=is_disconnected), body=body()))

    assert got.status in (200, 400)
