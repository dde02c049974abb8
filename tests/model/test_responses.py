"""OpenAI's client of the Responses API, over a real model."""

from __future__ import annotations

from typing import Any

import openai

from tests.support.model.app import QUESTION

STATUSES = ("completed", "incomplete")


def test_whole_response(sdk: openai.OpenAI) -> None:
    response = sdk.responses.create(model="local", input=QUESTION)

    assert response.output_text
    assert response.status in STATUSES
    assert response.usage and 0 < response.usage.output_tokens <= 24


def test_streamed_response(sdk: openai.OpenAI) -> None:
    events: list[Any] = list(sdk.responses.create(model="local", input=QUESTION, stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")

    assert events[-1].type in tuple(f"response.{status}" for status in STATUSES)
    assert events[-1].response.output_text == text != ""
