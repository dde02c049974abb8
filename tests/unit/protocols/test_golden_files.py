"""Each protocol to the letter: golden files, detection, content types, errors by their path."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from shared.app import ROUTES
from shared.bootstrap.build import build
from shared.protocols.ai_chat.routes import AiChatConfig
from shared.protocols.exchange import App
from shared.protocols.mcp.documents import McpConfig
from shared.settings import read_settings
from tests.support.calls import JSON, QUESTION, BufferedReply, ask, call, local_service
from tests.support.fakes import PLUS, FakeModel, FakeRetriever, make_rag
from tests.support.gateways import read_events
from tests.support.servers import COMMAND_MODEL, LAPTOP, ROOT, SAMPLES

GOLDEN = ROOT / "tests" / "support" / "golden"
CASES = [
    pytest.param(json.loads(line), id=f"{path.stem}: {json.loads(line)['name']}")
    for path in sorted(GOLDEN.glob("*.jsonl"))
    for line in path.read_text("utf-8").split("\n")
    if line and json.loads(line)["route"] in ROUTES  # a protocol can be deleted
]
ADDRESS = "https://app.example.com"  # the app's own
USER = {"role": "user", "content": "What is in Plus?"}
INPUT = {"messages": None, "input": USER["content"]}  # beside QUESTION


def without_time(value: Any) -> Any:
    """The time is the clock's: its form is checked, then it is set to the golden files' value."""
    if isinstance(value, dict) and isinstance(value.get("response"), dict):
        return {**value, "response": without_time(value["response"])}
    if isinstance(value, dict) and isinstance(value.get("created_at"), int):
        completed = 1706301587 if isinstance(value["completed_at"], int) else None
        return {**value, "created_at": 1706301586, "completed_at": completed}
    if isinstance(value, dict) and "created_at" in value:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value["created_at"])
        return {**value, "created_at": "2024-01-27T00:00:00Z"}
    if isinstance(value, dict) and "created" in value:
        assert isinstance(value["created"], int)
        return {**value, "created": 1706301586}
    return value


def answer_to(case: dict[str, Any], service: App | None = None) -> Any:
    """The answer to a golden file's request: JSON, or a list of it for a stream."""
    headers = JSON | case.get("headers", {})
    request = call(case["route"], case["request"], headers, path=case.get("path", ""))
    service = service or local_service(make_rag(), configs=(McpConfig(ADDRESS),))
    answers = AiChatConfig(case.get("chat_answers", "message"))
    got = ask(request, replace(service, configs=(*service.configs, answers)))

    assert got.status == case.get("status", 200)
    if case.get("done"):
        assert got.data.endswith(b"\n\ndata: [DONE]\n\n")
        got = replace(got, data=got.data.removesuffix(b"data: [DONE]\n\n"))
    if "answer" in case:
        return without_time(got.json)
    return [without_time(line) for line in (read_events(got) if "events" in case else got.lines)]


def golden_answer(case: dict[str, Any]) -> Any:
    """The answer in a golden file."""
    (key,) = case.keys() & {"answer", "lines", "events"}
    return case[key]


def without_thoughts(value: Any) -> Any:
    """The same JSON without any key `thoughts`."""
    if isinstance(value, list):
        return [without_thoughts(each) for each in value]
    if isinstance(value, dict):
        return {k: without_thoughts(each) for k, each in value.items() if k != "thoughts"}
    return value


@pytest.mark.parametrize("case", CASES)
def test_an_answer_is_what_the_golden_file_says(case: dict[str, Any]) -> None:
    assert answer_to(case) == golden_answer(case)


@pytest.mark.parametrize("case", CASES)
def test_thoughts_off_leaves_thoughts_out_of_every_protocol(case: dict[str, Any]) -> None:
    service = local_service(replace(make_rag(), thoughts=False), configs=(McpConfig(ADDRESS),))

    assert answer_to(case, service) == without_thoughts(golden_answer(case))


