"""Asks the models of a deployment without a protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from shared.bootstrap.build import build
from shared.domain.events import Answer, Event, collect
from shared.domain.messages import Message, ToolCall, iterate_parts, part_image_url, part_text
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest, GenerationOptions
from shared.rag.flow import answer
from shared.rag.passthrough import PASSTHROUGH
from shared.settings import read_settings
from tests.support.calls import close_models
from tests.support.servers import LAPTOP

SHIRT_CONVERSATION = [
    {
        "role": "system",
        "content": "You are a helpful assistant can do function call and your team is Tom",
    },
    {"role": "user", "content": "Hello. What's your name?"},
    {"role": "assistant", "content": "Hello. My name is Tom."},
    {"role": "user", "content": "I am looking for some shirts"},
    {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "call_BEGxtsoiM96M78Y97RFxPRYk",
                "type": "function",
                "function": {"name": "search", "arguments": "{'query':'shirts'}"},
            }
        ],
    },
    {
        "tool_call_id": "call_BEGxtsoiM96M78Y97RFxPRYk",
        "role": "tool",
        "name": "search",
        "content": "['shirt1', 'shirt2', 'shirt3']",
    },
    {
        "role": "assistant",
        "content": "I found some options for shirts:\n\n1. Shirt 1\n2. Shirt 2\n3. Shirt 3\n\n"
        "Would you like more details on any of these?",
    },
]

NO_PARAMETERS = {"messages", "retrieval", "temperature", "tools"}


def make_request(body: Mapping[str, Any]) -> ChatRequest:
    """The request of a body as chat completions have it, with `retrieval` and any parameters."""
    return ChatRequest(
        tuple(map(make_message, body["messages"])),
        Overrides(temperature=body.get("temperature")),
        grounding="none" if body.get("retrieval") is False else "required",
        generation=GenerationOptions(
            tuple(body.get("tools", ())),
            {name: value for name, value in body.items() if name not in NO_PARAMETERS},
        ),
    )


def make_message(raw: Mapping[str, Any]) -> Message:
    parts = list(iterate_parts(raw))
    images = map(part_image_url, parts)
    calls = enumerate(raw.get("tool_calls", ()))
    return Message(
        raw["role"],
        "\n".join(filter(None, map(part_text, parts))),
        images=tuple(image for image in images if image is not None),
        tool_calls=tuple(
            ToolCall(index, each["id"], function["name"], function.get("arguments", ""))
            for index, each in calls
            for function in [each["function"]]
        ),
        tool_call_id=raw.get("tool_call_id"),
        raw=raw,
    )


def run_answers(settings: Mapping[str, str], *bodies: Mapping[str, Any]) -> list[Answer]:
    """The answers of an app with these settings, asked in sequence. Raises ChatErrors."""

    async def go() -> list[Answer]:
        service = build(read_settings({**LAPTOP, **settings}))
        assert service.rag is not None
        try:
            return [
                await collect(answer(service.rag, make_request(body), PASSTHROUGH))
                for body in bodies
            ]
        finally:
            await close_models(service)

    return asyncio.run(go())


def run_events(settings: Mapping[str, str], body: Mapping[str, Any], events: list[Event]) -> None:
    """Append the events of an answer. Raises ChatErrors."""

    async def go() -> None:
        service = build(read_settings({**LAPTOP, **settings}))
        assert service.rag is not None
        try:
            async for event in answer(service.rag, make_request(body), PASSTHROUGH):
                events.append(event)
        finally:
            await close_models(service)

    asyncio.run(go())
