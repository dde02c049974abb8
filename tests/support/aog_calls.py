"""Calls of the AOG chat service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.http.call import Call
from tests.support.calls import JSON, BufferedReply, call, read_events

CHAT = "/aog/v0.2/services/{service}"
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


def aog_call(body: Any, headers: Mapping[str, str] = JSON, **more: Any) -> Call:
    """A call of the AOG chat service."""
    return call(CHAT, body, headers, **{"path": "chat", **more})


def read_text(reply: BufferedReply) -> str:
    """The answer's text in a reply, whole or streamed."""
    objects = read_events(reply) if reply.media_type == "text/event-stream" else [reply.json]
    return "".join(each["message"]["content"] for each in objects)