@pytest.mark.parametrize(("setting", "shown"), [("", True), ("on", True), ("off", False)])
def test_no_request_turns_thoughts_on_again(setting: str, shown: bool) -> None:
    service = build(read_settings({**LAPTOP, **SAMPLES, **COMMAND_MODEL, "THOUGHTS": setting}))
    body = {**QUESTION, "context": {"overrides": {"thoughts": True}}}

    assert ("thoughts" in ask(call("/chat", body), service).json["context"]) is shown


def test_thoughts_of_an_earlier_answer_are_no_override() -> None:
    earlier = ask(call("/ask")).json["choices"][0]["context"]
    body = {**QUESTION, "context": earlier}
    unset = {**QUESTION, "context": {**earlier, "thoughts": False}}
    wrong = {**QUESTION, "context": {**earlier, "overrides": {"thoughts": "no"}}}

    assert ask(call("/ask", body)).json["choices"][0]["context"]["thoughts"]
    assert ask(call("/ask", unset)).json["choices"][0]["context"]["thoughts"]
    message = "context.overrides.thoughts: must be true or false"
    assert ask(call("/ask", wrong)).json == {"error": message}


def text_of(value: dict[str, Any]) -> str:
    """The text of a line, or of a whole answer."""
    delta = value.get("delta", value.get("output_text")) or value.get("message", {})
    return str(delta if isinstance(delta, str) else delta.get("content", ""))


