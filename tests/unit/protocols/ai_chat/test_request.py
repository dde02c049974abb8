"""The versions of the AI Chat Protocol: what a request may be, and errors by their path."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from shared.protocols.exchange import App
from tests.support.calls import QUESTION, ask, call
from tests.support.fakes import FakeModel, make_rag

USER = {"role": "user", "content": "What is in Plus?"}


def test_thoughts_of_an_earlier_answer_are_no_override() -> None:
    earlier = ask(call("/ask")).json["choices"][0]["context"]
    body = {**QUESTION, "context": earlier}
    unset = {**QUESTION, "context": {**earlier, "thoughts": False}}
    wrong = {**QUESTION, "context": {**earlier, "overrides": {"thoughts": "no"}}}

    assert ask(call("/ask", body)).json["choices"][0]["context"]["thoughts"]
    assert ask(call("/ask", unset)).json["choices"][0]["context"]["thoughts"]
    message = "context.overrides.thoughts: must be true or false"
    assert ask(call("/ask", wrong)).json == {"error": message}


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
