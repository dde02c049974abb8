"""OpenAI's client, over a real model."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.support.model.app import QUESTION

# A pixel.
IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH"
    "/iZk9HQAAAABJRU5ErkJggg=="
)
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
COST: dict[str, Any] = {
    "type": "object",
    "properties": {"cost": {"type": "integer"}},
    "required": ["cost"],
    "additionalProperties": False,
}


def test_whole_completion(sdk: openai.OpenAI) -> None:
    completion = sdk.chat.completions.create(model="local", messages=MESSAGES)
    (choice,) = completion.choices

    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert completion.usage and 0 < completion.usage.completion_tokens <= 24


def test_streamed_completion(sdk: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    *chunks, last = sdk.chat.completions.create(
        model="local", messages=MESSAGES, stream=True, stream_options=options
    )

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")
    assert last.usage and 0 < last.usage.completion_tokens <= 24


@pytest.mark.parametrize("choice", ["required", "none"])
def test_tools(sdk: openai.OpenAI, choice: Any) -> None:
    function = {"name": "get_cost", "parameters": COST}
    tools: Any = [{"type": "function", "function": function}]
    completion = sdk.chat.completions.create(
        model="local", messages=MESSAGES, tools=tools, tool_choice=choice, max_tokens=200
    )
    (answer,) = completion.choices

    if choice == "none" or answer.finish_reason == "length":
        assert not answer.message.tool_calls
    else:
        (call,) = answer.message.tool_calls or []
        assert call.type == "function"
        assert call.function.name == "get_cost"
        assert isinstance(json.loads(call.function.arguments)["cost"], int)
        assert answer.finish_reason == "tool_calls"


def test_json_schema(sdk: openai.OpenAI) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "cost", "schema": COST}}
    completion = sdk.chat.completions.create(
        model="local", messages=MESSAGES, response_format=form, max_tokens=200
    )
    (answer,) = completion.choices

    assert (answer.message.content or "").startswith("{")
    if answer.finish_reason == "stop":
        assert isinstance(json.loads(answer.message.content or "")["cost"], int)


def test_image_for_a_model_without_vision(sdk: openai.OpenAI) -> None:
    content = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": IMAGE}},
    ]
    messages: Any = [{"role": "user", "content": content}]
    create = sdk.chat.completions.with_raw_response.create
    raw = create(model="local", messages=messages)

    assert "The images were left out" in raw.headers["x-chat-notice"]
    assert raw.parse().choices[0].message.content