def folded(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A stream put together as a client would: texts joined, contexts merged."""
    whole: dict[str, Any] = {"text": "", "context": {}, "rest": {}}
    for line in lines:
        choice = line["choices"][0] if "choices" in line else line
        whole["text"] += text_of(choice)
        whole["context"] |= choice.get("context", {})
        states = {key: value for key, value in choice.items() if key.endswith(("State", "_state"))}
        whole["rest"] |= states
    return whole


KEYS = [{"sessionState": 1}, {"session_state": 1}, {"stream": True}, INPUT]


@pytest.mark.parametrize("keys", KEYS)
def test_images_are_among_the_data_points_only_when_they_were_used(keys: dict[str, Any]) -> None:
    def data_points(**overrides: Any) -> dict[str, Any]:
        retriever = FakeRetriever((replace(PLUS, image="data:image/png;base64,AA=="),))
        service = App(make_rag(FakeModel(max_prompt_tokens=9000), retriever))
        body = {**QUESTION, **keys, "context": {"overrides": overrides}}
        route = "/chat" if "stream" in keys else "/chat/stream"
        first = ask(call(route, body), service).lines[0]
        points: dict[str, Any] = folded([first])["context"]["data_points"]
        return points

    assert data_points(use_gpt4v=True)["images"] == [
        {"detail": "auto", "url": "data:image/png;base64,AA=="}
    ]
    assert "images" not in data_points()
    assert "images" not in data_points(use_gpt4v=True, gpt4v_input="text")


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("followups", [True, False])
def test_a_stream_folded_equals_the_answer(keys: dict[str, Any], followups: bool) -> None:
    context = {"overrides": {"suggest_followup_questions": followups}}
    body = {**QUESTION, **keys, "context": context}
    old = "stream" in keys
    stream = folded(ask(call("/chat" if old else "/chat/stream", body)).lines)
    whole = ask(call("/chat", {**body, "stream": False} if old else body)).json
    choice = whole["choices"][0] if old else whole

    assert stream["text"] == text_of(choice)
    assert stream["context"] == choice["context"]
    assert all(choice[key] == value for key, value in stream["rest"].items())
    assert stream["rest"]


@pytest.mark.parametrize(
    ("route", "keys", "kind"),
    [
        ("/chat/stream", {}, "application/jsonl"),
        ("/chat/stream", {"session_state": None}, "application/json-lines"),
        ("/chat/stream", {"session_state": None, "sessionState": None}, "application/jsonl"),
        ("/chat/stream", {"stream": "nonsense"}, "application/jsonl"),
        ("/chat/stream", INPUT, "application/x-ndjson"),
        ("/chat/stream", {**INPUT, "session_state": 1, "sessionState": 1}, "application/x-ndjson"),
        ("/chat/stream", {"input": "ignored"}, "application/jsonl"),
        ("/chat", {**INPUT, "stream": True}, "application/x-ndjson"),
        ("/chat", {**INPUT, "stream": False}, "application/json"),
        ("/chat", {"stream": True}, "application/json-lines"),
        ("/ask", {"stream": True}, "application/json-lines"),
        ("/chat", {}, "application/json"),
        ("/chat", {"stream": False}, "application/json"),
        ("/ask", {}, "application/json"),
    ],
)
def test_route_and_body_choose_the_content_type(
    route: str, keys: dict[str, Any], kind: str
) -> None:
    assert ask(call(route, QUESTION | keys)).media_type == kind


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/x-ndjson", "application/x-ndjson"),
        ("application/json-lines;q=0.9, */*", "application/json-lines"),
        ("text/html, Application/X-NDJSON", "application/x-ndjson"),
        ("application/json", "application/jsonl"),
        ("*/*", "application/jsonl"),
        ("application/x-ndjson;q=0, application/json-lines; q=0.5", "application/json-lines"),
    ],
)
def test_accept_names_the_content_type_of_a_stream_and_of_nothing_else(
    accept: str, kind: str
) -> None:
    headers = {**JSON, "accept": accept}
    stream = ask(call("/chat/stream", headers=headers))

    assert stream.media_type == kind
    assert stream.data == ask(call("/chat/stream")).data
    assert ask(call("/chat", headers=headers)).media_type == "application/json"


WRONG: list[tuple[Any, str]] = [
    (b"", "The body is not valid JSON (line 1 column 0)."),
    (b'{"messages": [', "The body is not valid JSON (line 1 column 14)."),
    (b'{"messages": NaN}', "The body is not valid JSON (line 1 column 14)."),
    (b"\xff\xfe{}", "The body is not valid JSON (line 1 column 1)."),
    (b'"\\ud800"', "The body is not valid JSON (line 1 column 8)."),
    ([], "The body must be a JSON object."),
    ("text", "The body must be a JSON object."),
    (None, "The body must be a JSON object."),
    ({}, "messages: is required"),
    ({"messages": None}, "messages: must be a list"),
    ({"messages": []}, "messages: must not be empty"),
    ({"messages": ["x"]}, "messages[0]: must be an object"),
    ({"messages": [{}]}, "messages[0].role: is required"),
    (
        {"messages": [{"role": "tool", "content": "x"}]},
        "messages[0].role: must be one of 'user', 'assistant' or 'system'",
    ),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content: must be a string"),
    ({"messages": [USER, {"role": "user"}]}, "messages[1].content: must not be empty"),
    ({"messages": [{"role": "user", "content": " \n"}]}, "messages[0].content: must not be empty"),
    (
        {"messages": [{"role": "assistant", "content": "x"}]},
        "messages[0].role: the last message must be the user's",
    ),
    ({"messages": [USER], "context": "x"}, "context: must be an object"),
    ({"messages": [USER], "context": {"overrides": []}}, "context.overrides: must be an object"),
]


@pytest.mark.parametrize(("body", "sentence"), WRONG, ids=str)
@pytest.mark.parametrize("route", ["/chat", "/chat/stream", "/ask"])
def test_a_wrong_body_is_a_400_that_names_what_is_wrong(
    route: str, body: Any, sentence: str
) -> None:
    got = ask(call(route, body))

    assert (got.status, got.media_type) == (400, "application/json")
    assert got.json == {"error": sentence}


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
WRONG_INPUT: list[tuple[Any, str]] = [
    ({"input": 3}, "input: must be a string, or a list of messages"),
    ({"input": " "}, "input: must not be empty"),
    ({"input": []}, "input: must not be empty"),
    ({"input": ["x"]}, "input[0]: must be an object"),
    ({"input": [{"content": "x"}]}, "input[0].role: is required"),
    ({"input": [USER, {"role": "user"}]}, "input[1].content: must not be empty"),
    (
        {"input": [{**USER, "role": "assistant"}]},
        "input[0].role: the last message must be the user's",
    ),
    ({"input": [{**USER, "type": "reasoning"}]}, "input[0].type: must be one of 'message'"),
    (
        {"input": [USER, {"role": "developer", "content": "x"}, USER]},
        "input[1].role: must be user or assistant in this deployment",
    ),
    (
        {"input": [{"role": "user", "content": 3}]},
        "input[0].content: must be a string, or a list of parts",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
        "input[0].content[0].type: must be one of 'input_text', 'output_text', 'text', 'refusal' "
        "or 'input_image'",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "x"}]}]},
        "input[0].content[0].image_url: is required",
    ),
    (
        {"input": [{"role": "assistant", "content": [IMAGE]}, USER]},
        "input[0].content: only a message of the user can have images",
    ),
    ({"input": [USER], "stream": "yes"}, "stream: must be true or false"),
    (
        {"input": [USER], "context": {"overrides": {"top": 0}}},
        "context.overrides.top: must be 1 or more",
    ),
    (b'{"input": "x", "session_state": 1e999}', "session_state: contains a number out of range"),
]


@pytest.mark.parametrize(("body", "sentence"), WRONG_INPUT, ids=str)
@pytest.mark.parametrize("route", ["/chat", "/chat/stream"])
def test_a_wrong_input_is_a_400_that_names_the_field_as_sent(
    route: str, body: Any, sentence: str
) -> None:
    got = ask(call(route, body))

    assert (got.status, got.json) == (400, {"error": sentence})


def test_a_question_about_the_users_images_reaches_the_model_with_them() -> None:
    text = {"type": "input_text", "text": "What is this?"}
    model = FakeModel(max_prompt_tokens=9000)
    ask(
        call("/chat", {"input": [{"role": "user", "content": [IMAGE, text]}]}),
        App(make_rag(model)),
    )

    assert model.calls[0].messages[-1].images == (IMAGE["image_url"],)


def test_an_image_whose_url_the_models_server_must_not_fetch_is_refused() -> None:
    image = {**IMAGE, "image_url": "http://169.254.169.254/metadata"}
    got = ask(call("/chat", {"input": [{"role": "user", "content": [image]}]}))

    assert got.status == 400
    assert got.json["error"].startswith("input[0].content[0].image_url: must name a public host")


@pytest.mark.parametrize(
    ("route", "body", "keys"),
    [
        ("/chat", {"sessionState": None}, {"message", "context", "sessionState"}),
        ("/chat", {"session_state": 1, "sessionState": 1}, {"message", "context", "sessionState"}),
        ("/chat", {"session_state": 1}, {"output_text", "context", "session_state"}),
    ],
)
def test_the_setting_changes_only_answers_to_bodies_with_session_state(
    route: str, body: dict[str, Any], keys: set[str]
) -> None:
    setting = {"CHAT_ANSWERS": "output_text"}
    service = build(read_settings({**LAPTOP, **SAMPLES, **COMMAND_MODEL, **setting}))

    assert ask(call(route, QUESTION | body), service).json.keys() == keys
    assert "choices" in ask(call("/chat", {**QUESTION, **body, "stream": False}), service).json
    assert "choices" in ask(call("/ask", QUESTION | body), service).json


STATES = [("/chat", "sessionState"), ("/chat", "session_state"), ("/ask", "session_state")]


@pytest.mark.parametrize(("route", "key"), STATES)
def test_a_state_that_json_cannot_say_again_is_refused(route: str, key: str) -> None:
    body = b'{"messages": [{"role": "user", "content": "x"}], "%s": [1e999]}' % key.encode()
    error = {"error": f"{key}: contains a number out of range"}

    assert ask(call(route, body)).json == error


def test_a_system_message_is_refused_by_its_place_where_client_prompts_are_not_allowed() -> None:
    messages = [USER, {"role": "assistant"}, {"role": "system", "content": "x"}, USER]
    got = ask(call("/chat", {"messages": messages}))
    error = {"error": "messages[2].role: must be user or assistant in this deployment"}

    assert (got.status, got.json) == (400, error)
    assert ask(call("/ask", {"messages": messages})).status == 200  # the last message only


VALUES: list[tuple[str, Any, str]] = [
    ("temperature", -0.1, "must be 0 or more"),
    ("temperature", 2.1, "must be 2 or less"),
    ("temperature", "1", "must be a number"),
    ("temperature", True, "must be a number"),
    ("seed", 1.5, "must be a whole number"),
    ("seed", 2**63, "must be less than 9223372036854775808"),
    ("top", 0, "must be 1 or more"),
    ("top", 51, "must be 50 or less"),
    ("top", "3", "must be a whole number"),
    ("top", True, "must be a whole number"),
    ("retrieval_mode", "Hybrid", "must be one of 'text', 'vectors' or 'hybrid'"),
    ("retrieval_mode", 3, "must be one of 'text', 'vectors' or 'hybrid'"),
    ("semantic_ranker", "true", "must be true or false"),
    ("semantic_captions", 1, "must be true or false"),
    ("suggest_followup_questions", 0, "must be true or false"),
    ("use_oid_security_filter", "x", "must be true or false"),
    ("use_oid_security_filter", True, "needs sign-in, which is off in this deployment"),
    ("use_groups_security_filter", [], "must be true or false"),
    ("use_groups_security_filter", True, "needs sign-in, which is off in this deployment"),
    ("vector_fields", "embedding", "must be a list"),
    ("use_gpt4v", 1.0, "must be true or false"),
    ("gpt4v_input", "image", "must be one of 'text', 'textAndImages' or 'images'"),
    ("minimum_search_score", "0", "must be a number"),
    ("minimum_reranker_score", {}, "must be a number"),
    ("include_category", 1, "must be a string"),
    ("exclude_category", ["x"], "must be a string"),
    ("prompt_template", False, "must be a string"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), VALUES, ids=str)
def test_a_wrong_override_is_named_by_the_path_that_the_client_used(
    name: str, value: Any, sentence: str
) -> None:
    nested: Any = {**QUESTION, "context": {"overrides": {name: value}}}
    flat: Any = {**QUESTION, "context": {name: value}}
    error = {"error": f"context.overrides.{name}: {sentence}"}

    assert ask(call("/chat", nested)).json == error
    assert ask(call("/chat/stream", {**nested, "session_state": 1})).json == error
    assert ask(call("/ask", nested)).json == error
    assert ask(call("/ask", flat)).json == {"error": f"context.{name}: {sentence}"}
    assert ask(call("/chat", flat)).status == 200  # an unknown key there


def test_a_part_of_an_override_is_named_too() -> None:
    wrong = {**QUESTION, "context": {"vector_fields": ["a", 1]}, "stream": True}

    assert ask(call("/chat", wrong)).json == {"error": "context.vector_fields[1]: must be a string"}


def test_several_wrong_keys_are_named_at_once() -> None:
    wrong = {**QUESTION, "context": {"overrides": {"top": 0, "seed": "x"}}}
    message = (
        "context.overrides.seed: must be a whole number; context.overrides.top: must be 1 or more"
    )

    assert ask(call("/chat", wrong)).json == {"error": message}


@pytest.mark.parametrize("value", ["true", 1, "", []])
def test_a_stream_key_that_is_no_boolean_is_a_400(value: Any) -> None:
    got = ask(call("/chat", {**QUESTION, "stream": value}))

    assert (got.status, got.json) == (400, {"error": "stream: must be true or false"})


def test_a_million_wrong_elements_are_refused_at_once() -> None:
    before = time.process_time()
    fields = (
        b'{"messages":[{"role":"user","content":"x"}],"context":{"overrides":{"vector_fields":['
    )
    wrong = [
        b'{"messages":[' + b"1," * 1_900_000 + b"1]}",
        b'{"messages":[' + b"{}," * 1_300_000 + b"{}]}",
        fields + b"1," * 1_900_000 + b"1]}}}",
    ]
    got = [ask(call("/chat", body)) for body in wrong]

    assert [answer.status for answer in got] == [400, 400, 400]
    assert got[0].json == {"error": "messages[0]: must be an object"}
    assert time.process_time() - before < 10  # all errors of each would take far longer


def test_an_unset_override_does_not_hide_the_one_straight_under_context() -> None:
    for unset in (None, ""):
        body = {**QUESTION, "context": {"top": "bad", "overrides": {"top": unset}}}

        assert ask(call("/ask", body)).json == {"error": "context.top: must be a whole number"}


def test_only_so_many_vector_fields_are_taken() -> None:
    body = {**QUESTION, "context": {"overrides": {"vector_fields": ["x"] * 21}}}
    message = "context.overrides.vector_fields: must have 20 entries at most"

    assert ask(call("/chat", body)).json == {"error": message}


EMPTY = ("prompt_template", "exclude_category", "use_gpt4v", "minimum_search_score")
UNSET = {
    **dict.fromkeys(("temperature", "top", "retrieval_mode", "include_category", "seed"), None),
    **dict.fromkeys(EMPTY, ""),
    "vector_fields": None,
}
USED = {"temperature": 0, "seed": 3.0, "top": 50.0, "vector_fields": ["a"], "gpt4v_input": "text"}


@pytest.mark.parametrize("overrides", [UNSET, USED])
def test_null_empty_and_whole_numbers_as_floats_are_right(overrides: dict[str, Any]) -> None:
    assert ask(call("/chat", {**QUESTION, "context": {"overrides": overrides}})).status == 200


def test_a_body_in_utf_8_with_a_byte_order_mark_is_read() -> None:
    assert ask(call("/chat", b"\xef\xbb\xbf" + json.dumps(QUESTION).encode())).status == 200


def test_a_body_may_be_cut_anywhere_on_its_way() -> None:
    body = json.dumps(
        {"messages": [{"role": "user", "content": "Zażółć 漢字 😀"}]}, ensure_ascii=False
    )
    data = body.encode()
    whole = ask(call("/chat", data)).json
    cuts = [ask(call("/chat", [data[:at], data[at:]])).json for at in range(1, len(data))]

    assert all(cut == whole for cut in cuts)
    assert "Zażółć 漢字 😀" in whole["context"]["thoughts"][0]["description"]


def test_no_line_but_an_error_has_an_error_key_and_no_delta_a_null() -> None:
    got = [ask(call("/chat/stream")), ask(call("/ask", {**QUESTION, "stream": True}))]
    newest = ask(call("/chat/stream", INPUT)).lines
    lines = [line for each in got for line in each.lines]
    deltas = [line["choices"][0]["delta"] if "choices" in line else line["delta"] for line in lines]

    assert not any("error" in line for line in [*lines, *newest])
    assert [key for line in newest for key in line if line[key] is None] == ["session_state"]
    assert not any(value is None for delta in deltas for value in delta.values())


def test_line_ends_that_only_some_readers_know_are_escaped() -> None:
    got: BufferedReply = ask(
        call("/chat/stream", {**QUESTION, "sessionState": "a\u2028b\u2029c\u0085d"})
    )

    assert len(got.data.decode().splitlines()) == len(got.lines)
    assert got.lines[0]["sessionState"] == "a\u2028b\u2029c\u0085d"
